// AdamW (kernels/adamw.h).
#include "kernels/adamw.h"
#include "kernels/cuda/device.hpp"

namespace longhaul::kernels {
namespace cuda {

// The numbers of AdamWStep in the precision of the update.
struct AdamWNumbers {
  float learning_rate, beta1, beta2, epsilon, weight_decay, gradient_scale, first_factor, second_factor;
};

__global__ void adamw_kernel(float* parameter, float* m, float* v, const float* gradient, int64_t count,
                             AdamWNumbers step) {
  for (int64_t i = first_element(); i < count; i += element_stride()) {
    const float g = gradient[i] * step.gradient_scale;
    const float first = step.beta1 * m[i] + (1.0f - step.beta1) * g;
    const float second = step.beta2 * v[i] + (1.0f - step.beta2) * g * g;
    const float direction = first * step.first_factor / (sqrtf(second * step.second_factor) + step.epsilon);
    parameter[i] -= step.learning_rate * (direction + step.weight_decay * parameter[i]);
    m[i] = first;
    v[i] = second;
  }
}

}  // namespace cuda

template <>
void adamw_update<float>(Cuda device, float* parameter, float* m, float* v, const float* gradient, int64_t count,
                         const AdamWStep& step) {
  if (count == 0) return;
  const cuda::AdamWNumbers numbers{static_cast<float>(step.learning_rate),
                                   static_cast<float>(step.beta1),
                                   static_cast<float>(step.beta2),
                                   static_cast<float>(step.epsilon),
                                   static_cast<float>(step.weight_decay),
                                   static_cast<float>(step.gradient_scale),
                                   static_cast<float>(1.0 / step.bias_correction1),
                                   static_cast<float>(1.0 / step.bias_correction2)};
  cuda::launch(cuda::adamw_kernel, cuda::elementwise(device, count), parameter, m, v, gradient, count, numbers);
}

}  // namespace longhaul::kernels
