#include <gtest/gtest.h>

#include "kernels/layer_norm.h"
#include "kernels/rms_norm.h"
#include "tests/kernels/kernel_test.h"

namespace longhaul::kernels {
namespace {

/// One norm with its inputs and all results; `Layer` selects LayerNorm, otherwise RMSNorm.
template <typename T, bool Layer>
struct Norm {
  int64_t rows, columns;
  std::vector<T> x, weight, bias, dy;
  std::vector<T> y, mean, rstd, dx, dweight, dbias;
  double epsilon = Layer ? 1e-5 : 1e-6;

  Norm(int64_t row_count, int64_t column_count) : rows(row_count), columns(column_count) {
    x = random_values<T>(rows * columns, 1);
    for (T& value : x) value = value * 3 + T(0.5);
    weight = random_values<T>(columns, 2);
    bias = random_values<T>(columns, 3);
    dy = random_values<T>(rows * columns, 4);
    dx.assign(x.size(), T(NAN));
    dweight.assign(weight.size(), T(NAN));
    dbias.assign(weight.size(), T(NAN));
  }
  Norm& forward() {
    y.assign(x.size(), T(NAN));
    mean.assign(static_cast<size_t>(rows), T(NAN));
    rstd = mean;
    if constexpr (Layer)
      layer_norm_forward<T>(Cpu{}, y.data(), mean.data(), rstd.data(), x.data(), weight.data(), bias.data(), rows,
                            columns, epsilon);
    else
      rms_norm_forward<T>(Cpu{}, y.data(), rstd.data(), x.data(), weight.data(), rows, columns, epsilon);
    return *this;
  }
  Norm& backward(bool accumulate = false, bool accumulate_parameters = false) {
    if constexpr (Layer)
      layer_norm_backward<T>(Cpu{}, dx.data(), accumulate, dweight.data(), dbias.data(), accumulate_parameters,
                             dy.data(), x.data(), weight.data(), mean.data(), rstd.data(), rows, columns);
    else
      rms_norm_backward<T>(Cpu{}, dx.data(), accumulate, dweight.data(), accumulate_parameters, dy.data(), x.data(),
                           weight.data(), rstd.data(), rows, columns);
    return *this;
  }
  std::vector<double> reference() const {
    std::vector<double> result;
    for (int64_t row = 0; row < rows; ++row) {
      const T* const in = x.data() + row * columns;
      double m = 0, square = 0;
      if (Layer)
        for (int64_t c = 0; c < columns; ++c) m += double(in[c]) / static_cast<double>(columns);
      for (int64_t c = 0; c < columns; ++c)
        square += (double(in[c]) - m) * (double(in[c]) - m) / static_cast<double>(columns);
      for (int64_t c = 0; c < columns; ++c)
        result.push_back((double(in[c]) - m) / std::sqrt(square + epsilon) * double(weight[static_cast<size_t>(c)]) +
                         (Layer ? double(bias[static_cast<size_t>(c)]) : 0.0));
    }
    return result;
  }
};

template <typename Parameters>
class NormTest : public ::testing::Test {};
template <typename T, bool Layer>
struct Kind {
  using Element = T;
  static constexpr bool kLayer = Layer;
  using type = Norm<T, Layer>;
};
using Kinds = ::testing::Types<Kind<float, true>, Kind<double, true>, Kind<float, false>, Kind<double, false>>;
TYPED_TEST_SUITE(NormTest, Kinds);

TYPED_TEST(NormTest, ForwardMatchesTheDefinitionAtOddSizes) {
  for (int64_t columns : {1, 2, 3, 31, 63, 64, 65, 127, 768}) {
    typename TypeParam::type norm(3, columns);
    // One column: LayerNorm's variance is 0 and rounding of x - mean is scaled by 1 / sqrt(epsilon).
    norm.forward();
    EXPECT_LT(relative_error(norm.y, norm.reference()), 2 * tolerance<typename TypeParam::Element>()) << columns;
  }
}

TYPED_TEST(NormTest, GradientsMatchFiniteDifferences) {
  if constexpr (std::is_same_v<typename TypeParam::Element, double>) {
    for (int64_t columns : {3, 5, 17}) {
      typename TypeParam::type norm(3, columns);
      norm.forward().backward();
      const auto loss_of = [&](auto input) {
        return [&norm, input](const std::vector<double>& values) {
          auto moved = norm;
          moved.*input = values;
          return dot(moved.forward().y, norm.dy);
        };
      };
      using N = typename TypeParam::type;
      EXPECT_LT(relative_error(norm.dx, numeric_gradient(norm.x, loss_of(&N::x))), 1e-8) << columns;
      EXPECT_LT(relative_error(norm.dweight, numeric_gradient(norm.weight, loss_of(&N::weight))), 1e-8) << columns;
      if (TypeParam::kLayer) {
        EXPECT_LT(relative_error(norm.dbias, numeric_gradient(norm.bias, loss_of(&N::bias))), 1e-8) << columns;
      }
    }
  }
}

TYPED_TEST(NormTest, AccumulationAddsToWhatIsThere) {
  using T = typename TypeParam::Element;
  typename TypeParam::type fresh(4, 37), added(4, 37);
  fresh.forward().backward();
  added.forward();
  added.dx = random_values<T>(4 * 37, 9);
  added.dweight = random_values<T>(37, 10);
  added.dbias = random_values<T>(37, 11);
  const auto before = added;
  added.backward(true, true);
  for (size_t i = 0; i < fresh.dx.size(); ++i) EXPECT_EQ(added.dx[i], before.dx[i] + fresh.dx[i]);
  for (size_t i = 0; i < fresh.dweight.size(); ++i) {
    EXPECT_EQ(added.dweight[i], before.dweight[i] + fresh.dweight[i]);
    if (TypeParam::kLayer) {
      EXPECT_EQ(added.dbias[i], before.dbias[i] + fresh.dbias[i]);
    }
  }
}

TYPED_TEST(NormTest, InputGradientMayReplaceTheOutputGradient) {
  typename TypeParam::type norm(4, 37);
  norm.forward().backward();
  auto in_place = norm;
  if constexpr (TypeParam::kLayer)
    layer_norm_backward<typename TypeParam::Element>(Cpu{}, in_place.dy.data(), false, in_place.dweight.data(),
                                                     in_place.dbias.data(), false, in_place.dy.data(), norm.x.data(),
                                                     norm.weight.data(), norm.mean.data(), norm.rstd.data(), 4, 37);
  else
    rms_norm_backward<typename TypeParam::Element>(Cpu{}, in_place.dy.data(), false, in_place.dweight.data(), false,
                                                   in_place.dy.data(), norm.x.data(), norm.weight.data(),
                                                   norm.rstd.data(), 4, 37);
  EXPECT_TRUE(same_bits(in_place.dy, norm.dx));
  EXPECT_TRUE(same_bits(in_place.dweight, norm.dweight));
}

TYPED_TEST(NormTest, NoRowsGiveZeroParameterGradients) {
  typename TypeParam::type norm(0, 5);
  norm.forward().backward();
  for (auto value : norm.dweight) EXPECT_EQ(value, 0);
}

TYPED_TEST(NormTest, SameBitsOnAnyThreadsAndInAnyRow) {
  using T = typename TypeParam::Element;
  typename TypeParam::type norm(500, 131);
  expect_same_on_any_threads([&] {
    norm.forward().backward();
    std::vector<T> all = norm.y;
    for (const auto* part : {&norm.rstd, &norm.dx, &norm.dweight}) all.insert(all.end(), part->begin(), part->end());
    if (TypeParam::kLayer) all.insert(all.end(), norm.dbias.begin(), norm.dbias.end());
    return all;
  });
  for (int64_t row : {0, 1, 250, 499}) {
    typename TypeParam::type one(1, 131);
    const auto cut = [row](const std::vector<T>& from) {
      return std::vector<T>(from.begin() + row * 131, from.begin() + (row + 1) * 131);
    };
    one.x = cut(norm.x);
    one.dy = cut(norm.dy);
    one.forward().backward();
    EXPECT_TRUE(same_bits(one.y, cut(norm.y))) << row;
    EXPECT_TRUE(same_bits(one.dx, cut(norm.dx))) << row;
  }
}

}  // namespace
}  // namespace longhaul::kernels
