// Rotary position embedding, rotate-half pairing (i, i + D/2), angles in fp32/fp64, never lower (Su et al. 2021;
// models.md section 1).
#pragma once

#include "kernels/device.h"

namespace longhaul::kernels {

/// Rotates x in place. x: rows of `heads` heads of size `head_size`, row r at x + r * row_stride. position_ids [rows].
/// cos_sin [max_position, head_size]: for each position head_size/2 cosines, then head_size/2 sines of position *
/// base^(-2i/D). inverse rotates by the negative angle: the backward pass.
template <typename T>
void rope_rotate(Cpu, T* x, const int32_t* position_ids, const T* cos_sin, int64_t rows, int64_t heads,
                 int64_t head_size, int64_t row_stride, bool inverse);

/// Fills cos_sin [positions, head_size]; angles are computed in double.
template <typename T>
void rope_table(Cpu, T* cos_sin, int64_t positions, int64_t head_size, double base);

}  // namespace longhaul::kernels
