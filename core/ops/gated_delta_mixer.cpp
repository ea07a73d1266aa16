#include "core/ops/gated_delta_mixer.h"

#include <omp.h>

#include <cmath>
#include <utility>
#include <vector>

#include "core/ops/op_support.h"
#include "kernels/causal_convolution.h"
#include "kernels/gated_delta_rule.h"
#include "kernels/gated_norm.h"
#include "kernels/recurrent_gates.h"

namespace longhaul::ops {
namespace {

/// Column offsets of the projected rows and the kernels' shapes.
struct Layout {
  Layout(const GatedDeltaOptions& options, int64_t batch_rows, int64_t length)
      : tokens(batch_rows * length),
        stride(options.projected_columns()),
        gate(options.convolution_channels()),
        b(gate + options.value_columns()),
        a(b + options.heads) {
    convolution.batch = batch_rows;
    convolution.length = length;
    convolution.channels = convolution.y_stride = gate;
    convolution.width = options.convolution_width;
    convolution.x_stride = stride;
    queries = {tokens,
               options.heads,
               options.key_size,
               gate,
               1 / std::sqrt(static_cast<double>(options.key_size)),
               options.key_norm_epsilon};
    keys = queries;
    keys.scale = 1;
    rule = {tokens, options.heads, options.key_size, options.value_size, gate};
    norm.rows = tokens;
    norm.groups = options.heads;
    norm.size = options.value_size;
    norm.x_stride = options.value_columns();
    norm.gate_stride = stride;
    norm.shared_weight = true;
    norm.gate_first = false;
    norm.epsilon = options.norm_epsilon;
  }
  int64_t tokens, stride, gate, b, a;
  kernels::ConvolutionShape convolution;
  kernels::L2NormShape queries, keys;
  kernels::DeltaRuleShape rule;
  kernels::GatedNormShape norm;
};

/// Parameters in the type of the computation.
struct Values {
  Values(const GatedDeltaParameters& p, DType dtype)
      : convolution_weight(compute_value("gated_delta_mixer", p.convolution_weight.value(), dtype)),
        a_log(compute_value("gated_delta_mixer", p.a_log.value(), dtype)),
        dt_bias(compute_value("gated_delta_mixer", p.dt_bias.value(), dtype)),
        norm_weight(compute_value("gated_delta_mixer", p.norm_weight.value(), dtype)) {}
  Tensor convolution_weight, a_log, dt_bias, norm_weight;
};

struct Targets {
  GradientTarget projected, convolution_weight, a_log, dt_bias, norm_weight;
};

/// What the recurrence reads: cheap to compute from the projected rows, so it is computed again in the backward pass.
template <typename T>
struct RuleInputs {
  RuleInputs(const GatedDeltaOptions& options, const Layout& layout)
      : mixed(Tensor::empty({layout.tokens, layout.gate}, dtype_of<T>)),
        norms(Tensor::empty({2, layout.tokens, options.heads}, dtype_of<T>)),
        log_alpha(Tensor::empty({layout.tokens, options.heads}, dtype_of<T>)),
        beta(Tensor::empty({layout.tokens, options.heads}, dtype_of<T>)),
        key_columns(options.key_columns()) {}

  T* q() const { return mixed.data<T>(); }
  T* k() const { return q() + key_columns; }
  T* v() const { return k() + key_columns; }
  T* query_norms() const { return norms.data<T>(); }
  T* key_norms() const { return norms.data<T>() + log_alpha.count(); }
  kernels::DeltaRuleInputs<T> pointers() const { return {q(), k(), v(), log_alpha.data<T>(), beta.data<T>()}; }

  /// Everything after the convolution.
  void finish(const Tensor& projected, const Values& values, const Layout& layout) const {
    const T* x = projected.data<T>();
    kernels::l2_norm_forward<T>(kCpu, q(), query_norms(), q(), layout.queries);
    kernels::l2_norm_forward<T>(kCpu, k(), key_norms(), k(), layout.keys);
    kernels::delta_gates_forward<T>(kCpu, log_alpha.data<T>(), beta.data<T>(), x + layout.a, x + layout.b,
                                    layout.stride, values.a_log.data<T>(), values.dt_bias.data<T>(), layout.tokens,
                                    layout.queries.groups);
  }

