#include "core/models/mixers/mixer_stack.h"

#include <algorithm>
#include <array>
#include <functional>
#include <utility>

#include "core/models/mixers/attention_mixer.h"
#include "core/models/mixers/fused_mixer.h"
#include "core/models/mixers/gated_delta_mixer.h"
#include "core/models/mixers/mamba2_mixer.h"
#include "core/models/rope_table.h"
#include "core/ops/activation.h"
#include "core/ops/add.h"
#include "core/ops/dropout.h"

namespace longhaul {
namespace {

/// Random streams of dropout: 0 is the embedding, then two per layer.
uint32_t dropout_stream(size_t layer, int branch) { return static_cast<uint32_t>(1 + 2 * layer) + branch; }

bool has_attention(const ModelConfig& config, int64_t layer) {
  return config.family == "fused" || (config.family == "serial" && (layer + 1) % config.attention_every == 0);
}

std::unique_ptr<Mixer> make_mixer(ParameterStore& store, const std::string& prefix, int64_t index,
                                  const ModelConfig& config, const Tensor& rope_table, DType dtype) {
  if (config.family == "fused") return std::make_unique<FusedMixer>(store, prefix, config, dtype, rope_table);
  if (has_attention(config, index)) return std::make_unique<AttentionMixer>(store, prefix, config, rope_table);
  if (config.has_recurrence("gdn")) return std::make_unique<GatedDeltaMixer>(store, prefix, config, dtype);
  return std::make_unique<Mamba2Mixer>(store, prefix, config, dtype);
}

}  // namespace

int64_t attention_layers(const ModelConfig& config) {
  int64_t count = 0;
  for (int64_t layer = 0; layer < config.n_layer; ++layer) count += has_attention(config, layer);
  return count;
}

MixerStack::MixerStack(ParameterStore& store, const ModelConfig& config, DType dtype, const PriorMemory* memory)
    : config_(config), dtype_(dtype), memory_(memory) {
  const bool rotary = config.family == "serial" || config.family == "fused";
  const Tensor rope_table = rotary ? make_rope_table(config, dtype) : Tensor();
  for (int64_t index = 0; index < config.n_layer; ++index) layers_.push_back(make_layer(store, index, rope_table));
}

MixerStack::Layer MixerStack::make_layer(ParameterStore& store, int64_t index, const Tensor& rope_table) const {
  const std::string name = "layers." + std::to_string(index);
  Layer layer;
  if (has_attention(config_, index)) {
    const int64_t before =
        std::ranges::count_if(layers_, [](const Layer& other) { return other.length_aware.has_memberships(); });
    layer.length_aware = LengthAwareLayer(store, name + ".rpa", config_, before, memory_);
  }
  layer.norm = RmsNorm(store, name + ".norm", config_.d_model, config_.norm_epsilon);
  layer.mixer = make_mixer(store, name + ".mixer", index, config_, rope_table, dtype_);
  if (config_.feed_forward) {
    layer.feed_forward_norm = RmsNorm(store, name + ".mlp_norm", config_.d_model, config_.norm_epsilon);
    layer.gate_up = Linear(store, name + ".mlp.gate_up_proj", config_.d_model, 2 * config_.d_ff, Linear::Bias::no,
                           config_.initializer_range);
    layer.down = Linear(store, name + ".mlp.down_proj", config_.d_ff, config_.d_model, Linear::Bias::no,
                        config_.initializer_range);
  }
  return layer;
}

std::vector<Variable> MixerStack::parameters(const Layer& layer) const {
  std::vector<Variable> parameters = layer.norm.parameters();
  const std::vector<Variable> mixer = layer.mixer->parameters();
  parameters.insert(parameters.end(), mixer.begin(), mixer.end());
  if (config_.feed_forward) {
    parameters.push_back(layer.feed_forward_norm.parameters().front());
    parameters.push_back(layer.gate_up.weight());
    parameters.push_back(layer.down.weight());
  }
  return parameters;
}

Variable MixerStack::feed_forward(Tape& tape, const Layer& layer, const Variable& x) const {
  return layer.down(tape, ops::swiglu(tape, layer.gate_up(tape, layer.feed_forward_norm(tape, x))));
}

Variable MixerStack::forward(ForwardContext& context, Variable x) const {
  // Recomputation runs layers again in the backward pass, so what they need is held by value, not through `context`.
  const auto batch = std::make_shared<const Batch>(context.batch);
  const double probability = context.training ? config_.dropout : 0;
  for (size_t index = 0; index < layers_.size(); ++index) {
    const std::array keys{context.random_key(dropout_stream(index, 0)), context.random_key(dropout_stream(index, 1))};
    const LengthAwareRun length_aware = layers_[index].length_aware.run(context, x);
    const auto run = [this, &layer = layers_[index], batch, probability, keys, aware = length_aware.kept()](
                         Tape& tape, const Variable& input) {
      const Variable mixed = layer.mixer->forward(tape, layer.norm(tape, input), *batch, aware.prior_or_null());
      const Variable middle = ops::add(tape, input, ops::dropout(tape, mixed, probability, keys[0], *batch));
      if (!config_.feed_forward) return middle;
      const Variable fed = feed_forward(tape, layer, middle);
      return ops::add(tape, middle, ops::dropout(tape, fed, probability, keys[1], *batch));
    };
    x = config_.recompute ? recompute(context.tape, x, length_aware.inputs(parameters(layers_[index])), run)
                          : run(context.tape, x);
  }
  return x;
}

void MixerStack::append_states(MixerStates& states, int64_t sequences, int64_t max_length) const {
  for (const Layer& layer : layers_) {
    const FrozenLayer frozen = layer.length_aware.freeze(max_length, dtype_);
    states.append(layer.mixer->make_state(sequences, max_length, frozen.factors));
  }
}

Tensor MixerStack::decode(MixerStates& states, const Tensor& x, const DecodeRows& rows) const {
  Tape tape(Tape::Mode::decode);
  Variable h(x);
  for (size_t index = 0; index < layers_.size(); ++index) {
    const Layer& layer = layers_[index];
    MixerState& state = states.state(static_cast<int64_t>(index));
    h = ops::add(tape, h, Variable(layer.mixer->decode(state, layer.norm(tape, h).value(), rows)));
    if (config_.feed_forward) h = ops::add(tape, h, feed_forward(tape, layer, h));
  }
  return h.value();
}

std::vector<LayerFlops> MixerStack::flops(int64_t context_length) const {
  std::vector<LayerFlops> flops;
  for (const Layer& layer : layers_) {
    add_flops(flops, layer.mixer->flops(context_length));
    add_flops(flops, layer.length_aware.flops());
  }
  if (config_.feed_forward) {
    const double layers = static_cast<double>(config_.n_layer);
    flops.push_back({"feed-forward", layers * 2 * 3 * static_cast<double>(config_.d_model * config_.d_ff)});
  }
  return flops;
}

}  // namespace longhaul
