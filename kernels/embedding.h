// Token (and learned position) embedding.
#pragma once

#include "kernels/device.h"

namespace longhaul::kernels {

/// y [rows, columns] = tokens[ids[r]] + positions[position_ids[r]]. ids, position_ids [rows]; tokens [vocabulary,
/// columns]; positions may be null. Ids are valid: the caller has checked them.
template <typename T>
void embedding_forward(Cpu, T* y, const int32_t* ids, const int32_t* position_ids, const T* tokens, const T* positions,
                       int64_t rows, int64_t columns);

/// dtable[ids[r]] += dy[r] in rising r, so that the sum has one order for any number of threads. The caller zeroes
/// dtable
/// ([table_rows, columns]) before the first use.
template <typename T>
void embedding_backward(Cpu, T* dtable, const int32_t* ids, const T* dy, int64_t rows, int64_t columns);

template <typename T>
void embedding_forward(Cuda, T* y, const int32_t* ids, const int32_t* position_ids, const T* tokens, const T* positions,
                       int64_t rows, int64_t columns);
/// As on the CPU, without atomics; parameter gradients are always f32.
template <typename T>
void embedding_backward(Cuda, float* dtable, const int32_t* ids, const T* dy, int64_t rows, int64_t columns);

}  // namespace longhaul::kernels
