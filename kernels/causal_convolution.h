// Depthwise causal convolution over the tokens of a document, optionally followed by SiLU (models.md sections 3.2
// and 4.1).
#pragma once

#include "kernels/device.h"

namespace longhaul::kernels {

/// Rows are tokens, [batch * length] of them; x and y have their own distance between rows. The window never reaches
/// before document_start [batch, length] (row positions; null: 0).
struct ConvolutionShape {
  int64_t batch = 0, length = 0, channels = 0;
  int64_t width = 4;  ///< taps; weight [channels, width], the last tap multiplies the current token
  int64_t x_stride = 0, y_stride = 0;
  bool silu = true;
};

/// pre[t, c] = bias[c] + sum_j weight[c, j] x[t - (width - 1) + j, c]; y = silu(pre) or pre. bias may be null.
template <typename T>
void causal_convolution_forward(Cpu, T* y, const T* x, const T* weight, const T* bias, const int32_t* document_start,
                                const ConvolutionShape& shape);

/// dx (x_stride) is overwritten; dweight [channels, width] and dbias [channels] (null without bias) are overwritten or,
/// with accumulate_parameters, added to. pre is recomputed from x. dy has y_stride. Token order of every sum is fixed.
template <typename T>
void causal_convolution_backward(Cpu, T* dx, T* dweight, T* dbias, bool accumulate_parameters, const T* dy, const T* x,
                                 const T* weight, const T* bias, const int32_t* document_start,
                                 const ConvolutionShape& shape);

/// One token per sequence: window [batch, width - 1, channels] holds the inputs before it, oldest first, and is
/// shifted.
template <typename T>
void causal_convolution_step(Cpu, T* y, T* window, const T* x, const T* weight, const T* bias,
                             const ConvolutionShape& shape);

}  // namespace longhaul::kernels
