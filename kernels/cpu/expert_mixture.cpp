#include "kernels/expert_mixture.h"

#include "kernels/cpu/parallel.h"
#include "kernels/cpu/vector_math.h"

namespace longhaul::kernels {
template <typename T>
void expert_mixture_forward(Cpu, T* y, const T* const* outputs, const T* weights, const ExpertPlaces& places,
                            int64_t columns) {
  const int64_t work = places.tokens * places.chosen * columns;
  parallel_ranges(places.tokens, 1, work, [=](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t)
      for (int64_t j = 0; j < places.chosen; ++j) {
        const int64_t choice = t * places.chosen + j;
        write_scaled(y + t * columns, j > 0, weights[choice],
                     outputs[places.experts[choice]] + places.rows[choice] * columns, columns);
      }
  });
}

template <typename T>
void expert_mixture_backward(Cpu, T* const* doutputs, const bool* accumulate, T* dweights, bool accumulate_weights,
                             const T* dy, const T* const* outputs, const T* weights, const ExpertPlaces& places,
                             int64_t columns) {
  const int64_t work = places.tokens * places.chosen * columns;
  parallel_ranges(places.tokens, 16, work, [=](int64_t begin, int64_t end) {
    for (int64_t choice = begin * places.chosen; choice < end * places.chosen; ++choice) {
      const T* const gradient = dy + choice / places.chosen * columns;
      const int64_t expert = places.experts[choice], row = places.rows[choice];
      if (dweights != nullptr) {
        const T product = static_cast<T>(dot(gradient, outputs[expert] + row * columns, columns));
        dweights[choice] = (accumulate_weights ? dweights[choice] : T(0)) + product;
      }
      if (doutputs[expert] != nullptr)
        write_scaled(doutputs[expert] + row * columns, accumulate[expert], weights[choice], gradient, columns);
    }
  });
}

#define LONGHAUL_INSTANTIATE(T)                                                                                     \
  template void expert_mixture_forward(Cpu, T*, const T* const*, const T*, const ExpertPlaces&, int64_t);           \
  template void expert_mixture_backward(Cpu, T* const*, const bool*, T*, bool, const T*, const T* const*, const T*, \
                                        const ExpertPlaces&, int64_t);
LONGHAUL_INSTANTIATE(float)
LONGHAUL_INSTANTIATE(double)
#undef LONGHAUL_INSTANTIATE

}  // namespace longhaul::kernels