  Tensor mixed;  ///< q | k | v after convolution and SiLU, q and k normed in place
  Tensor norms, log_alpha, beta;
  int64_t key_columns;
};

/// What the backward pass reads: the projected rows, the output of the recurrence and the norms of its rows.
struct Saved {
  GatedDeltaOptions options;
  Batch batch;
  Values values;
  std::vector<kernels::DocumentChunk> chunks;
  Tensor projected, mixed_values, rstd;
  Layout layout() const { return Layout(options, batch.rows(), batch.length()); }
};

template <typename T>
RuleInputs<T> rule_inputs(const Saved& saved, const Layout& layout) {
  RuleInputs<T> inputs(saved.options, layout);
  kernels::causal_convolution_forward<T>(kCpu, inputs.q(), saved.projected.data<T>(),
                                         saved.values.convolution_weight.data<T>(), nullptr,
                                         saved.batch.document_start.data<int32_t>(), layout.convolution);
  inputs.finish(saved.projected, saved.values, layout);
  return inputs;
}

template <typename T>
Tensor rule_workspace(const Saved& saved, const Layout& layout, bool backward) {
  return Tensor::empty({kernels::gated_delta_rule_workspace<T>(layout.rule, static_cast<int64_t>(saved.chunks.size()),
                                                               saved.options.chunk, backward, omp_get_max_threads()) /
                            8 +
                        1},
                       DType::f64);
}

template <typename T>
Tensor forward(Saved& saved) {
  const Layout layout = saved.layout();
  const Shape shape{layout.tokens, saved.options.value_columns()};
  saved.mixed_values = Tensor::empty(shape, dtype_of<T>);
  saved.rstd = Tensor::empty({layout.tokens, saved.options.heads}, dtype_of<T>);
  {
    const RuleInputs<T> inputs = rule_inputs<T>(saved, layout);
    const Tensor workspace = rule_workspace<T>(saved, layout, false);
    kernels::gated_delta_rule_forward<T>(kCpu, saved.mixed_values.data<T>(), workspace.raw(), inputs.pointers(),
                                         layout.rule, saved.chunks.data(), static_cast<int64_t>(saved.chunks.size()),
                                         saved.options.chunk);
  }
  const Tensor out = Tensor::empty(shape, dtype_of<T>);
  kernels::gated_norm_forward<T>(kCpu, out.data<T>(), saved.rstd.data<T>(), saved.mixed_values.data<T>(),
                                 saved.projected.data<T>() + layout.gate, saved.values.norm_weight.data<T>(),
                                 layout.norm);
  return out;
}

/// Gradients of the recurrence's inputs, and from those of the gates, into dprojected and the gates' parameters.
/// Returns the gradient of q | k | v after the convolution.
template <typename T>
Tensor backward_rule(const Tensor& dprojected, const Tensor& dvalues, const Saved& saved, const Targets& targets) {
  const Layout layout = saved.layout();
  const RuleInputs<T> inputs = rule_inputs<T>(saved, layout);
  const RuleInputs<T> gradients(saved.options, layout);
  {
    const Tensor workspace = rule_workspace<T>(saved, layout, true);
    kernels::gated_delta_rule_backward<T>(kCpu,
                                          {gradients.q(), gradients.k(), gradients.v(),
                                           gradients.log_alpha.template data<T>(), gradients.beta.template data<T>()},
                                          workspace.raw(), dvalues.data<T>(), inputs.pointers(), layout.rule,
                                          saved.chunks.data(), static_cast<int64_t>(saved.chunks.size()),
                                          saved.options.chunk);
  }
  kernels::l2_norm_backward<T>(kCpu, gradients.q(), gradients.q(), inputs.q(), inputs.query_norms(), layout.queries);
  kernels::l2_norm_backward<T>(kCpu, gradients.k(), gradients.k(), inputs.k(), inputs.key_norms(), layout.keys);
  const T* x = saved.projected.data<T>();
  T* dx = dprojected.data<T>();
  const Shape heads{saved.options.heads};
  write_gradients({targets.a_log, targets.dt_bias}, {heads, heads}, dtype_of<T>, [&](const std::vector<Tensor>& out) {
    kernels::delta_gates_backward<T>(kCpu, dx + layout.a, dx + layout.b, out[0].data<T>(), out[1].data<T>(), false,
                                     gradients.log_alpha.template data<T>(), gradients.beta.template data<T>(),
                                     x + layout.a, x + layout.b, layout.stride, saved.values.a_log.data<T>(),
                                     saved.values.dt_bias.data<T>(), layout.tokens, heads[0]);
  });
  return gradients.mixed;
}

template <typename T>
void backward(const Tensor& dout, const Tensor& dprojected, const Saved& saved, const Targets& targets) {
  const Layout layout = saved.layout();
  const T* x = saved.projected.data<T>();
  T* dx = dprojected.data<T>();
  Tensor dvalues = Tensor::empty(saved.mixed_values.shape(), dtype_of<T>);
  write_gradients(
      {targets.norm_weight}, {{saved.options.value_size}}, dtype_of<T>, [&](const std::vector<Tensor>& out) {
        kernels::gated_norm_backward<T>(kCpu, dvalues.data<T>(), dx + layout.gate, layout.stride, out[0].data<T>(),
                                        false, dout.data<T>(), saved.mixed_values.data<T>(), x + layout.gate,
                                        saved.values.norm_weight.data<T>(), saved.rstd.data<T>(), layout.norm);
      });
  const Tensor dmixed = backward_rule<T>(dprojected, dvalues, saved, targets);
  dvalues = Tensor();
  write_gradients({targets.convolution_weight}, {saved.values.convolution_weight.shape()}, dtype_of<T>,
                  [&](const std::vector<Tensor>& out) {
                    kernels::causal_convolution_backward<T>(
                        kCpu, dx, out[0].data<T>(), nullptr, false, dmixed.data<T>(), x,
                        saved.values.convolution_weight.data<T>(), nullptr, saved.batch.document_start.data<int32_t>(),
                        layout.convolution);
                  });
}

void check(const Tensor& projected, const GatedDeltaParameters& p, const GatedDeltaOptions& o) {
  constexpr const char* kOp = "gated_delta_mixer";
  check_columns(kOp, "projected input", projected, o.projected_columns());
  check_columns(kOp, "convolution weight", p.convolution_weight.value(), o.convolution_width);
  if (p.convolution_weight.value().size(0) != o.convolution_channels()) {
    throw internal_error("{}: convolution weight {} for {} channels of q, k and v", kOp,
                         p.convolution_weight.shape().text(), o.convolution_channels());
  }
  check_vector(kOp, "A_log", p.a_log.value(), o.heads, projected);
  check_vector(kOp, "dt_bias", p.dt_bias.value(), o.heads, projected);
  check_vector(kOp, "norm weight", p.norm_weight.value(), o.value_size, projected);
}

}  // namespace

Variable gated_delta_mixer(Tape& tape, const Variable& projected, const GatedDeltaParameters& p, const Batch& batch,
                           const GatedDeltaOptions& options) {
  check(projected.value(), p, options);
  check_tokens("gated_delta_mixer", projected.value(), batch.tokens());
  return dispatch_float("gated_delta_mixer", projected.dtype(), [&](auto type) {
    using T = decltype(type);
    Saved saved{
        options,
        batch,
        Values(p, projected.dtype()),
        kernels::document_chunks(batch.document_start.data<int32_t>(), batch.rows(), batch.length(), options.chunk),
        projected.value(),
        {},
        {}};
    const Tensor out = forward<T>(saved);
    const Targets targets{projected.target(), p.convolution_weight.target(), p.a_log.target(), p.dt_bias.target(),
                          p.norm_weight.target()};
    return tape.record("gated_delta_mixer", out, {projected, p.convolution_weight, p.a_log, p.dt_bias, p.norm_weight},
                       [saved = std::move(saved), targets](const Tensor& dout) {
                         write_gradients({targets.projected}, {saved.projected.shape()}, dtype_of<T>,
                                         [&](const std::vector<Tensor>& dprojected) {
                                           backward<T>(dout, dprojected[0], saved, targets);
                                         });
                       });
  });
}

Tensor gated_delta_mixer_step(const Tensor& projected, const GatedDeltaParameters& p, const Tensor& state,
                              const Tensor& window, const GatedDeltaOptions& options) {
  check(projected, p, options);
  return dispatch_float("gated_delta_mixer", projected.dtype(), [&](auto type) {
    using T = decltype(type);
    const Layout layout(options, projected.size(0), 1);
    const Values values(p, projected.dtype());
    const RuleInputs<T> inputs(options, layout);
    kernels::causal_convolution_step<T>(kCpu, inputs.q(), window.data<T>(), projected.data<T>(),
                                        values.convolution_weight.data<T>(), nullptr, layout.convolution);
    inputs.finish(projected, values, layout);
    const Tensor mixed_values = Tensor::empty({layout.tokens, options.value_columns()}, projected.dtype());
    kernels::gated_delta_rule_step<T>(kCpu, mixed_values.data<T>(), state.data<T>(), inputs.pointers(), layout.rule);
    const Tensor rstd = Tensor::empty({layout.tokens, options.heads}, projected.dtype());
    const Tensor out = Tensor::empty(mixed_values.shape(), projected.dtype());
    kernels::gated_norm_forward<T>(kCpu, out.data<T>(), rstd.data<T>(), mixed_values.data<T>(),
                                   projected.data<T>() + layout.gate, values.norm_weight.data<T>(), layout.norm);
    return out;
  });
}

}  // namespace longhaul::ops
