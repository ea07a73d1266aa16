#include "kernels/matvec.h"

#include <algorithm>
#include <vector>

#include "tests/kernels/kernel_test.h"

namespace longhaul::kernels {
namespace {

template <typename T>
std::vector<T> product(const std::vector<T>& x, const std::vector<T>& weight, int64_t rows, int64_t outputs,
                       int64_t inputs) {
  std::vector<T> y(static_cast<size_t>(rows * outputs), T(NAN));
  matvec<T>(Cpu{}, y.data(), x.data(), weight.data(), rows, outputs, inputs);
  return y;
}

template <typename T>
class MatvecTest : public ::testing::Test {};
using ElementTypes = ::testing::Types<float, double>;
TYPED_TEST_SUITE(MatvecTest, ElementTypes);

TYPED_TEST(MatvecTest, MatchesTheDefinitionAtOddSizes) {
  for (int64_t rows : {0, 1, 2, 3, 4, 5, 7})
    for (int64_t outputs : {0, 1, 3, 4, 9})
      for (int64_t inputs : {0, 1, 7, 8, 33, 200}) {
        const auto x = random_values<TypeParam>(rows * inputs, 1),
                   weight = random_values<TypeParam>(outputs * inputs, 2);
        std::vector<double> expected(static_cast<size_t>(rows * outputs), 0.0);
        for (int64_t r = 0; r < rows; ++r)
          for (int64_t o = 0; o < outputs; ++o)
            for (int64_t i = 0; i < inputs; ++i)
              expected[static_cast<size_t>(r * outputs + o)] +=
                  double(x[static_cast<size_t>(r * inputs + i)]) * double(weight[static_cast<size_t>(o * inputs + i)]);
        EXPECT_LT(relative_error(product(x, weight, rows, outputs, inputs), expected), tolerance<TypeParam>())
            << rows << " x " << outputs << " x " << inputs;
      }
}

TYPED_TEST(MatvecTest, AnElementDependsOnItsRowAndItsOutputAlone) {
  constexpr int64_t kRows = 8, kOutputs = 11, kInputs = 45;
  const auto x = random_values<TypeParam>(kRows * kInputs, 1), weight = random_values<TypeParam>(kOutputs * kInputs, 2);
  const auto whole = product(x, weight, kRows, kOutputs, kInputs);
  for (int64_t row = 0; row < kRows; ++row)
    for (int64_t output = 0; output < kOutputs; ++output) {
      const std::vector<TypeParam> one_row(x.begin() + row * kInputs, x.begin() + (row + 1) * kInputs);
      const std::vector<TypeParam> one_output(weight.begin() + output * kInputs,
                                              weight.begin() + (output + 1) * kInputs);
      EXPECT_TRUE(same_bits(product(one_row, one_output, 1, 1, kInputs),
                            {whole[static_cast<size_t>(row * kOutputs + output)]}));
    }
}

TYPED_TEST(MatvecTest, SameBitsOnAnyNumberOfThreads) {
  expect_same_on_any_threads([] {
    return product(random_values<TypeParam>(3 * 130, 1), random_values<TypeParam>(301 * 130, 2), 3, 301, 130);
  });
}

}  // namespace
}  // namespace longhaul::kernels
