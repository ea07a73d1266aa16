// AdamW (Loshchilov & Hutter 2019), one fused pass.
#pragma once

#include "kernels/bf16.h"
#include "kernels/device.h"

namespace longhaul::kernels {

struct AdamWStep {
  double learning_rate, beta1, beta2, epsilon, weight_decay;
  double gradient_scale;                      ///< multiplies the gradient: 1 / valid tokens, and clipping
  double bias_correction1, bias_correction2;  ///< 1 - beta1^t, 1 - beta2^t
};

/// parameter -= lr * (m_hat / (sqrt(v_hat) + eps) + weight_decay * parameter); m, v in the parameter's type.
/// Elementwise, so the result does not depend on how the elements are cut into calls.
template <typename T>
void adamw_update(Cpu, T* parameter, T* m, T* v, const T* gradient, int64_t count, const AdamWStep& step);

/// T is float: the state and the master copy of the parameters are always f32.
template <typename T>
void adamw_update(Cuda, T* parameter, T* m, T* v, const T* gradient, int64_t count, const AdamWStep& step);

}  // namespace longhaul::kernels
