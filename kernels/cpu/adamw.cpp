#include "kernels/adamw.h"

#include <cmath>

#include "kernels/cpu/parallel.h"

namespace longhaul::kernels {

template <typename T>
void adamw_update(Cpu, T* parameter, T* m, T* v, const T* gradient, int64_t count, const AdamWStep& step) {
  // lr * m_hat / (sqrt(v_hat) + eps) = step_size * m / (sqrt(v) * root_scale + eps)
  const T beta1 = static_cast<T>(step.beta1), take1 = static_cast<T>(1 - step.beta1);
  const T beta2 = static_cast<T>(step.beta2), take2 = static_cast<T>(1 - step.beta2);
  const T gradient_scale = static_cast<T>(step.gradient_scale), epsilon = static_cast<T>(step.epsilon);
  const T step_size = static_cast<T>(step.learning_rate / step.bias_correction1);
  const T root_scale = static_cast<T>(1 / std::sqrt(step.bias_correction2));
  const T keep = static_cast<T>(1 - step.learning_rate * step.weight_decay);
  parallel_ranges(count, 1024, count, [=](int64_t begin, int64_t end) {
    T* __restrict const p = parameter, * __restrict const first = m, * __restrict const second = v;
    const T* __restrict const gradients = gradient;
    for (int64_t i = begin; i < end; ++i) {
      const T g = gradients[i] * gradient_scale;
      first[i] = beta1 * first[i] + take1 * g;
      second[i] = beta2 * second[i] + take2 * (g * g);
      p[i] = p[i] * keep - step_size * (first[i] / (std::sqrt(second[i]) * root_scale + epsilon));
    }
  });
}

template void adamw_update(Cpu, float*, float*, float*, const float*, int64_t, const AdamWStep&);
template void adamw_update(Cpu, double*, double*, double*, const double*, int64_t, const AdamWStep&);

}  // namespace longhaul::kernels
