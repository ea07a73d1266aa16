// Checks an op against central differences in double, and that its gradients survive every way they can be asked for:
// added to others, in bound memory, for some inputs only, with another seed, in memory full of NaN.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "core/autograd/tape.h"
#include "core/tensor/allocator.h"
#include "kernels/philox.h"

namespace longhaul::testing {

/// An op under test: from its differentiable inputs to its output.
using Function = std::function<Variable(Tape&, const std::vector<Variable>&)>;

/// Reproducible numbers in [-scale, scale).
template <typename T = double>
Tensor random_tensor(Shape shape, uint64_t seed, double scale = 1.0) {
  const Tensor tensor = Tensor::empty(shape, dtype_of<T>);
  for (int64_t i = 0; i < tensor.count(); ++i) {
    uint32_t bits[4];
    kernels::random_bits4({seed, 0, 0}, 0, static_cast<uint64_t>(i), bits);
    tensor.data<T>()[i] = static_cast<T>(scale * (2.0 * static_cast<double>(bits[0]) / 4294967296.0 - 1.0));
  }
  return tensor;
}

inline std::vector<std::byte> bytes_of(const Tensor& tensor) { return {tensor.raw(), tensor.raw() + tensor.bytes()}; }

/// Fills all memory with NaN while it lives.
class NanMemory {
 public:
  NanMemory() { allocator::fill_with_nan(true); }
  ~NanMemory() { allocator::fill_with_nan(false); }
};

class GradientCheck {
 public:
  GradientCheck(Function function, std::vector<Tensor> inputs)
      : function_(std::move(function)), inputs_(std::move(inputs)) {}

  /// Every check there is.
  void run(double tolerance = 1e-7) {
    const Tensor output = forward(inputs_);
    // A fixed random covector turns the output into a scalar; not of size one, so that seeds other than 1 are covered.
    covector_ = random_tensor(output.shape(), 4711, 2.0);
    const std::vector<Tensor> gradients = analytic(Case{});
    for (size_t input = 0; input < inputs_.size(); ++input)
      compare_with_differences(input, gradients[input], tolerance);
    check_accumulation(gradients);
    check_subsets(gradients);
    check_linearity(gradients);
    check_uninitialised_memory(output, gradients);
  }

 private:
  struct Case {
    bool bound = false;        ///< gradients in bound memory
    bool present = false;      ///< another contribution is there already
    size_t frozen = SIZE_MAX;  ///< an input that requires no gradient
    double seed = 1.0;
  };

  static Tensor prior(const Tensor& input, size_t index) { return random_tensor(input.shape(), 100 + index); }

  Tensor forward(const std::vector<Tensor>& inputs) const {
    Tape tape(Tape::Mode::off);
    std::vector<Variable> variables;
    for (const Tensor& input : inputs) variables.emplace_back(input, true);
    const Variable output = function_(tape, variables);
    EXPECT_FALSE(output.requires_grad()) << "a tape that is off recorded something";
    return output.value();
  }

  double scalar(const std::vector<Tensor>& inputs) const {
    const Tensor output = forward(inputs);
    double sum = 0;
    for (int64_t i = 0; i < output.count(); ++i) sum += output.data<double>()[i] * covector_.data<double>()[i];
    return sum;
  }

  std::vector<Tensor> analytic(const Case& how) const {
    Tape tape;
    std::vector<Variable> variables;
    for (size_t i = 0; i < inputs_.size(); ++i) {
      variables.emplace_back(inputs_[i], i != how.frozen);
      if (i == how.frozen) continue;
      if (how.bound) variables[i].bind_gradient(Tensor::empty(inputs_[i].shape(), DType::f64));
      if (how.present) variables[i].give_gradient(prior(inputs_[i], i));
    }
    const Variable output = function_(tape, variables);
    const Tensor seed = covector_.clone();
    for (double& value : seed.span<double>()) value *= how.seed;
    tape.backward_from(output, seed);
    std::vector<Tensor> gradients;
    for (size_t i = 0; i < variables.size(); ++i) {
      EXPECT_EQ(variables[i].grad().defined(), i != how.frozen) << "input " << i;
      gradients.push_back(variables[i].grad());
    }
    return gradients;
  }

