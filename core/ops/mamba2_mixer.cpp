#include "core/ops/mamba2_mixer.h"

#include <omp.h>

#include <utility>
#include <vector>

#include "core/ops/op_support.h"
#include "kernels/causal_convolution.h"
#include "kernels/gated_norm.h"
#include "kernels/mamba2_scan.h"
#include "kernels/recurrent_gates.h"

namespace longhaul::ops {
namespace {

/// Everything the backward pass reads; the rest is recomputed inside the kernels.
struct Saved {
  Mamba2Options options;
  Batch batch;
  std::vector<kernels::DocumentChunk> chunks;
  Tensor projected, xbc, dt, y, rstd;
  Tensor convolution_weight, convolution_bias, dt_bias, a_log, d, norm_weight;
};

/// Column offsets and kernel shapes derived from the options.
struct Layout {
  Layout(const Mamba2Options& options, const Batch& batch)
      : stride(options.projected_columns()),
        xbc(options.inner()),
        dt(options.inner() + options.convolution_channels()) {
    convolution.batch = batch.rows();
    convolution.length = batch.length();
    convolution.channels = options.convolution_channels();
    convolution.width = options.convolution_width;
    convolution.x_stride = stride;
    convolution.y_stride = options.convolution_channels();
    scan = {batch.tokens(), options.heads, options.head_size, options.state_size, options.groups};
    norm.rows = batch.tokens();
    norm.size = options.inner();
    norm.x_stride = options.inner();
    norm.gate_stride = stride;
    norm.epsilon = options.norm_epsilon;
  }
  int64_t stride, xbc, dt;  ///< z begins at column 0
  kernels::ConvolutionShape convolution;
  kernels::Mamba2Shape scan;
  kernels::GatedNormShape norm;
};

template <typename T>
kernels::Mamba2Inputs<T> scan_inputs(const Saved& saved) {
  return {saved.xbc.data<T>(), saved.dt.data<T>(), saved.a_log.data<T>(), saved.d.data<T>()};
}

template <typename T>
Tensor scan_workspace(const Saved& saved, const Layout& layout, bool backward) {
  const int64_t bytes = kernels::mamba2_scan_workspace<T>(layout.scan, static_cast<int64_t>(saved.chunks.size()),
                                                          saved.options.chunk, backward, omp_get_max_threads());
  return Tensor::empty({(bytes + 7) / 8}, DType::f64);
}

template <typename T>
Tensor forward(Saved& saved, DType dtype) {
  const Layout layout(saved.options, saved.batch);
  const int64_t tokens = saved.batch.tokens();
  const T* projected = saved.projected.data<T>();
  saved.xbc = Tensor::empty({tokens, saved.options.convolution_channels()}, dtype);
  saved.dt = Tensor::empty({tokens, saved.options.heads}, dtype);
  saved.y = Tensor::empty({tokens, saved.options.inner()}, dtype);
  saved.rstd = Tensor::empty({tokens}, dtype);
  kernels::causal_convolution_forward<T>(kCpu, saved.xbc.data<T>(), projected + layout.xbc,
                                         saved.convolution_weight.data<T>(), saved.convolution_bias.data<T>(),
                                         saved.batch.document_start.data<int32_t>(), layout.convolution);
  kernels::softplus_gate_forward<T>(kCpu, saved.dt.data<T>(), projected + layout.dt, layout.stride,
                                    saved.dt_bias.data<T>(), tokens, saved.options.heads, saved.options.dt_low,
                                    saved.options.dt_high);
  const Tensor workspace = scan_workspace<T>(saved, layout, false);
  kernels::mamba2_scan_forward<T>(kCpu, saved.y.data<T>(), workspace.raw(), scan_inputs<T>(saved), layout.scan,
                                  saved.chunks.data(), static_cast<int64_t>(saved.chunks.size()), saved.options.chunk);
  const Tensor out = Tensor::empty({tokens, saved.options.inner()}, dtype);
  kernels::gated_norm_forward<T>(kCpu, out.data<T>(), saved.rstd.data<T>(), saved.y.data<T>(), projected,
                                 saved.norm_weight.data<T>(), layout.norm);
  return out;
}

/// Where the gradients of the parameters go, in the order of Mamba2Parameters.
struct Targets {
  GradientTarget projected, convolution_weight, convolution_bias, dt_bias, a_log, d, norm_weight;
};

template <typename T>
Tensor norm_backward(const Tensor& dout, T* dprojected, const Saved& saved, const Layout& layout,
                     const GradientTarget& weight) {
  const Tensor dy = Tensor::empty(saved.y.shape(), saved.y.dtype());
  write_gradients({weight}, {saved.norm_weight.shape()}, dtype_of<T>, [&](const std::vector<Tensor>& out) {
    kernels::gated_norm_backward<T>(kCpu, dy.data<T>(), dprojected, layout.stride, out[0].data<T>(), false,
                                    dout.data<T>(), saved.y.data<T>(), saved.projected.data<T>(),
                                    saved.norm_weight.data<T>(), saved.rstd.data<T>(), layout.norm);
  });
  return dy;
}

/// The gradients of xbc and dt.
template <typename T>
std::pair<Tensor, Tensor> scan_backward(const Tensor& dy, const Saved& saved, const Layout& layout,
                                        const Targets& targets) {
  const Tensor dxbc = Tensor::empty(saved.xbc.shape(), saved.xbc.dtype());
  const Tensor ddt = Tensor::empty(saved.dt.shape(), saved.dt.dtype());
  const Shape heads = saved.a_log.shape();
  write_gradients({targets.a_log, targets.d}, {heads, heads}, dtype_of<T>, [&](const std::vector<Tensor>& out) {
    const Tensor workspace = scan_workspace<T>(saved, layout, true);
    kernels::mamba2_scan_backward<T>(kCpu, {dxbc.data<T>(), ddt.data<T>(), out[0].data<T>(), out[1].data<T>(), false},
                                     workspace.raw(), dy.data<T>(), scan_inputs<T>(saved), layout.scan,
                                     saved.chunks.data(), static_cast<int64_t>(saved.chunks.size()),
                                     saved.options.chunk);
  });
  return {dxbc, ddt};
}

/// Writes all columns of dprojected: z by the norm, dt by the gate, x B C by the convolution.
template <typename T>
void backward_into(const Tensor& dout, const Tensor& dprojected, const Saved& saved, const Targets& targets) {
  const Layout layout(saved.options, saved.batch);
  const T* projected = saved.projected.data<T>();
  T* gradient = dprojected.data<T>();
  const Tensor dy = norm_backward<T>(dout, gradient, saved, layout, targets.norm_weight);
  const auto [dxbc_tensor, ddt_tensor] = scan_backward<T>(dy, saved, layout, targets);
  const T *dxbc = dxbc_tensor.template data<T>(), *ddt = ddt_tensor.template data<T>();
  write_gradients({targets.dt_bias}, {saved.dt_bias.shape()}, dtype_of<T>, [&](const std::vector<Tensor>& out) {
    kernels::softplus_gate_backward<T>(kCpu, gradient + layout.dt, layout.stride, out[0].data<T>(), false, ddt,
                                       projected + layout.dt, layout.stride, saved.dt_bias.data<T>(),
                                       saved.batch.tokens(), saved.options.heads, saved.options.dt_low,
                                       saved.options.dt_high);
  });
  write_gradients({targets.convolution_weight, targets.convolution_bias},
                  {saved.convolution_weight.shape(), saved.convolution_bias.shape()}, dtype_of<T>,
                  [&](const std::vector<Tensor>& out) {
                    kernels::causal_convolution_backward<T>(
                        kCpu, gradient + layout.xbc, out[0].data<T>(), out[1].data<T>(), false, dxbc,
                        projected + layout.xbc, saved.convolution_weight.data<T>(), saved.convolution_bias.data<T>(),
                        saved.batch.document_start.data<int32_t>(), layout.convolution);
                  });
}

void check(const Variable& projected, const Mamba2Parameters& p, const Batch& batch, const Mamba2Options& o) {
  if (o.heads < 1 || o.groups < 1 || o.heads % o.groups != 0 || o.chunk < 1) {
    throw internal_error("mamba2_mixer: {} heads in {} groups, chunks of {}: groups must divide heads", o.heads,
                         o.groups, o.chunk);
  }
  check_tokens("mamba2_mixer", projected.value(), batch.tokens());
  check_columns("mamba2_mixer", "projected input", projected.value(), o.projected_columns());
  check_columns("mamba2_mixer", "convolution weight", p.convolution_weight.value(), o.convolution_width);
  check_vector("mamba2_mixer", "convolution bias", p.convolution_bias.value(), o.convolution_channels(),
               projected.value());
  check_vector("mamba2_mixer", "dt bias", p.dt_bias.value(), o.heads, projected.value());
  check_vector("mamba2_mixer", "A_log", p.a_log.value(), o.heads, projected.value());
  check_vector("mamba2_mixer", "D", p.d.value(), o.heads, projected.value());
  check_vector("mamba2_mixer", "norm weight", p.norm_weight.value(), o.inner(), projected.value());
}

}  // namespace

Variable mamba2_mixer(Tape& tape, const Variable& projected, const Mamba2Parameters& p, const Batch& batch,
                      const Mamba2Options& options) {
  check(projected, p, batch, options);
  const DType dtype = projected.dtype();
  const auto value = [dtype](const Variable& parameter) {
    return compute_value("mamba2_mixer", parameter.value(), dtype);
  };
  Saved saved{options,
              batch,
              {},
              projected.value(),
              {},
              {},
              {},
              {},
              value(p.convolution_weight),
              value(p.convolution_bias),
              value(p.dt_bias),
              value(p.a_log),
              value(p.d),
              value(p.norm_weight)};
  saved.chunks =
      kernels::document_chunks(batch.document_start.data<int32_t>(), batch.rows(), batch.length(), options.chunk);
  return dispatch_float("mamba2_mixer", dtype, [&](auto type) {
    using T = decltype(type);
    const Tensor out = forward<T>(saved, dtype);
    const Targets targets{projected.target(),
                          p.convolution_weight.target(),
                          p.convolution_bias.target(),
                          p.dt_bias.target(),
                          p.a_log.target(),
                          p.d.target(),
                          p.norm_weight.target()};
    return tape.record(
        "mamba2_mixer", out,
        {projected, p.convolution_weight, p.convolution_bias, p.dt_bias, p.a_log, p.d, p.norm_weight},
        [saved = std::move(saved), targets](const Tensor& dout) {
          if (targets.projected.wanted()) {
            write_gradient(targets.projected,
                           [&](const Tensor& gradient) { backward_into<T>(dout, gradient, saved, targets); });
          } else {
            backward_into<T>(dout, Tensor::empty(saved.projected.shape(), saved.projected.dtype()), saved, targets);
          }
        });
  });
}

}  // namespace longhaul::ops
