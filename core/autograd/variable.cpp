#include "core/autograd/variable.h"

#include <utility>

#include "kernels/pointwise.h"

namespace longhaul {
namespace {

/// y = a + b elementwise; y may be a or b.
void add_into(const Tensor& y, const Tensor& a, const Tensor& b) {
  dispatch_float("gradient", y.dtype(), [&](auto type) {
    using T = decltype(type);
    kernels::add(kernels::Cpu{}, y.data<T>(), a.data<T>(), b.data<T>(), y.count());
  });
}

void check_gradient(const Tensor& gradient, const Shape& shape, DType dtype) {
  if (!(gradient.shape() == shape) || gradient.dtype() != dtype) {
    throw internal_error("gradient: {} {} given for a variable whose gradient is {} {}", name_of(gradient.dtype()),
                         gradient.shape().text(), name_of(dtype), shape.text());
  }
}

const Tensor& undefined_tensor() {
  static const Tensor tensor;
  return tensor;
}

}  // namespace

GradientSink GradientTarget::sink() const {
  Tensor& gradient = state_->gradient;
  if (!gradient.defined()) {
    const bool use_memory = state_->memory.defined() && !state_->reserved;
    gradient = use_memory ? state_->memory : Tensor::empty(state_->shape, state_->dtype);
    return {gradient, false};
  }
  if (!in_bound_memory() && !gradient.unique()) gradient = gradient.clone();
  return {gradient, true};
}

void GradientTarget::give(const Tensor& contribution) const {
  check_gradient(contribution, state_->shape, state_->dtype);
  Tensor& gradient = state_->gradient;
  if (!gradient.defined()) {
    if (state_->memory.defined()) {
      sink().tensor.copy_from(contribution);
    } else {
      gradient = contribution;
    }
    return;
  }
  if (in_bound_memory() || gradient.unique()) {
    add_into(gradient, gradient, contribution);
  } else {
    const Tensor sum = Tensor::empty(state_->shape, state_->dtype);
    add_into(sum, gradient, contribution);
    gradient = sum;
  }
}

void GradientTarget::settle() const {
  if (!state_->gradient.defined() || !state_->memory.defined() || in_bound_memory()) return;
  state_->memory.copy_from(state_->gradient);
  state_->gradient = state_->memory;
}

Variable::Variable(Tensor value, bool requires_grad) : value_(std::make_shared<Tensor>(std::move(value))) {
  if (!requires_grad) return;
  target_.state_ = std::make_shared<GradientTarget::State>();
  target_.state_->shape = value_->shape();
  target_.state_->dtype = value_->dtype() == DType::bf16 ? DType::f32 : value_->dtype();
}

Variable::Variable(Tensor value, GradientTarget target)
    : value_(std::make_shared<Tensor>(std::move(value))), target_(std::move(target)) {}

const Tensor& Variable::grad() const { return target_.wanted() ? target_.gradient() : undefined_tensor(); }

void Variable::clear_gradient() const {
  if (target_.wanted()) target_.clear();
}

void Variable::bind_gradient(const Tensor& memory) const {
  if (!target_.wanted()) throw internal_error("bind_gradient: variable {} requires no gradient", shape().text());
  check_gradient(memory, target_.shape(), target_.dtype());
  GradientTarget::State& state = *target_.state_;
  const bool same_memory = state.memory.defined() && state.memory.raw() == memory.raw();
  if (!same_memory) state.reserved = false;
  state.memory = memory;
  state.gradient = Tensor();
}

void Variable::set_value(const Tensor& value) const {
  if (!(value.shape() == shape()) || value.dtype() != dtype()) {
    throw internal_error("set_value: {} {} given for a parameter {} {}", name_of(value.dtype()), value.shape().text(),
                         name_of(dtype()), shape().text());
  }
  *value_ = value;
}

void Variable::on_gradient_ready(std::function<void()> callback) const { target_.state_->ready = std::move(callback); }

}  // namespace longhaul
