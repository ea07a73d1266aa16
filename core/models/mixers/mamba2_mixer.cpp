#include "core/models/mixers/mamba2_mixer.h"

#include <cmath>
#include <utility>

#include "core/models/mixers/recurrence.h"
#include "kernels/causal_convolution.h"
#include "kernels/gated_norm.h"
#include "kernels/mamba2_scan.h"
#include "kernels/recurrent_gates.h"

namespace longhaul {
namespace {

constexpr kernels::Cpu kCpu{};

ops::Mamba2Options make_options(const ModelConfig& config, int64_t heads) {
  ops::Mamba2Options options;
  options.heads = heads;
  options.head_size = config.mixer_head_size;
  options.state_size = config.state_size;
  options.convolution_width = config.convolution_width;
  return options;
}

ops::Mamba2Parameters make_parameters(ParameterStore& store, const std::string& prefix,
                                      const ops::Mamba2Options& options) {
  const Initialization within = convolution_initialization(options.convolution_width);
  const Initialization log_of_number{Initialization::Kind::custom, 0,
                                     [](int64_t index, double) { return std::log(static_cast<double>(index + 1)); }};
  const Shape channels{options.convolution_channels()}, heads{options.heads};
  const auto add = [&](const char* name, Shape shape, Initialization initialization) {
    return store.add(prefix + name, shape, WeightDecay::no, std::move(initialization));
  };
  ops::Mamba2Parameters parameters;
  parameters.convolution_weight =
      add(".conv1d.weight", {options.convolution_channels(), options.convolution_width}, within);
  parameters.convolution_bias = add(".conv1d.bias", channels, within);
  parameters.dt_bias = add(".dt_bias", heads, step_bias_initialization());
  parameters.a_log = add(".A_log", heads, log_of_number);
  parameters.d = add(".D", heads, Initialization::constant(1));
  parameters.norm_weight = add(".norm.weight", {options.inner()}, Initialization::constant(1));
  return parameters;
}

/// The parameters in the type of the activations.
struct Values {
  Values(const ops::Mamba2Parameters& p, DType dtype)
      : convolution_weight(p.convolution_weight.value().to(dtype)),
        convolution_bias(p.convolution_bias.value().to(dtype)),
        dt_bias(p.dt_bias.value().to(dtype)),
        a_log(p.a_log.value().to(dtype)),
        d(p.d.value().to(dtype)),
        norm_weight(p.norm_weight.value().to(dtype)) {}
  Tensor convolution_weight, convolution_bias, dt_bias, a_log, d, norm_weight;
};

/// Convolution and recurrence of all new tokens in the order of their sequences: y [rows, inner].
template <typename T>
Tensor advance(RecurrentState& state, const Tensor& projected, const DecodeRows& rows, const Values& values,
               const ops::Mamba2Options& options) {
  const int64_t count = projected.size(0), stride = options.projected_columns();
  const int64_t channels = options.convolution_channels();
  const Tensor xbc = Tensor::empty({count, channels}, projected.dtype());
  const Tensor dt = Tensor::empty({count, options.heads}, projected.dtype());
  const Tensor y = Tensor::empty({count, options.inner()}, projected.dtype());
  kernels::softplus_gate_forward<T>(kCpu, dt.data<T>(), projected.data<T>() + options.inner() + channels, stride,
                                    values.dt_bias.data<T>(), count, options.heads, options.dt_low, options.dt_high);
  for (const StepRows& step : recurrent_steps(rows)) {
    kernels::ConvolutionShape convolution;
    convolution.batch = step.count;
    convolution.length = 1;
    convolution.channels = channels;
    convolution.width = options.convolution_width;
    convolution.x_stride = stride;
    convolution.y_stride = channels;
    T* const row = xbc.data<T>() + step.begin * channels;
    kernels::causal_convolution_step<T>(
        kCpu, row, state.window.data<T>() + step.sequence * (options.convolution_width - 1) * channels,
        projected.data<T>() + step.begin * stride + options.inner(), values.convolution_weight.data<T>(),
        values.convolution_bias.data<T>(), convolution);
    const kernels::Mamba2Shape scan{step.count, options.heads, options.head_size, options.state_size, options.groups};
    kernels::mamba2_scan_step<T>(
        kCpu, y.data<T>() + step.begin * options.inner(),
        state.state.data<T>() + step.sequence * options.inner() * options.state_size,
        {row, dt.data<T>() + step.begin * options.heads, values.a_log.data<T>(), values.d.data<T>()}, scan);
  }
  return y;
}

}  // namespace

Mamba2Heads::Mamba2Heads(ParameterStore& store, const std::string& prefix, const ModelConfig& config, int64_t heads,
                         DType activation)
    : options_(make_options(config, heads)),
      activation_(activation),
      projection_(store, prefix + ".in_proj", config.d_model, options_.projected_columns(), Linear::Bias::no,
                  config.initializer_range),
      parameters_(make_parameters(store, prefix, options_)) {}

Variable Mamba2Heads::forward(Tape& tape, const Variable& x, const Batch& batch, const ops::LengthPrior*) const {
  return ops::mamba2_mixer(tape, projection_(tape, x), parameters_, batch, options_);
}

std::vector<Variable> Mamba2Heads::parameters() const {
  return {projection_.weight(),
          parameters_.convolution_weight,
          parameters_.convolution_bias,
          parameters_.dt_bias,
          parameters_.a_log,
          parameters_.d,
          parameters_.norm_weight};
}

std::unique_ptr<MixerState> Mamba2Heads::make_state(int64_t sequences, int64_t, const ops::PriorFactors&) const {
  return std::make_unique<RecurrentState>(sequences, options_.convolution_width, options_.convolution_channels(),
                                          options_.inner() * options_.state_size, activation_);
}

Tensor Mamba2Heads::decode(MixerState& state, const Tensor& x, const DecodeRows& rows) const {
  Tape tape(Tape::Mode::decode);
  const Tensor projected = projection_(tape, Variable(x)).value();
  const Values values(parameters_, activation_);
  const Tensor out = Tensor::empty({x.size(0), options_.inner()}, activation_);
  const Tensor rstd = Tensor::empty({x.size(0)}, activation_);
  dispatch_float("mamba2", activation_, [&](auto type) {
    using T = decltype(type);
    const Tensor y = advance<T>(dynamic_cast<RecurrentState&>(state), projected, rows, values, options_);
    kernels::GatedNormShape norm;
    norm.rows = x.size(0);
    norm.size = norm.x_stride = options_.inner();
    norm.gate_stride = options_.projected_columns();
    norm.epsilon = options_.norm_epsilon;
    kernels::gated_norm_forward<T>(kCpu, out.data<T>(), rstd.data<T>(), y.template data<T>(), projected.data<T>(),
                                   values.norm_weight.data<T>(), norm);
  });
  return out;
}

std::vector<LayerFlops> Mamba2Heads::flops(int64_t) const {
  const double inner = static_cast<double>(options_.inner());
  const double taps = static_cast<double>(options_.convolution_channels() * options_.convolution_width);
  return {{"mixer input projection", 2.0 * static_cast<double>(projection_.weight().value().count())},
          {"mixer convolution", 2 * taps},
          // Per element of the state: decay, two products and a sum for the update less one shared, two to read it.
          {"state-space scan", 5 * inner * static_cast<double>(options_.state_size)}};
}

}  // namespace longhaul
