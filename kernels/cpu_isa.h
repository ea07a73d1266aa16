// Which variant of the CPU kernel library is loaded.
#pragma once

namespace longhaul::kernels {

/// Instruction set the loaded library was compiled for: "x86-64" (SSE2), "x86-64-v3" (AVX2, FMA), "x86-64-v4" (AVX-512)
/// or "portable". The dynamic loader picks the library (kernels/CMakeLists.txt); results may differ in the last bits
/// between variants, so exact comparisons need equal ones.
const char* cpu_isa_name();

}  // namespace longhaul::kernels
