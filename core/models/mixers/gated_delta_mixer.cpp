#include "core/models/mixers/gated_delta_mixer.h"

#include <cmath>

#include "core/models/mixers/recurrence.h"

namespace longhaul {
namespace {

ops::GatedDeltaOptions make_options(const ModelConfig& config, int64_t heads) {
  ops::GatedDeltaOptions options;
  options.heads = heads;
  options.key_size = config.delta_key_size;
  options.value_size = config.delta_value_size;
  options.convolution_width = config.convolution_width;
  return options;
}

ops::GatedDeltaParameters make_parameters(ParameterStore& store, const std::string& prefix,
                                          const ops::GatedDeltaOptions& options) {
  const Initialization log_of_one_to_sixteen{Initialization::Kind::custom, 0,
                                             [](int64_t, double uniform) { return std::log(1 + 15 * uniform); }};
  const Shape heads{options.heads};
  const auto add = [&](const char* name, Shape shape, Initialization initialization) {
    return store.add(prefix + name, shape, WeightDecay::no, std::move(initialization));
  };
  ops::GatedDeltaParameters parameters;
  parameters.convolution_weight = add(".conv1d.weight", {options.convolution_channels(), options.convolution_width},
                                      convolution_initialization(options.convolution_width));
  parameters.a_log = add(".A_log", heads, log_of_one_to_sixteen);
  parameters.dt_bias = add(".dt_bias", heads, step_bias_initialization());
  parameters.norm_weight = add(".o_norm.weight", {options.value_size}, Initialization::constant(1));
  return parameters;
}

}  // namespace

GatedDeltaHeads::GatedDeltaHeads(ParameterStore& store, const std::string& prefix, const ModelConfig& config,
                                 int64_t heads, DType activation)
    : options_(make_options(config, heads)),
      activation_(activation),
      projection_(store, prefix + ".in_proj", config.d_model, options_.projected_columns(), Linear::Bias::no,
                  config.initializer_range),
      parameters_(make_parameters(store, prefix, options_)) {}

Variable GatedDeltaHeads::forward(Tape& tape, const Variable& x, const Batch& batch, const ops::LengthPrior*) const {
  return ops::gated_delta_mixer(tape, projection_(tape, x), parameters_, batch, options_);
}

std::vector<Variable> GatedDeltaHeads::parameters() const {
  return {projection_.weight(), parameters_.convolution_weight, parameters_.a_log, parameters_.dt_bias,
          parameters_.norm_weight};
}

std::unique_ptr<MixerState> GatedDeltaHeads::make_state(int64_t sequences, int64_t, const ops::PriorFactors&) const {
  return std::make_unique<RecurrentState>(sequences, options_.convolution_width, options_.convolution_channels(),
                                          options_.value_columns() * options_.key_size, activation_);
}

Tensor GatedDeltaHeads::decode(MixerState& state, const Tensor& x, const DecodeRows& rows) const {
  auto& held = dynamic_cast<RecurrentState&>(state);
  Tape tape(Tape::Mode::decode);
  const Tensor projected = projection_(tape, Variable(x)).value();
  const Tensor out = Tensor::empty({x.size(0), columns()}, activation_);
  for (const StepRows& step : recurrent_steps(rows)) {
    const int64_t end = step.sequence + step.count;
    out.rows(step.begin, step.begin + step.count)
        .copy_from(ops::gated_delta_mixer_step(projected.rows(step.begin, step.begin + step.count), parameters_,
                                               held.state.rows(step.sequence, end),
                                               held.window.rows(step.sequence, end), options_));
  }
  return out;
}

std::vector<LayerFlops> GatedDeltaHeads::flops(int64_t) const {
  const double taps = static_cast<double>(options_.convolution_channels() * options_.convolution_width);
  // Per element of the state: decay, the prediction S k, the update u k^T and the output S q, each product two.
  const double state = static_cast<double>(options_.value_columns() * options_.key_size);
  return {{"mixer input projection", 2.0 * static_cast<double>(projection_.weight().value().count())},
          {"mixer convolution", 2 * taps},
          {"gated delta rule", 7 * state}};
}

}  // namespace longhaul
