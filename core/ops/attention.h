// Causal multi-head attention over packed documents, with rotary positions inside.
#pragma once

#include "core/autograd/tape.h"
#include "core/ops/length_prior.h"
#include "core/tensor/batch.h"

namespace longhaul::ops {

struct AttentionOptions {
  int64_t query_heads = 0;
  int64_t key_heads = 0;  ///< divides query_heads (grouped-query attention, Ainslie et al. 2023)
  int64_t head_size = 0;
  Tensor rope_table;  ///< [positions, head_size] from kernels::rope_table, dtype of qkv; undefined: no RoPE
};

/// internal_error "op: ..." when the heads do not go together or the RoPE table has another width; user_error when a
/// position of the batch is beyond the table.
void check_attention_options(const char* op, const Batch& batch, const AttentionOptions& options);

/// qkv [B * T, (query_heads + 2 key_heads) * head_size]: in each row all query heads, then key heads, then value heads.
/// Returns [B * T, query_heads * head_size]: softmax(q k^T / sqrt(head_size)) v, causal, inside documents only. q and k
/// are rotated here, at batch.positions. Kept for the backward pass: the rotated qkv, the output and one number per row
/// and head. internal_error "attention: ..." with both shapes when they disagree; user_error when a position is beyond
/// the table. With a prior, its bias is added to the scores of all heads (softmax(q k^T / sqrt(head_size) + bias)) and
/// its mean_memberships, alignment and pos_beta get gradients; it costs memory of O(T) and changes nothing where
/// absent.
Variable attention(Tape& tape, const Variable& qkv, const Batch& batch, const AttentionOptions& options,
                   const LengthPrior* prior = nullptr);

}  // namespace longhaul::ops
