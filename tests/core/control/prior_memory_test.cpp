#include "core/control/prior_memory.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/core/error_check.h"

namespace longhaul {
namespace {

PriorMemory memory_of(int64_t layers, double momentum = 0.5) {
  return PriorMemory({.layers = layers, .regimes = 2, .momentum = momentum});
}

/// One layer of two regimes: the first regime's memberships by position.
Tensor rows(const std::vector<double>& first) {
  const Tensor result = Tensor::empty({1, static_cast<int64_t>(first.size()), 2}, DType::f64);
  for (size_t t = 0; t < first.size(); ++t) {
    result.data<double>()[2 * t] = first[t];
    result.data<double>()[2 * t + 1] = 1 - first[t];
  }
  return result;
}

Tensor square(double diagonal) {
  return Tensor::from<double>({1, 2, 2}, {diagonal, 1 - diagonal, 1 - diagonal, diagonal});
}

/// The first regime's column.
std::vector<double> first_column(const Tensor& memberships) {
  std::vector<double> column;
  for (int64_t t = 0; t < memberships.size(0); ++t) column.push_back(memberships.data<double>()[2 * t]);
  return column;
}

TEST(PriorMemory, BeforeTrainingAllRegimesAreAlike) {
  const PriorMemory memory({.layers = 3, .regimes = 4});
  EXPECT_EQ(memory.memberships(2, 3, DType::f64).to_vector<double>(), std::vector<double>(12, 0.25));
  EXPECT_EQ(memory.alignment(0, 3, DType::f32).to_vector<float>(), std::vector<float>(16, 0.25f));
  EXPECT_EQ(memory.decoding_length(70), 70);
  EXPECT_EQ(memory.control(), (PriorMemory::Control{.temperature = 0.68}));
}

TEST(PriorMemory, AYoungMeanIsThePlainOneAndAnOldOneForgets) {
  PriorMemory memory = memory_of(1, 0.75);
  const std::vector<double> seen = {0.5, 0.25, 1, 0, 0.125, 0.75};
  double plain = 0;
  for (size_t n = 0; n < 4; ++n) {
    memory.observe(1, rows({seen[n]}), square(seen[n]));
    plain += seen[n];
    EXPECT_NEAR(first_column(memory.memberships(0, 1, DType::f64))[0], plain / static_cast<double>(n + 1), 1e-15);
  }
  double mean = plain / 4;  // from here on 1 / n is below 1 - momentum
  for (size_t n = 4; n < 6; ++n) {
    memory.observe(1, rows({seen[n]}), square(seen[n]));
    mean = 0.75 * mean + 0.25 * seen[n];
  }
  EXPECT_NEAR(first_column(memory.memberships(0, 1, DType::f64))[0], mean, 1e-15);
  EXPECT_NEAR(memory.alignment(0, 1, DType::f64).data<double>()[1], 1 - mean, 1e-15);
  EXPECT_EQ(memory.entries().at(1).updates, 6);
}

TEST(PriorMemory, ATrainedLengthIsReadAsItIs) {
  PriorMemory memory = memory_of(1);
  memory.observe(3, rows({0.1, 0.7, 0.4}), square(0.3));
  memory.observe(5, rows({0, 0, 0, 0, 0}), square(1));
  EXPECT_EQ(first_column(memory.memberships(0, 3, DType::f64)), (std::vector<double>{0.1, 0.7, 0.4}));
  EXPECT_EQ(memory.alignment(0, 3, DType::f64).data<double>()[0], 0.3);
}

TEST(PriorMemory, BetweenTrainedLengthsTheNearerWeighsMore) {
  PriorMemory memory = memory_of(1);
  memory.observe(2, rows({0, 1}), square(0));
  memory.observe(6, rows({1, 0.5, 0, 0, 0.5, 1}), square(1));
  // Length 3 is a quarter of the way from 2 to 6. At the shares 0, 1/2, 1 of the row the entry of length 2 reads 0,
  // 1/2, 1, and that of length 6 reads 1, 0 (between its positions 2 and 3), 1.
  const std::vector<double> found = first_column(memory.memberships(0, 3, DType::f64));
  const std::vector<double> expected = {0.25, 0.375, 1};
  for (size_t t = 0; t < 3; ++t) EXPECT_NEAR(found[t], expected[t], 1e-15) << t;
  EXPECT_NEAR(memory.alignment(0, 3, DType::f64).data<double>()[0], 0.25, 1e-15);
}

TEST(PriorMemory, BeyondTrainedLengthsTheNearestAlone) {
  PriorMemory memory = memory_of(1);
  memory.observe(3, rows({0, 0.5, 1}), square(0.25));
  memory.observe(5, rows({1, 1, 1, 1, 0}), square(0.75));
  EXPECT_EQ(first_column(memory.memberships(0, 2, DType::f64)), (std::vector<double>{0, 1}));
  EXPECT_EQ(memory.alignment(0, 2, DType::f64).data<double>()[0], 0.25);
  EXPECT_EQ(first_column(memory.memberships(0, 1, DType::f64)), std::vector<double>{0});
  const std::vector<double> found = first_column(memory.memberships(0, 9, DType::f64));
  const std::vector<double> expected = {1, 1, 1, 1, 1, 1, 1, 0.5, 0};
  for (size_t t = 0; t < 9; ++t) EXPECT_NEAR(found[t], expected[t], 1e-15) << t;
  EXPECT_EQ(memory.alignment(0, 9, DType::f64).data<double>()[0], 0.75);
}

TEST(PriorMemory, LayersAreKeptApart) {
  PriorMemory memory = memory_of(2);
  memory.observe(1, Tensor::from<double>({2, 1, 2}, {0.1, 0.9, 0.6, 0.4}),
                 Tensor::from<double>({2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(memory.memberships(1, 1, DType::f64).to_vector<double>(), (std::vector<double>{0.6, 0.4}));
  EXPECT_EQ(memory.alignment(1, 4, DType::f64).to_vector<double>(), (std::vector<double>{5, 6, 7, 8}));
}

TEST(PriorMemory, ADecoderKeepsOneLength) {
  PriorMemory memory = memory_of(1);
  memory.observe(4, rows({0, 0, 0, 0}), square(0));
  memory.observe(2, rows({0, 0}), square(0));
  EXPECT_EQ(memory.decoding_length(3), 4);
  EXPECT_EQ(memory.decoding_length(9), 9);
}

TEST(PriorMemory, ShapesAreChecked) {
  PriorMemory memory = memory_of(1);
  testing::expect_error(Fault::kInternal, {"length 3", "[1, 2, 2]", "[1, 3, 2]"}, [&] {
    memory.observe(3, rows({0, 1}), square(0));
  });
  testing::expect_error(Fault::kInternal, {"0 layers"}, [] { memory_of(0); });
}

}  // namespace
}  // namespace longhaul
