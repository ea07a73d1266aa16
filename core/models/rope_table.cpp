#include "core/models/rope_table.h"

#include "kernels/rope.h"

namespace longhaul {

Tensor make_rope_table(const ModelConfig& config, DType dtype) {
  const int64_t head_size = config.d_model / config.n_head;
  const Tensor table = Tensor::empty({config.context_length, head_size}, dtype);
  dispatch_float("rope", dtype, [&](auto type) {
    using T = decltype(type);
    kernels::rope_table<T>(kernels::Cpu{}, table.data<T>(), config.context_length, head_size, config.rope_base);
  });
  return table;
}

}  // namespace longhaul
