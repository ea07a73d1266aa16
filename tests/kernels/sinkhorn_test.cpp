#include "kernels/sinkhorn.h"

#include "kernels/error.h"
#include "tests/kernels/kernel_test.h"

namespace longhaul::kernels {
namespace {

template <typename T>
struct Sinkhorn {
  int64_t rows, columns, iterations = 6;
  double temperature = 0.7;
  std::vector<T> scores, result, dresult, dscores;
  std::vector<double> steps;

  Sinkhorn(int64_t row_count, int64_t column_count) : rows(row_count), columns(column_count) {
    scores = random_values<T>(rows * columns, 1);
    dresult = random_values<T>(rows * columns, 2);
  }
  Sinkhorn& forward() {
    result.assign(scores.size(), T(NAN));
    steps.assign(scores.size() * static_cast<size_t>(2 * iterations), NAN);
    sinkhorn_forward<T>(Cpu{}, result.data(), steps.data(), scores.data(), temperature, iterations, rows, columns);
    return *this;
  }
  Sinkhorn& backward(bool accumulate = false, T before = T(NAN)) {
    dscores.assign(scores.size(), before);
    sinkhorn_backward<T>(Cpu{}, dscores.data(), accumulate, dresult.data(), steps.data(), scores.data(), temperature,
                         iterations, rows, columns);
    return *this;
  }
};

/// The published form: exponentials first, then sums.
std::vector<double> plain(const Sinkhorn<double>& s) {
  std::vector<double> p;
  for (double score : s.scores) p.push_back(std::min(std::max(std::exp(score / s.temperature), 1e-9), 1e9));
  const auto at = [&](int64_t r, int64_t c) -> double& { return p[static_cast<size_t>(r * s.columns + c)]; };
  for (int64_t n = 0; n < s.iterations; ++n) {
    for (int64_t r = 0; r < s.rows; ++r) {
      double sum = 0;
      for (int64_t c = 0; c < s.columns; ++c) sum += at(r, c);
      for (int64_t c = 0; c < s.columns; ++c) at(r, c) /= sum;
    }
    for (int64_t c = 0; c < s.columns; ++c) {
      double sum = 0;
      for (int64_t r = 0; r < s.rows; ++r) sum += at(r, c);
      for (int64_t r = 0; r < s.rows; ++r) at(r, c) /= sum;
    }
  }
  return p;
}

TEST(SinkhornTest, MatchesThePlainForm) {
  for (const auto& [rows, columns] : {std::pair{1, 1}, std::pair{4, 4}, std::pair{3, 5}, std::pair{8, 8}})
    for (double size : {1.0, 14.0, 40.0}) {  // the last beyond the clamp
      Sinkhorn<double> s(rows, columns);
      for (double& score : s.scores) score *= size;
      s.forward();
      EXPECT_LT(relative_error(s.result, plain(s)), 1e-12) << rows << " x " << columns << ", scores to " << size;
    }
}

TEST(SinkhornTest, ColumnsSumToOneAndRowsNearly) {
  Sinkhorn<double> s(4, 4);
  s.forward();
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_NEAR(s.result[i] + s.result[4 + i] + s.result[8 + i] + s.result[12 + i], 1, 1e-14);
    EXPECT_NEAR(s.result[4 * i] + s.result[4 * i + 1] + s.result[4 * i + 2] + s.result[4 * i + 3], 1, 1e-3);
  }
}

TEST(SinkhornTest, HugeScoresStayFinite) {
  Sinkhorn<float> s(4, 4);
  for (float& score : s.scores) score = score > 0 ? 1e4f : -1e4f;
  s.forward().backward();
  for (float value : s.result) EXPECT_TRUE(value >= 0 && value <= 1) << value;
  for (float value : s.dscores) EXPECT_EQ(value, 0) << "clamped scores have no gradient";
  for (float& score : s.scores) score = 1e4f;
  for (float value : s.forward().result) EXPECT_FLOAT_EQ(value, 0.25f);
}

TEST(SinkhornTest, GradientMatchesFiniteDifferences) {
  for (const auto& [rows, columns] : {std::pair{2, 2}, std::pair{4, 4}, std::pair{3, 5}, std::pair{8, 8}})
    for (int64_t iterations : {1, 6}) {
      Sinkhorn<double> s(rows, columns);
      s.iterations = iterations;
      s.forward().backward();
      const auto numeric = numeric_gradient(s.scores, [&s](const std::vector<double>& x) {
        Sinkhorn<double> moved = s;
        moved.scores = x;
        return dot(moved.forward().result, s.dresult);
      });
      EXPECT_LT(relative_error(s.dscores, numeric), 1e-8) << rows << " x " << columns << ", " << iterations;
    }
}

TEST(SinkhornTest, OnlyClampedScoresLoseTheirGradient) {
  Sinkhorn<double> s(2, 2);
  s.scores = {0.3, 20, -20, 0.5};  // limit: 0.7 ln 1e9 = 14.5
  s.forward().backward();
  EXPECT_NE(s.dscores[0], 0);
  EXPECT_EQ(s.dscores[1], 0);
  EXPECT_EQ(s.dscores[2], 0);
  Sinkhorn<double> added = s;
  added.backward(true, 2.0);
  for (size_t i = 0; i < 4; ++i) EXPECT_DOUBLE_EQ(added.dscores[i], 2 + s.dscores[i]);
}

TEST(SinkhornTest, FloatMatchesDouble) {
  Sinkhorn<double> exact(4, 4);
  Sinkhorn<float> single(4, 4);
  exact.forward().backward();
  single.forward().backward();
  EXPECT_LT(relative_error(single.result, exact.result), 1e-6);
  EXPECT_LT(relative_error(single.dscores, exact.dscores), 1e-5);
}

TEST(SinkhornTest, ImpossibleSizesAreRefused) {
  EXPECT_THROW(Sinkhorn<float>(9, 4).forward(), Error);
  Sinkhorn<float> s(2, 2);
  s.temperature = 0;
  EXPECT_THROW(s.forward(), Error);
}

}  // namespace
}  // namespace longhaul::kernels
