#include <gmock/gmock.h>

#include "core/device/cuda_runtime.h"
#include "kernels/error.h"
#include "tests/core/device/cuda_test_array.h"

namespace longhaul::test {
namespace {

TEST(CudaMemory, RefusesADeviceThatIsNotThere) {
  const Device missing{Device::Kind::cuda, device::cuda_device_count()};
  try {
    device::allocate(16, missing);
    FAIL() << "expected an error";
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::kUser);
    EXPECT_THAT(error.what(), testing::HasSubstr(missing.name()));
  }
}

TEST(CudaMemory, FailureNamesTheCallAndItsObject) {
  try {
    cuda::check(cudaErrorMemoryAllocation, "cudaMalloc of 123 bytes on cuda:0");
    FAIL() << "expected an error";
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::kSystem);
    EXPECT_STREQ(error.what(), "cudaMalloc of 123 bytes on cuda:0: out of memory");
  }
}

TEST(CudaMemory, RoundTrip) {
  SKIP_WITHOUT_CUDA();
  const std::vector<int32_t> values{3, 1, 4, 1, 5};
  const CudaArray<int32_t> array(values);
  EXPECT_EQ(array.host(), values);
}

TEST(CudaMemory, FillSetsEveryByte) {
  SKIP_WITHOUT_CUDA();
  CudaArray<int32_t> array({1, 2, 3});
  device::fill(array.data(), kFirstCuda, 0xff, 12);
  EXPECT_EQ(array.host(), (std::vector<int32_t>{-1, -1, -1}));
}

TEST(CudaMemory, TooMuchIsRefusedAndTheNextCallWorks) {
  SKIP_WITHOUT_CUDA();
  EXPECT_THROW(device::allocate(int64_t{1} << 50, kFirstCuda), Error);
  const std::vector<int32_t> values{7};
  EXPECT_EQ(CudaArray<int32_t>(values).host(), values);
}

TEST(CudaRuntime, EventOrdersTwoStreams) {
  SKIP_WITHOUT_CUDA();
  const cuda::Stream first(0), second(0);
  const cuda::Event start(0), end(0);
  start.record(first);
  start.block(second);
  end.record(second);
  end.synchronize();
  EXPECT_GE(end.milliseconds_since(start), 0.0f);
}

}  // namespace
}  // namespace longhaul::test
