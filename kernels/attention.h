// Causal softmax attention, tiled with online softmax: O(T) memory forward and backward (Dao et al. 2022,
// FlashAttention; Milakov & Gimelshein 2018 for the online softmax). Documents packed in one row never see each other.
#pragma once

#include "kernels/device.h"

namespace longhaul::kernels {

/// Sizes and strides of one attention call. Token (b, t) of q lies at q + (b * query_length + t) * q_stride, head h at
/// + h * head_size; k and v likewise over key_length with kv_stride and key_heads heads (grouped-query attention:
/// query head h reads key head h * key_heads / query_heads). out and dout use out_stride.
/// Query t sits at key position key_length - query_length + t (training: the lengths are equal; decoding: the queries
/// are the last ones). In training the walk goes document by document, with tiles counted from the document's start, so
/// that a packed document gets the same bits as one alone.
struct AttentionShape {
  int64_t batch = 0, query_length = 0, key_length = 0;
  int64_t query_heads = 0, key_heads = 0, head_size = 0;
  int64_t q_stride = 0, kv_stride = 0, out_stride = 0;
  double scale = 1;  ///< usually 1 / sqrt(head_size)
};

inline constexpr int64_t kMaxPriorRank = 8;

/// What attention adds to the scores of every head and row: for key j <= query i of a row, both positions in the row,
///   bias_ij = clamp(sum over r < rank of query_ir key_jr + query_i,rank + key_j,rank, -limit, limit).
/// query and key are [length, rank + 1]; rank 1..kMaxPriorRank;
/// length >= key_length.
template <typename T>
struct AttentionPrior {
  int64_t length = 0, rank = 0;
  const T* query = nullptr;
  const T* key = nullptr;
  double limit = 0;
};

/// What the backward calls leave for the gradient of a prior of rank K: with G_ij the gradient to bias_ij, 0 where it
/// was clipped, the sums over rows of the batch, heads and keys j of G_ij key_jr for each r < K, of G_ij, and of
/// G_ij (i - j). By position i in the row; summed in a fixed order.
template <typename T>
struct AttentionPriorGradient {
  double* sums = nullptr;  ///< [key_length, K + 2]; null: not wanted
  T* rows = nullptr;       ///< scratch, K + 2 for each query and head
};

/// out: attention output; lse [batch, query_heads, query_length]: log-sum-exp of each row's scores, scaled and with the
/// prior (-inf where a query sees no key; its output is exactly 0). document_start [batch, query_length]: first key
/// position each query may see, non-decreasing along a row; null: 0 everywhere. A prior of rank 0 is none.
template <typename T>
void attention_forward(Cpu, T* out, T* lse, const T* q, const T* k, const T* v, const int32_t* document_start,
                       const AttentionShape& shape, const AttentionPrior<T>& prior = {});

/// Overwrites dq, dk, dv (layout and strides of q, k, v). delta [batch, query_heads, query_length] is scratch.
/// Needs query_length == key_length. The result does not depend on the number of threads.
template <typename T>
void attention_backward(Cpu, T* dq, T* dk, T* dv, T* delta, const T* dout, const T* out, const T* lse, const T* q,
                        const T* k, const T* v, const int32_t* document_start, const AttentionShape& shape,
                        const AttentionPrior<T>& prior = {}, const AttentionPriorGradient<T>& dprior = {});

// Attention of some tokens only (entropy-gated attention computes the queries that fired): `count` queries, query i is
// that of token query_rows[i] of the flat [batch * key_length] token axis, in rising order; it sees the keys of its
// document up to its own position. q, out, dq and dout hold the queries alone, row i at + i * stride; k, v, dk and dv
// and document_start [batch, key_length] all tokens; lse and delta are [query_heads, count]. shape.query_length equals
// key_length. A row has the bits that attention_forward gives it. Gradients of keys sum over tiles of queries counted
// from the first one of each document, so that what fires in other documents changes no bits. The prior goes by the
// position of a query in its row; positions that no query has get sums of 0.

template <typename T>
void attention_rows_forward(Cpu, T* out, T* lse, const T* q, const T* k, const T* v, const int32_t* query_rows,
                            int64_t count, const int32_t* document_start, const AttentionShape& shape,
                            const AttentionPrior<T>& prior = {});

/// Overwrites dq, and dk and dv of every token (zero where no query saw it).
template <typename T>
void attention_rows_backward(Cpu, T* dq, T* dk, T* dv, T* delta, const T* dout, const T* out, const T* lse, const T* q,
                             const T* k, const T* v, const int32_t* query_rows, int64_t count,
                             const int32_t* document_start, const AttentionShape& shape,
                             const AttentionPrior<T>& prior = {}, const AttentionPriorGradient<T>& dprior = {});

}  // namespace longhaul::kernels
