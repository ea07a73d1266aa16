// A gradient that is known before the backward pass reaches it: the fused output layer computes its weight's gradient
// while the logits are at hand, in the forward pass.
#pragma once

#include "core/autograd/variable.h"

namespace longhaul {

/// Holds such a gradient from forward to backward. It lies in the variable's bound gradient memory when that is free
/// (no extra memory), else in memory of its own; contributions of other uses that arrive meanwhile are kept apart and
/// added on delivery. A tape that is dropped without a backward pass leaves no trace of it.
class EarlyGradient {
 public:
  explicit EarlyGradient(const GradientTarget& target);
  ~EarlyGradient();
  EarlyGradient(const EarlyGradient&) = delete;
  EarlyGradient& operator=(const EarlyGradient&) = delete;

  /// Memory to fill with the gradient; its content is undefined at first.
  const Tensor& tensor() const { return tensor_; }
  /// Adds factor * tensor() to the variable's gradient. Call once, in the backward pass.
  void deliver(double factor);

 private:
  bool holds_reservation() const;

  GradientTarget target_;
  Tensor tensor_;
  bool in_bound_memory_ = false;
};

}  // namespace longhaul
