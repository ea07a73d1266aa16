#include "kernels/cpu_isa.h"

namespace longhaul::kernels {

const char* cpu_isa_name() {
#if defined(__AVX512F__) && defined(__AVX512VL__)
  return "x86-64-v4";
#elif defined(__AVX2__) && defined(__FMA__)
  return "x86-64-v3";
#elif defined(__x86_64__)
  return "x86-64";
#else
  return "portable";
#endif
}

}  // namespace longhaul::kernels
