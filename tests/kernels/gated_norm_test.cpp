#include "kernels/gated_norm.h"

#include "tests/kernels/kernel_test.h"

namespace longhaul::kernels {
namespace {

struct GatedNorm {
  GatedNormShape shape;
  std::vector<double> x, gate, weight, dy, rstd;

  GatedNorm(bool gate_first, bool shared_weight) {
    shape.rows = 5, shape.groups = 3, shape.size = 7;
    shape.x_stride = 21, shape.gate_stride = 25;
    shape.gate_first = gate_first, shape.shared_weight = shared_weight;
    x = random_values<double>(5 * 21, 1);
    gate = random_values<double>(5 * 25, 2);
    weight = random_values<double>(shared_weight ? 7 : 21, 3);
    dy = random_values<double>(5 * 21, 4);
    rstd.resize(15);
  }
  std::vector<double> forward(const std::vector<double>& x_in, const std::vector<double>& gate_in,
                              const std::vector<double>& weight_in) {
    std::vector<double> y(x.size(), NAN);
    gated_norm_forward<double>(Cpu{}, y.data(), rstd.data(), x_in.data(), gate_in.data(), weight_in.data(), shape);
    return y;
  }
  std::vector<double> reference() const {
    std::vector<double> y;
    for (int64_t row = 0; row < 5; ++row) {
      for (int64_t column = 0; column < 21; ++column) {
        const int64_t first = column / 7 * 7;
        const auto silu = [&](int64_t c) {
          const double g = gate[row * 25 + c];
          return g / (1 + std::exp(-g));
        };
        const auto normed = [&](int64_t c) { return x[row * 21 + c] * (shape.gate_first ? silu(c) : 1.0); };
        double sum = 0;
        for (int64_t c = first; c < first + 7; ++c) sum += normed(c) * normed(c);
        const double w = weight[shape.shared_weight ? column - first : column];
        const double norm = normed(column) / std::sqrt(sum / 7 + shape.epsilon) * w;
        y.push_back(shape.gate_first ? norm : norm * silu(column));
      }
    }
    return y;
  }
};

TEST(GatedNorm, FollowsItsDefinitionAndItsGradients) {
  for (const bool gate_first : {true, false}) {
    for (const bool shared_weight : {true, false}) {
      GatedNorm n(gate_first, shared_weight);
      EXPECT_LT(relative_error(n.forward(n.x, n.gate, n.weight), n.reference()), 1e-14);
      std::vector<double> dx(n.x.size(), NAN), dgate(n.gate.size(), 0.0), dweight(n.weight.size(), NAN);
      gated_norm_backward<double>(Cpu{}, dx.data(), dgate.data(), 25, dweight.data(), false, n.dy.data(), n.x.data(),
                                  n.gate.data(), n.weight.data(), n.rstd.data(), n.shape);
      const auto by_x = [&](const std::vector<double>& v) { return dot(n.forward(v, n.gate, n.weight), n.dy); };
      const auto by_gate = [&](const std::vector<double>& v) { return dot(n.forward(n.x, v, n.weight), n.dy); };
      const auto by_weight = [&](const std::vector<double>& v) { return dot(n.forward(n.x, n.gate, v), n.dy); };
      EXPECT_LT(relative_error(dx, numeric_gradient(n.x, by_x)), 1e-7);
      EXPECT_LT(relative_error(dgate, numeric_gradient(n.gate, by_gate)), 1e-7);
      EXPECT_LT(relative_error(dweight, numeric_gradient(n.weight, by_weight)), 1e-7);
    }
  }
}

TEST(L2Norm, FollowsItsDefinitionAndItsGradient) {
  // Two groups of 9 in rows of 21: the last three columns are somebody else's.
  const L2NormShape shape{.rows = 2, .groups = 2, .size = 9, .stride = 21, .scale = 0.125, .epsilon = 1e-6};
  const std::vector<double> x = random_values<double>(42, 1), dy = random_values<double>(42, 2);
  const auto inside = [](int64_t i) { return i % 21 < 18; };
  std::vector<double> norm(4);
  const auto forward = [&](const std::vector<double>& v) {
    std::vector<double> y(v.size(), 0.25);
    l2_norm_forward<double>(Cpu{}, y.data(), norm.data(), v.data(), shape);
    return y;
  };
  const std::vector<double> y = forward(x);
  for (int64_t i = 0; i < 42; ++i) {
    const int64_t begin = i / 21 * 21 + i % 21 / 9 * 9;
    double sum = 0;
    for (int64_t c = begin; c < begin + 9 && inside(i); ++c) sum += x[c] * x[c];
    EXPECT_NEAR(y[i], inside(i) ? 0.125 * x[i] / std::sqrt(sum + 1e-6) : 0.25, 1e-15);
  }
  std::vector<double> dx(x.size(), 0.0);
  l2_norm_backward<double>(Cpu{}, dx.data(), dy.data(), y.data(), norm.data(), shape);
  const auto loss = [&](const std::vector<double>& v) { return dot(forward(v), dy); };
  EXPECT_LT(relative_error(dx, numeric_gradient(x, loss)), 1e-7);
}

}  // namespace
}  // namespace longhaul::kernels
