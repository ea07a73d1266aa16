#include "core/autograd/early_gradient.h"

#include "kernels/pointwise.h"

namespace longhaul {

EarlyGradient::EarlyGradient(const GradientTarget& target) : target_(target) {
  GradientTarget::State& state = *target_.state_;
  in_bound_memory_ = state.memory.defined() && !state.gradient.defined() && !state.reserved;
  if (in_bound_memory_) state.reserved = true;
  tensor_ = in_bound_memory_ ? state.memory : Tensor::empty(state.shape, state.dtype);
}

EarlyGradient::~EarlyGradient() {
  if (!holds_reservation()) return;
  target_.state_->reserved = false;
  target_.settle();
}

bool EarlyGradient::holds_reservation() const {
  return in_bound_memory_ && target_.state_->reserved && tensor_.raw() == target_.state_->memory.raw();
}

void EarlyGradient::deliver(double factor) {
  if (factor != 1.0) {
    dispatch_float("gradient", tensor_.dtype(), [&](auto type) {
      using T = decltype(type);
      kernels::scale(kernels::Cpu{}, tensor_.data<T>(), static_cast<T>(factor), tensor_.count());
    });
  }
  if (holds_reservation()) {
    GradientTarget::State& state = *target_.state_;
    const Tensor kept_apart = state.gradient;
    state.gradient = state.memory;
    state.reserved = false;
    if (kept_apart.defined()) target_.give(kept_apart);
  } else {
    target_.give(tensor_);
  }
  tensor_ = Tensor();  // from here on the variable alone holds it, and may add in place
  in_bound_memory_ = false;
}

}  // namespace longhaul
