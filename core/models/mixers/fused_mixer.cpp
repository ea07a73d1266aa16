#include "core/models/mixers/fused_mixer.h"

#include <utility>

#include "core/models/mixers/attention_mixer.h"
#include "core/models/mixers/gated_delta_mixer.h"
#include "core/models/mixers/mamba2_mixer.h"
#include "core/ops/add.h"

namespace longhaul {
namespace {

std::unique_ptr<MixerHeads> make_recurrent_heads(ParameterStore& store, const std::string& prefix,
                                                 const ModelConfig& config, DType activation) {
  if (config.mixer == "gdn") {
    return std::make_unique<GatedDeltaHeads>(store, prefix, config, config.d_model / config.delta_value_size,
                                             activation);
  }
  return std::make_unique<Mamba2Heads>(store, prefix, config, config.d_model / config.mixer_head_size, activation);
}

struct FusedState : MixerState {
  FusedState(std::unique_ptr<MixerState> attention_state, std::unique_ptr<MixerState> recurrent_state)
      : attention(std::move(attention_state)), recurrent(std::move(recurrent_state)) {}
  void clear(int64_t sequence) override {
    attention->clear(sequence);
    recurrent->clear(sequence);
  }
  std::unique_ptr<MixerState> attention, recurrent;
};

}  // namespace

FusedMixer::FusedMixer(ParameterStore& store, const std::string& prefix, const ModelConfig& config, DType activation,
                       const Tensor& rope_table)
    : attention_(std::make_unique<AttentionHeads>(store, prefix + ".attention", config, rope_table)),
      recurrent_(make_recurrent_heads(store, prefix + ".recurrent", config, activation)),
      attention_norm_(store, prefix + ".attention_norm", config.d_model, config.norm_epsilon),
      recurrent_norm_(store, prefix + ".recurrent_norm", config.d_model, config.norm_epsilon),
      projection_(store, prefix + ".out_proj", config.d_model, config.d_model, Linear::Bias::no,
                  config.initializer_range) {}

Variable FusedMixer::join(Tape& tape, const Variable& attended, const Variable& recurrent) const {
  return projection_(tape, ops::mean(tape, attention_norm_(tape, attended), recurrent_norm_(tape, recurrent)));
}

Variable FusedMixer::forward(Tape& tape, const Variable& x, const Batch& batch, const ops::LengthPrior* prior) const {
  const Variable attended = attention_->forward(tape, x, batch, prior);
  return join(tape, attended, recurrent_->forward(tape, x, batch, prior));
}

std::vector<Variable> FusedMixer::parameters() const {
  std::vector<Variable> parameters = attention_->parameters();
  for (const auto& more : {recurrent_->parameters(), attention_norm_.parameters(), recurrent_norm_.parameters()}) {
    parameters.insert(parameters.end(), more.begin(), more.end());
  }
  parameters.push_back(projection_.weight());
  return parameters;
}

std::unique_ptr<MixerState> FusedMixer::make_state(int64_t sequences, int64_t max_length,
                                                   const ops::PriorFactors& prior) const {
  return std::make_unique<FusedState>(attention_->make_state(sequences, max_length, prior),
                                      recurrent_->make_state(sequences, max_length, prior));
}

Tensor FusedMixer::decode(MixerState& state, const Tensor& x, const DecodeRows& rows) const {
  auto& held = dynamic_cast<FusedState&>(state);
  Tape tape(Tape::Mode::decode);
  const Variable attended(attention_->decode(*held.attention, x, rows));
  return join(tape, attended, Variable(recurrent_->decode(*held.recurrent, x, rows))).value();
}

std::vector<LayerFlops> FusedMixer::flops(int64_t context_length) const {
  std::vector<LayerFlops> flops = attention_->flops(context_length);
  for (const LayerFlops& entry : recurrent_->flops(context_length)) flops.push_back(entry);
  flops.push_back({"mixer output projection", 2.0 * static_cast<double>(projection_.weight().value().count())});
  return flops;
}

}  // namespace longhaul