  void compare_with_differences(size_t index, const Tensor& gradient, double tolerance) const {
    double largest = 1e-3, worst = 0;
    std::vector<Tensor> moved = inputs_;
    moved[index] = inputs_[index].clone();
    double* values = moved[index].data<double>();
    for (int64_t i = 0; i < gradient.count(); ++i) {
      const double numeric = five_point_difference(moved, values[i]);
      largest = std::max(largest, std::abs(numeric));
      worst = std::max(worst, std::abs(numeric - gradient.data<double>()[i]));
    }
    EXPECT_LT(worst / largest, tolerance) << "gradient of input " << index << " " << gradient.shape().text();
  }

  /// Fourth-order central difference with respect to `value`, an element of `inputs`.
  double five_point_difference(const std::vector<Tensor>& inputs, double& value) const {
    constexpr double kStep = 1e-3;
    const double centre = value;
    const auto at = [&](double offset) {
      value = centre + offset * kStep;
      return scalar(inputs);
    };
    const double difference = (8 * (at(1) - at(-1)) - (at(2) - at(-2))) / (12 * kStep);
    value = centre;
    return difference;
  }

  static void expect_close(const Tensor& found, const Tensor& expected, const char* what) {
    for (int64_t i = 0; i < expected.count(); ++i) {
      const double e = expected.data<double>()[i];
      ASSERT_NEAR(found.data<double>()[i], e, 1e-11 * (1 + std::abs(e))) << what << ", element " << i;
    }
  }

  void check_accumulation(const std::vector<Tensor>& gradients) const {
    for (const bool bound : {false, true}) {
      const std::vector<Tensor> alone = analytic({.bound = bound});
      const std::vector<Tensor> added = analytic({.bound = bound, .present = true});
      for (size_t i = 0; i < gradients.size(); ++i) {
        EXPECT_TRUE(bytes_of(alone[i]) == bytes_of(gradients[i])) << "input " << i << " in bound memory";
        const Tensor expected = prior(inputs_[i], i);
        for (int64_t e = 0; e < expected.count(); ++e) expected.data<double>()[e] += gradients[i].data<double>()[e];
        expect_close(added[i], expected, "added to another gradient");
      }
    }
  }

  void check_subsets(const std::vector<Tensor>& gradients) const {
    if (inputs_.size() < 2) return;
    for (size_t frozen = 0; frozen < inputs_.size(); ++frozen) {
      const std::vector<Tensor> found = analytic({.frozen = frozen});
      for (size_t i = 0; i < found.size(); ++i) {
        if (i != frozen) expect_close(found[i], gradients[i], "with another input frozen");
      }
    }
  }

  void check_linearity(const std::vector<Tensor>& gradients) const {
    const std::vector<Tensor> found = analytic({.bound = true, .seed = -1.75});
    for (size_t i = 0; i < found.size(); ++i) {
      const Tensor expected = gradients[i].clone();
      for (double& value : expected.span<double>()) value *= -1.75;
      expect_close(found[i], expected, "with another seed");
    }
  }

  void check_uninitialised_memory(const Tensor& output, const std::vector<Tensor>& gradients) const {
    const NanMemory nan;
    EXPECT_TRUE(bytes_of(forward(inputs_)) == bytes_of(output)) << "the output depends on uninitialised memory";
    const std::vector<Tensor> found = analytic(Case{});
    for (size_t i = 0; i < found.size(); ++i) {
      EXPECT_TRUE(bytes_of(found[i]) == bytes_of(gradients[i]))
          << "gradient " << i << " depends on uninitialised memory";
    }
  }

  Function function_;
  std::vector<Tensor> inputs_;
  Tensor covector_;
};

}  // namespace longhaul::testing
