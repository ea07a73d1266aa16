#include "kernels/cpu/attention_tile.h"
#include "kernels/error.h"

namespace longhaul::kernels::attention {

void check_shape(const AttentionShape& shape, bool backward) {
  if (shape.head_size < 1 || shape.head_size > kMaxHeadSize)
    throw internal_error("attention: head_size {} is outside 1..{}", shape.head_size, kMaxHeadSize);
  if (shape.key_heads < 1 || shape.query_heads % shape.key_heads != 0)
    throw internal_error("attention: {} query heads are not a multiple of {} key heads", shape.query_heads,
                         shape.key_heads);
  if (backward && shape.query_length != shape.key_length)
    throw internal_error(
        "attention backward: query_length {} differs from key_length {}; only training shapes have gradients",
        shape.query_length, shape.key_length);
}

}  // namespace longhaul::kernels::attention
