#include "core/tensor/tensor.h"

#include <sys/mman.h>

#include <memory>

#include "core/tensor/allocator.h"
#include "tests/core/error_check.h"

namespace longhaul {
namespace {

TEST(Tensor, HoldsWhatItWasMadeFrom) {
  const Tensor tensor = Tensor::from<float>({2, 3}, {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(tensor.to_vector<float>(), (std::vector<float>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(tensor.bytes(), 24);
  EXPECT_EQ(tensor.size(1), 3);
  testing::expect_error(Fault::kInternal, {"[2, 2]"}, [] { Tensor::from<float>({2, 2}, {1, 2, 3}); });
}

TEST(Tensor, WrongTypeIsAnError) {
  const Tensor tensor = Tensor::zeros({2}, DType::f32);
  testing::expect_error(Fault::kInternal, {"f32", "f64"}, [&] { tensor.data<double>(); });
  testing::expect_error(Fault::kInternal, {"item"}, [&] { (void)tensor.item<float>(); });
}

TEST(Tensor, ViewsAndRowRangesShareMemory) {
  const Tensor tensor = Tensor::from<int32_t>({3, 2}, {0, 1, 2, 3, 4, 5});
  EXPECT_TRUE(tensor.unique());
  const Tensor middle = tensor.rows(1, 3);
  EXPECT_FALSE(tensor.unique());
  EXPECT_EQ(middle.shape(), (Shape{2, 2}));
  EXPECT_EQ(middle.rows(1, 2).view({2}).to_vector<int32_t>(), (std::vector<int32_t>{4, 5}));
  middle.data<int32_t>()[0] = 9;
  EXPECT_EQ(tensor.data<int32_t>()[2], 9);
  EXPECT_EQ(tensor.rows(2, 2).count(), 0);
  testing::expect_error(Fault::kInternal, {"[3, 2]"}, [&] { tensor.rows(2, 4); });
  testing::expect_error(Fault::kInternal, {"[3, 2]", "[7]"}, [&] { tensor.view({7}); });
}

TEST(Tensor, CloneIsIndependent) {
  const Tensor tensor = Tensor::from<double>({2}, {1, 2});
  const Tensor copy = tensor.clone();
  copy.data<double>()[0] = 5;
  EXPECT_EQ(tensor.data<double>()[0], 1);
  EXPECT_TRUE(copy.unique());
}

TEST(Tensor, ConvertsBetweenFloatTypes) {
  const Tensor exact = Tensor::from<float>({3}, {1.0f, -0.5f, 1024.0f});
  for (const DType type : {DType::f64, DType::bf16}) {
    EXPECT_EQ(exact.to(type).to(DType::f32).to_vector<float>(), exact.to_vector<float>());
  }
  EXPECT_EQ(exact.to(DType::f64).to(DType::bf16).dtype(), DType::bf16);
  EXPECT_EQ(exact.to(DType::f32).raw(), exact.raw()) << "the same type copies nothing";
  testing::expect_error(Fault::kInternal, {"f32", "i32"}, [&] { exact.to(DType::i32); });
}

TEST(Tensor, CopyFromChecksShapeAndType) {
  const Tensor target = Tensor::zeros({2, 2}, DType::f32);
  target.copy_from(Tensor::from<float>({2, 2}, {1, 2, 3, 4}));
  EXPECT_EQ(target.to_vector<float>(), (std::vector<float>{1, 2, 3, 4}));
  testing::expect_error(Fault::kInternal, {"[2]", "[2, 2]"}, [&] { target.copy_from(Tensor::zeros({2}, DType::f32)); });
  testing::expect_error(Fault::kInternal, {"f64", "f32"}, [&] { target.copy_from(Tensor::zeros({2, 2}, DType::f64)); });
}

TEST(Tensor, WrappedMemoryKeepsItsOwnerAlive) {
  auto owner = std::make_shared<std::vector<float>>(4, 2.0f);
  const std::weak_ptr<std::vector<float>> watch = owner;
  Tensor tensor = Tensor::wrap(owner->data(), {4}, DType::f32, owner);
  owner.reset();
  EXPECT_FALSE(watch.expired());
  EXPECT_EQ(tensor.data<float>()[3], 2.0f);
  tensor = Tensor();
  EXPECT_TRUE(watch.expired());
}

TEST(Tensor, EmptyTensorsWork) {
  const Tensor tensor = Tensor::zeros({0, 5}, DType::f32);
  EXPECT_TRUE(tensor.defined());
  EXPECT_EQ(tensor.clone().count(), 0);
  EXPECT_EQ(tensor.to(DType::bf16).count(), 0);
}

TEST(Tensor, MemoryReturnsWithTheLastUser) {
  const int64_t before = allocator::use({}).live_bytes;
  {
    const Tensor tensor = Tensor::empty({1000}, DType::f32);
    const Tensor second = tensor.rows(0, 10);
    EXPECT_EQ(allocator::use({}).live_bytes, before + allocator::block_bytes(4000));
  }
  EXPECT_EQ(allocator::use({}).live_bytes, before);
}

// Address space without memory: only the touched pages exist.
TEST(Tensor, OffsetsBeyond32BitsAreExact) {
  const int64_t vocabulary = 50257, tokens = (int64_t{1} << 31) / vocabulary + 2;
  const int64_t count = tokens * vocabulary;
  ASSERT_GT(count, int64_t{1} << 31);
  const size_t bytes = static_cast<size_t>(count) * sizeof(float);
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  {
    const Tensor logits = Tensor::wrap(memory, {tokens, vocabulary}, DType::f32, nullptr);
    EXPECT_EQ(logits.bytes(), count * 4);
    const Tensor last = logits.rows(tokens - 1, tokens);
    last.data<float>()[vocabulary - 1] = 7.0f;
    EXPECT_EQ(last.data<float>() - logits.data<float>(), count - vocabulary);
    EXPECT_EQ(static_cast<float*>(memory)[count - 1], 7.0f);
    EXPECT_EQ(logits.view({count}).rows(count - 1, count).item<float>(), 7.0f);
  }
  munmap(memory, bytes);
}

}  // namespace
}  // namespace longhaul
