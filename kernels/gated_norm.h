// RMS norms with a SiLU gate, as the recurrent mixers use them (models.md 3.5 and 4.5), and the L2 norm of queries and
// keys.
#pragma once

#include "kernels/device.h"

namespace longhaul::kernels {

/// Rows of groups of `size` values: group g of row r lies at x + r * x_stride + g * size; gate likewise with
/// gate_stride; y and the gradients of x are dense [rows, groups * size]; rstd [rows, groups]. weight [groups * size],
/// or [size] with shared_weight.
struct GatedNormShape {
  int64_t rows = 0, groups = 1, size = 0, x_stride = 0, gate_stride = 0;
  bool shared_weight = false;
  bool gate_first = true;  ///< RMSNorm(x silu(gate)) (Mamba2); else RMSNorm(x) silu(gate) (Gated DeltaNet)
  double epsilon = 1e-5;
  int64_t columns() const { return groups * size; }
};

template <typename T>
void gated_norm_forward(Cpu, T* y, T* rstd, const T* x, const T* gate, const T* weight, const GatedNormShape& shape);

/// dx and dgate (rows dgate_stride apart) are overwritten; dweight is overwritten, or added to with
/// accumulate_parameters. The sum over rows has one order for any number of threads.
template <typename T>
void gated_norm_backward(Cpu, T* dx, T* dgate, int64_t dgate_stride, T* dweight, bool accumulate_parameters,
                         const T* dy, const T* x, const T* gate, const T* weight, const T* rstd,
                         const GatedNormShape& shape);

/// Rows of groups of `size` values, rows `stride` apart; norm [rows, groups].
struct L2NormShape {
  int64_t rows = 0, groups = 1, size = 0, stride = 0;
  double scale = 1, epsilon = 1e-6;
};

/// y = scale * x / sqrt(sum x^2 + epsilon) over each group; y may be x. norm keeps 1 / sqrt(...).
template <typename T>
void l2_norm_forward(Cpu, T* y, T* norm, const T* x, const L2NormShape& shape);

/// dx from dy and the output y, all `stride` apart (dx may be dy).
template <typename T>
void l2_norm_backward(Cpu, T* dx, const T* dy, const T* y, const T* norm, const L2NormShape& shape);

}  // namespace longhaul::kernels
