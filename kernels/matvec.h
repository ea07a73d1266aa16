// Few rows times a matrix, for decoding: as fast as the matrix can be read from memory, where a general product would
// copy it into its own layout first.
#pragma once

#include "kernels/device.h"

namespace longhaul::kernels {

/// y [rows, outputs] = x [rows, inputs] * weight^T, all row-major without gaps; weight [outputs, inputs] is read once.
/// An element is the dot product of a row of x and a row of weight in one order fixed by `inputs`: its bits do not
/// depend on other rows, other outputs or the number of threads. They are not those of matmul.
template <typename T>
void matvec(Cpu, T* y, const T* x, const T* weight, int64_t rows, int64_t outputs, int64_t inputs);

}  // namespace longhaul::kernels
