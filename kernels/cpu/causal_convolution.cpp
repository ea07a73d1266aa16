#include "kernels/causal_convolution.h"

#include <algorithm>
#include <cmath>

#include "kernels/cpu/simd.h"
#include "kernels/error.h"

namespace longhaul::kernels {
namespace {

constexpr int64_t kBlock = 256;  ///< channels handled together: their taps stay in registers and the first cache
constexpr int64_t kMaxWidth = 8;

/// Taps [width][kBlock] and bias of a block of channels; zero beyond the last channel.
template <typename T>
struct Taps {
  Taps(const T* weight, const T* bias, int64_t channel, const ConvolutionShape& shape)
      : count(std::min(kBlock, shape.channels - channel)) {
    for (int64_t c = 0; c < count; ++c) {
      for (int64_t j = 0; j < shape.width; ++j) tap[j][c] = weight[(channel + c) * shape.width + j];
      offset[c] = bias ? bias[channel + c] : T(0);
    }
  }
  int64_t count;
  T tap[kMaxWidth][kBlock] = {};
  T offset[kBlock] = {};
};

int64_t first_tap(const ConvolutionShape& shape, const int32_t* document_start, int64_t row, int64_t t) {
  const int64_t start = document_start ? document_start[row * shape.length + t] : 0;
  return std::max<int64_t>(0, shape.width - 1 - (t - start));
}

/// pre[c] = offset + sum of the taps that lie inside the document; x points at the current token.
template <typename T>
void convolve(T* pre, const T* x, const Taps<T>& taps, int64_t first, const ConvolutionShape& shape) {
  std::copy_n(taps.offset, kBlock, pre);
  for (int64_t j = first; j < shape.width; ++j) {
    const T* earlier = x - (shape.width - 1 - j) * shape.x_stride;
    for (int64_t c = 0; c < taps.count; ++c) pre[c] += taps.tap[j][c] * earlier[c];
  }
}

void check_width(const ConvolutionShape& shape) {
  if (shape.width < 1 || shape.width > kMaxWidth) {
    throw internal_error("causal_convolution: width {} is outside 1..{}", shape.width, kMaxWidth);
  }
}

template <typename T>
void backward_block(T* dx, T* dweight, T* dbias, bool accumulate, const T* dy, const T* x, const T* weight,
                    const T* bias, const int32_t* document_start, const ConvolutionShape& shape, int64_t channel) {
  using V = simd::Vec<T>;
  const Taps<T> taps(weight, bias, channel, shape);
  T tap_gradient[kMaxWidth][kBlock] = {}, bias_gradient[kBlock] = {};
  for (int64_t row = 0; row < shape.batch; ++row) {
    for (int64_t t = 0; t < shape.length; ++t) {
      const int64_t token = row * shape.length + t, first = first_tap(shape, document_start, row, t);
      const T* x_token = x + token * shape.x_stride + channel;
      T dpre[kBlock];
      if (shape.silu) {
        T pre[kBlock];
        convolve(pre, x_token, taps, first, shape);
        simd::transform<T>(
            dpre, taps.count,
            [](V d, V p) {
              const V s = simd::sigmoid(p);
              return d * s * (T(1) + p * (T(1) - s));
            },
            dy + token * shape.y_stride + channel, pre);
      } else {
        std::copy_n(dy + token * shape.y_stride + channel, taps.count, dpre);
      }
      for (int64_t c = 0; c < taps.count; ++c) bias_gradient[c] += dpre[c];
      for (int64_t j = first; j < shape.width; ++j) {
        const int64_t back = (shape.width - 1 - j) * shape.x_stride;
        T* out = dx + token * shape.x_stride + channel - back;
        const bool own = j == shape.width - 1;  // rising tokens: the token itself is always the first to write its row
        for (int64_t c = 0; c < taps.count; ++c) {
          out[c] = (own ? T(0) : out[c]) + taps.tap[j][c] * dpre[c];
          tap_gradient[j][c] += dpre[c] * (x_token - back)[c];
        }
      }
    }
  }
  for (int64_t c = 0; c < taps.count; ++c) {
    for (int64_t j = 0; j < shape.width; ++j) {
      T& out = dweight[(channel + c) * shape.width + j];
      out = (accumulate ? out : T(0)) + tap_gradient[j][c];
    }
    if (dbias) dbias[channel + c] = (accumulate ? dbias[channel + c] : T(0)) + bias_gradient[c];
  }
}

}  // namespace

template <typename T>
void causal_convolution_forward(Cpu, T* y, const T* x, const T* weight, const T* bias, const int32_t* document_start,
                                const ConvolutionShape& shape) {
  using V = simd::Vec<T>;
  check_width(shape);
  const int64_t tokens = shape.batch * shape.length, blocks = (shape.channels + kBlock - 1) / kBlock;
#pragma omp parallel for schedule(static)
  for (int64_t block = 0; block < blocks; ++block) {
    const int64_t channel = block * kBlock;
    const Taps<T> taps(weight, bias, channel, shape);
    for (int64_t token = 0; token < tokens; ++token) {
      T pre[kBlock];
      convolve(pre, x + token * shape.x_stride + channel, taps,
               first_tap(shape, document_start, token / shape.length, token % shape.length), shape);
      T* out = y + token * shape.y_stride + channel;
      if (shape.silu) {
        simd::transform<T>(
            out, taps.count, [](V p) { return p * simd::sigmoid(p); }, pre);
      } else {
        std::copy_n(pre, taps.count, out);
      }
    }
  }
}

template <typename T>
void causal_convolution_backward(Cpu, T* dx, T* dweight, T* dbias, bool accumulate_parameters, const T* dy, const T* x,
                                 const T* weight, const T* bias, const int32_t* document_start,
                                 const ConvolutionShape& shape) {
  check_width(shape);
  // Channels are split over threads, tokens taken in order: no sum depends on the number of threads.
  const int64_t blocks = (shape.channels + kBlock - 1) / kBlock;
#pragma omp parallel for schedule(static)
  for (int64_t block = 0; block < blocks; ++block) {
    backward_block(dx, dweight, dbias, accumulate_parameters, dy, x, weight, bias, document_start, shape,
                   block * kBlock);
  }
}

template <typename T>
void causal_convolution_step(Cpu, T* y, T* window, const T* x, const T* weight, const T* bias,
                             const ConvolutionShape& shape) {
  const int64_t before = shape.width - 1;
  for (int64_t row = 0; row < shape.batch; ++row) {
    T* held = window + row * before * shape.channels;
    const T* current = x + row * shape.x_stride;
    for (int64_t c = 0; c < shape.channels; ++c) {
      T pre = bias ? bias[c] : T(0);
      for (int64_t j = 0; j < before; ++j) pre += weight[c * shape.width + j] * held[j * shape.channels + c];
      pre += weight[c * shape.width + before] * current[c];
      y[row * shape.y_stride + c] = shape.silu ? pre / (T(1) + std::exp(-pre)) : pre;
    }
    if (before > 0) {
      std::copy(held + shape.channels, held + before * shape.channels, held);
      std::copy_n(current, shape.channels, held + (before - 1) * shape.channels);
    }
  }
}

#define LONGHAUL_INSTANTIATE(T)                                                                               \
  template void causal_convolution_forward<T>(Cpu, T*, const T*, const T*, const T*, const int32_t*,          \
                                              const ConvolutionShape&);                                       \
  template void causal_convolution_backward<T>(Cpu, T*, T*, T*, bool, const T*, const T*, const T*, const T*, \
                                               const int32_t*, const ConvolutionShape&);                      \
  template void causal_convolution_step<T>(Cpu, T*, T*, const T*, const T*, const T*, const ConvolutionShape&)
LONGHAUL_INSTANTIATE(float);
LONGHAUL_INSTANTIATE(double);
#undef LONGHAUL_INSTANTIATE

}  // namespace longhaul::kernels
