// Small element-by-element and reduction kernels shared by ops and optimizers.
#pragma once

#include "kernels/bf16.h"
#include "kernels/device.h"
#include "kernels/philox.h"

namespace longhaul::kernels {

/// y = value.
template <typename T>
void fill(Cpu, T* y, T value, int64_t count);
/// y = a + b (y may be a or b).
template <typename T>
void add(Cpu, T* y, const T* a, const T* b, int64_t count);
/// y *= factor.
template <typename T>
void scale(Cpu, T* y, T factor, int64_t count);
/// y [rows, columns] += bias [columns].
template <typename T>
void add_bias(Cpu, T* y, const T* bias, int64_t rows, int64_t columns);
/// dbias [columns] (+)= column sums of dy [rows, columns], in rising row order for any number of threads.
template <typename T>
void column_sum(Cpu, T* dbias, bool accumulate, const T* dy, int64_t rows, int64_t columns);
/// out = in with conversion; pairs f32<->bf16, f64<->f32, f32->f32, f64->f64 exist.
template <typename To, typename From>
void convert(Cpu, To* out, const From* in, int64_t count);
/// Sum of squares in double, over fixed blocks of 4096 elements summed in order: independent of threads.
template <typename T>
double sum_of_squares(Cpu, const T* x, int64_t count);
/// True when every element is finite.
template <typename T>
bool all_finite(Cpu, const T* x, int64_t count);
/// average = decay * average + (1 - decay) * x.
template <typename T>
void lerp_average(Cpu, T* average, const T* x, double decay, int64_t count);

/// Dropout: y = x / (1 - p) where kept, else 0. Row r belongs to global sample sample_ids[r / rows_per_sample]; the
/// draw of its element e is keyed by (key, sample, (r % rows_per_sample) * columns + e). Same call for the backward
/// pass (x = dy).
template <typename T>
void dropout(Cpu, T* y, const T* x, double probability, RandomKey key, const int64_t* sample_ids, int64_t rows,
             int64_t rows_per_sample, int64_t columns);

// The same on a CUDA device. Nothing is allocated, so results of reductions go to device memory of the caller.
template <typename T>
void fill(Cuda, T* y, T value, int64_t count);
template <typename T>
void add(Cuda, T* y, const T* a, const T* b, int64_t count);
template <typename T>
void scale(Cuda, T* y, float factor, int64_t count);
template <typename T>
void add_bias(Cuda, T* y, const T* bias, int64_t rows, int64_t columns);
/// dbias is always f32, like every parameter gradient.
template <typename T>
void column_sum(Cuda, float* dbias, bool accumulate, const T* dy, int64_t rows, int64_t columns);
/// Pairs f32<->bf16, f32->f32.
template <typename To, typename From>
void convert(Cuda, To* out, const From* in, int64_t count);
/// result [1]; block_sums [ceil(count / 4096)] is scratch: one sum per 4096 elements, then added in order.
template <typename T>
void sum_of_squares(Cuda, double* result, double* block_sums, const T* x, int64_t count);
/// result [1]: 1 when every element is finite, else 0.
template <typename T>
void all_finite(Cuda, int32_t* result, const T* x, int64_t count);
template <typename T>
void lerp_average(Cuda, T* average, const T* x, double decay, int64_t count);
template <typename T>
void dropout(Cuda, T* y, const T* x, double probability, RandomKey key, const int64_t* sample_ids, int64_t rows,
             int64_t rows_per_sample, int64_t columns);

}  // namespace longhaul::kernels
