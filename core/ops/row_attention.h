// Causal attention of some rows of a batch over all of them: what entropy-gated attention computes where it fires.
#pragma once

#include "core/ops/attention.h"

namespace longhaul::ops {

/// q [fired, query_heads * head_size]: the queries of tokens `query_rows` (i32 [fired] in rising order, b * T + t).
/// kv [B * T, 2 key_heads * head_size]: of every token all key heads, then all value heads. Returns [fired,
/// query_heads * head_size]: what ops::attention gives these tokens, to rounding; a document's rows have the same bits
/// whatever fires in other documents, and beside other documents or alone. q and k are rotated here, at the positions
/// of their tokens; the caller's q and kv stay as they are. Time grows with the number of (query, key) pairs; no query
/// at all is fine. The gradient of kv reaches every token that a query sees, zero elsewhere. internal_error
/// "row_attention: ..." with both shapes, or naming the first row that is out of order; user_error when a position is
/// beyond the RoPE table. With a prior its bias is added as ops::attention does, at the position of a query in its row.
Variable row_attention(Tape& tape, const Variable& q, const Variable& kv, const Tensor& query_rows, const Batch& batch,
                       const AttentionOptions& options, const LengthPrior* prior = nullptr);

}  // namespace longhaul::ops
