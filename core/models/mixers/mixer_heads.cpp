#include "core/models/mixers/mixer_heads.h"

#include <utility>

namespace longhaul {

ProjectedMixer::ProjectedMixer(ParameterStore& store, const std::string& projection, std::unique_ptr<MixerHeads> heads,
                               int64_t d_model, double deviation)
    : heads_(std::move(heads)),
      projection_(store, projection, heads_->columns(), d_model, Linear::Bias::no, deviation) {}

Variable ProjectedMixer::forward(Tape& tape, const Variable& x, const Batch& batch,
                                 const ops::LengthPrior* prior) const {
  return projection_(tape, heads_->forward(tape, x, batch, prior));
}

std::vector<Variable> ProjectedMixer::parameters() const {
  std::vector<Variable> parameters = heads_->parameters();
  parameters.push_back(projection_.weight());
  return parameters;
}

std::unique_ptr<MixerState> ProjectedMixer::make_state(int64_t sequences, int64_t max_length,
                                                       const ops::PriorFactors& prior) const {
  return heads_->make_state(sequences, max_length, prior);
}

Tensor ProjectedMixer::decode(MixerState& state, const Tensor& x, const DecodeRows& rows) const {
  Tape tape(Tape::Mode::decode);
  return projection_(tape, Variable(heads_->decode(state, x, rows))).value();
}

std::vector<LayerFlops> ProjectedMixer::flops(int64_t context_length) const {
  std::vector<LayerFlops> flops = heads_->flops(context_length);
  flops.push_back({"mixer output projection", 2.0 * static_cast<double>(projection_.weight().value().count())});
  return flops;
}

}  // namespace longhaul
