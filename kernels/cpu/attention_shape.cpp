#include "kernels/cpu/attention_prior_tile.h"
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

void check_prior(const AttentionShape& shape, int64_t rank, int64_t length) {
  if (rank < 0 || rank > kMaxPriorRank)
    throw internal_error("attention: a prior of rank {} is outside 1..{}", rank, kMaxPriorRank);
  if (rank > 0 && length < shape.key_length)
    throw internal_error("attention: the prior has {} positions, the keys have {}", length, shape.key_length);
}

}  // namespace longhaul::kernels::attention
