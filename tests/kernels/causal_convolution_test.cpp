#include "kernels/causal_convolution.h"

#include "tests/kernels/kernel_test.h"
#include "tests/kernels/recurrence_fixture.h"

namespace longhaul::kernels {
namespace {

struct Convolution {
  ConvolutionShape shape;
  std::vector<int32_t> starts;
  std::vector<double> x, weight, bias, dy;

  Convolution(const std::vector<int64_t>& documents, int64_t channels, bool silu) : starts(document_starts(documents)) {
    shape.batch = 1;
    shape.length = static_cast<int64_t>(starts.size());
    shape.channels = channels;
    shape.x_stride = channels + 3;  // a slice of a wider matrix
    shape.y_stride = channels;
    shape.silu = silu;
    x = random_values<double>(shape.length * shape.x_stride, 1);
    weight = random_values<double>(channels * shape.width, 2);
    bias = random_values<double>(channels, 3);
    dy = random_values<double>(shape.length * channels, 4);
  }
  std::vector<double> forward(const std::vector<double>& x_in, const std::vector<double>& weight_in,
                              const std::vector<double>& bias_in) const {
    std::vector<double> y(dy.size(), NAN);
    causal_convolution_forward<double>(Cpu{}, y.data(), x_in.data(), weight_in.data(), bias_in.data(), starts.data(),
                                       shape);
    return y;
  }
  /// The definition, tap by tap.
  std::vector<double> reference() const {
    std::vector<double> y;
    for (int64_t t = 0; t < shape.length; ++t) {
      for (int64_t c = 0; c < shape.channels; ++c) {
        double pre = bias[c];
        for (int64_t j = 0; j < shape.width; ++j) {
          const int64_t from = t - (shape.width - 1) + j;
          if (from >= starts[t]) pre += weight[c * shape.width + j] * x[from * shape.x_stride + c];
        }
        y.push_back(shape.silu ? pre / (1 + std::exp(-pre)) : pre);
      }
    }
    return y;
  }
};

TEST(CausalConvolution, FollowsItsDefinitionAndItsGradients) {
  for (const bool silu : {true, false}) {
    for (const auto& documents : std::vector<std::vector<int64_t>>{{1}, {3}, {9}, {1, 2, 3, 4, 5}}) {
      const Convolution c(documents, 67, silu);
      EXPECT_LT(relative_error(c.forward(c.x, c.weight, c.bias), c.reference()), 1e-14);
      std::vector<double> dx(c.x.size(), 0.0), dweight(c.weight.size(), NAN), dbias(c.bias.size(), NAN);
      causal_convolution_backward<double>(Cpu{}, dx.data(), dweight.data(), dbias.data(), false, c.dy.data(),
                                          c.x.data(), c.weight.data(), c.bias.data(), c.starts.data(), c.shape);
      const auto by_x = [&](const std::vector<double>& v) { return dot(c.forward(v, c.weight, c.bias), c.dy); };
      const auto by_weight = [&](const std::vector<double>& v) { return dot(c.forward(c.x, v, c.bias), c.dy); };
      const auto by_bias = [&](const std::vector<double>& v) { return dot(c.forward(c.x, c.weight, v), c.dy); };
      EXPECT_LT(relative_error(dx, numeric_gradient(c.x, by_x)), 1e-7);
      EXPECT_LT(relative_error(dweight, numeric_gradient(c.weight, by_weight)), 1e-7);
      EXPECT_LT(relative_error(dbias, numeric_gradient(c.bias, by_bias)), 1e-7);
    }
  }
}

TEST(CausalConvolution, StepsEqualTheFullForm) {
  const Convolution c({11}, 5, true);
  const std::vector<double> full = c.forward(c.x, c.weight, c.bias);
  ConvolutionShape one = c.shape;
  one.length = 1;
  std::vector<double> window(3 * 5, 0.0), y(5);
  for (int64_t t = 0; t < 11; ++t) {
    causal_convolution_step<double>(Cpu{}, y.data(), window.data(), c.x.data() + t * c.shape.x_stride, c.weight.data(),
                                    c.bias.data(), one);
    for (int64_t i = 0; i < 5; ++i) EXPECT_NEAR(y[i], full[t * 5 + i], 1e-14) << t;
  }
}

TEST(CausalConvolution, OtherDocumentsAreOutOfReach) {
  Convolution c({5, 11}, 64, true);
  const auto before = c.forward(c.x, c.weight, c.bias);
  c.x[4 * c.shape.x_stride] += 1;  // last token of the first document
  const auto after = c.forward(c.x, c.weight, c.bias);
  EXPECT_TRUE(same_bits(std::vector<double>(before.begin() + 5 * 64, before.end()),
                        std::vector<double>(after.begin() + 5 * 64, after.end())));
}

}  // namespace
}  // namespace longhaul::kernels
