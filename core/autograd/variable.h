// A tensor that takes part in differentiation. Copies share the same value and gradient.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "core/tensor/tensor.h"

namespace longhaul {

/// Where an op's backward writes the gradient of one of its inputs. accumulate: add to what `tensor` holds, else overwrite.
struct GradientSink {
  Tensor tensor;
  bool accumulate = false;
};

class Variable {
 public:
  Variable() = default;
  explicit Variable(Tensor value, bool requires_grad = false);

  bool defined() const { return state_ != nullptr; }
  const Tensor& value() const { return state_->value; }
  bool requires_grad() const { return state_ && state_->requires_grad; }
  const Shape& shape() const { return state_->value.shape(); }
  DType dtype() const { return state_->value.dtype(); }

  /// The gradient accumulated so far; undefined when nothing has reached this variable.
  const Tensor& grad() const { return state_->grad; }
  /// For kernels that write a gradient: the tensor to write and whether to add to it. Marks the gradient as present.
  /// A gradient whose memory is shared (see give_gradient) is copied first.
  GradientSink sink() const;
  /// For ops whose input gradient *is* an existing tensor (add, reshape): shares it when it is the first contribution,
  /// adds it otherwise.
  void give_gradient(const Tensor& gradient) const;
  void clear_gradient() const;

  /// Parameters: gradients go to fixed memory (a view into the flat gradient buffer), never reallocated.
  void bind_gradient(const Tensor& memory) const;
  /// Parameters: replace the value (rebinding into flat memory, loading).
  void set_value(const Tensor& value) const;
  /// Parameters: called when the last use recorded on a tape has been differentiated, i.e. the gradient is final.
  void on_gradient_ready(std::function<void()> callback) const;

 private:
  friend class Tape;
  struct State {
    Tensor value, grad, gradient_memory;
    bool requires_grad = false;
    int pending_uses = 0;  ///< recorded uses not yet differentiated
    std::function<void()> gradient_ready;
  };
  std::shared_ptr<State> state_;
};

}  // namespace longhaul
