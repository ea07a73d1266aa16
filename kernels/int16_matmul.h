// Matrix product in 16-bit integers, for scores whose last digits do not matter (the gates of entropy-gated attention):
// every row of both operands is scaled to integers small enough that a dot product cannot overflow 32 bits. About twice
// the multiplications per instruction of an f32 product.
#pragma once

#include "kernels/device.h"

namespace longhaul::kernels {

/// Largest magnitude of a quantised element for dot products of `depth` terms: depth * limit^2 < 2^31. 1672 (11.7 bits
/// with sign) at depth 768, 1023 at 2048.
int64_t int16_limit(int64_t depth);

/// Elements of the left and the right operand as quantised below.
int64_t int16_left_count(int64_t rows, int64_t depth);
int64_t int16_right_count(int64_t columns, int64_t depth);

/// x [rows, depth] to integers: row r is about scales[r] * quantised, the nearest integer, largest magnitude
/// int16_limit. A row that is not finite gets the scale NaN.
void int16_quantize_left(Cpu, int16_t* quantized, float* scales, const float* x, int64_t rows, int64_t depth);
/// The same for weight [columns, depth], laid out in panels for the product.
void int16_quantize_right(Cpu, int16_t* quantized, float* scales, const float* weight, int64_t columns, int64_t depth);

/// c [rows, columns] (rows c_stride apart) = x weight^T of the quantised operands: exact integers, scaled. An element
/// depends on its two rows alone and has the same bits on every CPU.
void int16_matmul(Cpu, float* c, int64_t c_stride, const int16_t* left, const float* left_scales, const int16_t* right,
                  const float* right_scales, int64_t rows, int64_t columns, int64_t depth);

}  // namespace longhaul::kernels
