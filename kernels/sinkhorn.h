// Sinkhorn normalisation in the log domain (Sinkhorn & Knopp 1967; models.md 7.3).
#pragma once

#include "kernels/device.h"

namespace longhaul::kernels {

/// result [rows, columns]: exp(scores / temperature), clamped to [1e-9, 1e9], then `iterations` times divided by its
/// row sums and then by its column sums. Everything happens on logarithms in double, so no score overflows. rows and
/// columns at most kMaxRegimes. steps [2 * iterations, rows, columns]: logarithms after each half step, for the
/// backward pass.
template <typename T>
void sinkhorn_forward(Cpu, T* result, double* steps, const T* scores, double temperature, int64_t iterations,
                      int64_t rows, int64_t columns);

/// dscores (+)=; zero where the clamp held.
template <typename T>
void sinkhorn_backward(Cpu, T* dscores, bool accumulate, const T* dresult, const double* steps, const T* scores,
                       double temperature, int64_t iterations, int64_t rows, int64_t columns);

}  // namespace longhaul::kernels
