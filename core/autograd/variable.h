// A tensor that takes part in differentiation. Copies share the same value and gradient.
#pragma once

#include <functional>
#include <memory>

#include "core/tensor/tensor.h"

namespace longhaul {

/// Where an op's backward writes the gradient of one of its inputs. accumulate: add to what `tensor` holds, else
/// overwrite.
struct GradientSink {
  Tensor tensor;
  bool accumulate = false;
};

/// The gradient side of a Variable, without its value. Backward functions and the tape hold this, so that they keep
/// alive only the activations they really read.
class GradientTarget {
 public:
  GradientTarget() = default;  ///< nobody wants this gradient: wanted() is false

  bool wanted() const { return state_ != nullptr; }
  const Shape& shape() const { return state_->shape; }
  DType dtype() const { return state_->dtype; }  ///< of the gradient: f32 for a bf16 value, else the value's

  /// The gradient accumulated so far; undefined when nothing has arrived.
  const Tensor& gradient() const { return state_->gradient; }
  /// For kernels that write a gradient: the tensor to write and whether to add to it. Marks the gradient as present, so
  /// the caller must write. Memory shared with another holder (see give) is copied first.
  GradientSink sink() const;
  /// For ops whose input gradient *is* an existing tensor (add, reshape): shares it when it is the first contribution,
  /// adds it otherwise.
  void give(const Tensor& gradient) const;
  void clear() const { state_->gradient = Tensor(); }

 private:
  friend class Variable;
  friend class Tape;
  friend class EarlyGradient;
  struct State {
    Shape shape;
    DType dtype = DType::f32;
    Tensor gradient;
    Tensor memory;          ///< parameters: where the gradient must end up
    bool reserved = false;  ///< memory holds a gradient that is not delivered yet (early_gradient.h)
    int pending_uses = 0;   ///< recorded uses not yet differentiated
    std::function<void()> ready;
  };
  bool in_bound_memory() const { return state_->memory.defined() && state_->gradient.raw() == state_->memory.raw(); }
  void settle() const;  ///< moves a gradient collected beside reserved memory into it

  std::shared_ptr<State> state_;
};

class Variable {
 public:
  Variable() = default;
  explicit Variable(Tensor value, bool requires_grad = false);
  /// A variable with this value whose gradient is that of another: what recomputation differentiates.
  Variable(Tensor value, GradientTarget target);

  bool defined() const { return value_ != nullptr; }
  const Tensor& value() const { return *value_; }
  bool requires_grad() const { return target_.wanted(); }
  const GradientTarget& target() const { return target_; }
  const Shape& shape() const { return value_->shape(); }
  DType dtype() const { return value_->dtype(); }

  /// The gradient accumulated so far; undefined when nothing has reached this variable. The gradient of an op's output
  /// is dropped as soon as the op has been differentiated.
  const Tensor& grad() const;
  GradientSink sink() const { return target_.sink(); }
  void give_gradient(const Tensor& gradient) const { target_.give(gradient); }
  void clear_gradient() const;

  /// Parameters: gradients go to fixed memory (a view into the flat gradient buffer), never reallocated. The gradient
  /// is absent afterwards. Memory of the gradient's shape and dtype, else internal_error.
  void bind_gradient(const Tensor& memory) const;
  /// Parameters: replace the value (rebinding into flat memory, loading).
  void set_value(const Tensor& value) const;
  /// Parameters: called when the last use recorded on a tape has been differentiated, i.e. the gradient is final. A
  /// bound gradient that received nothing has been zeroed by then. The callback must not own this variable or its
  /// target.
  void on_gradient_ready(std::function<void()> callback) const;

 private:
  std::shared_ptr<Tensor> value_;
  GradientTarget target_;
};

}  // namespace longhaul
