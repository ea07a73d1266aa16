#include "kernels/cpu_isa.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

namespace longhaul::kernels {
namespace {

TEST(CpuIsaTest, TheLoaderPicksTheBestVariantThisMachineRuns) {
  const std::string name = cpu_isa_name();
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizer builds have one variant: " << name;
#elif defined(__x86_64__)
  const char* const tunables = std::getenv("GLIBC_TUNABLES");
  const bool restricted = tunables != nullptr && std::string(tunables).find("-AVX2") != std::string::npos;
  if (restricted)
    EXPECT_EQ(name, "x86-64");
  else if (__builtin_cpu_supports("x86-64-v4"))
    EXPECT_EQ(name, "x86-64-v4");
  else if (__builtin_cpu_supports("x86-64-v3"))
    EXPECT_EQ(name, "x86-64-v3");
  else
    EXPECT_EQ(name, "x86-64");
#else
  EXPECT_EQ(name, "portable");
#endif
}

}  // namespace
}  // namespace longhaul::kernels
