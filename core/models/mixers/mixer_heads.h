// A mixer before its output projection: the heads of attention or of a recurrence, side by side in a row. A layer
// either projects one set of heads (ProjectedMixer) or joins two under one projection (FusedMixer).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/models/mixers/mixer.h"
#include "core/nn/linear.h"

namespace longhaul {

/// As Mixer, but returns columns() columns instead of d_model.
class MixerHeads {
 public:
  virtual ~MixerHeads() = default;
  virtual int64_t columns() const = 0;
  virtual Variable forward(Tape& tape, const Variable& x, const Batch& batch, const ops::LengthPrior* prior) const = 0;
  virtual std::vector<Variable> parameters() const = 0;
  virtual std::unique_ptr<MixerState> make_state(int64_t sequences, int64_t max_length,
                                                 const ops::PriorFactors& prior) const = 0;
  virtual Tensor decode(MixerState& state, const Tensor& x, const DecodeRows& rows) const = 0;
  virtual std::vector<LayerFlops> flops(int64_t context_length) const = 0;
};

/// Heads and their output projection, parameter `projection`.weight [d_model, columns] = N(0, deviation).
class ProjectedMixer : public Mixer {
 public:
  ProjectedMixer(ParameterStore& store, const std::string& projection, std::unique_ptr<MixerHeads> heads,
                 int64_t d_model, double deviation);

  Variable forward(Tape& tape, const Variable& x, const Batch& batch, const ops::LengthPrior* prior) const override;
  std::vector<Variable> parameters() const override;
  std::unique_ptr<MixerState> make_state(int64_t sequences, int64_t max_length,
                                         const ops::PriorFactors& prior) const override;
  Tensor decode(MixerState& state, const Tensor& x, const DecodeRows& rows) const override;
  std::vector<LayerFlops> flops(int64_t context_length) const override;

 private:
  std::unique_ptr<MixerHeads> heads_;
  Linear projection_;
};

}  // namespace longhaul
