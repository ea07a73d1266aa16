// Normalisation over the last axis as modules: LayerNorm (gpt2) and RMSNorm (transformer). Gains start at 1, are not
// decayed.
#pragma once

#include <string>

#include "core/autograd/tape.h"
#include "core/nn/parameter_store.h"

namespace longhaul {

class LayerNorm {
 public:
  LayerNorm() = default;
  LayerNorm(ParameterStore& store, const std::string& name, int64_t columns, double epsilon);
  Variable operator()(Tape& tape, const Variable& x) const;
  std::vector<Variable> parameters() const { return {weight_, bias_}; }

 private:
  Variable weight_, bias_;
  double epsilon_ = 0;
};

class RmsNorm {
 public:
  RmsNorm() = default;
  RmsNorm(ParameterStore& store, const std::string& name, int64_t columns, double epsilon);
  Variable operator()(Tape& tape, const Variable& x) const;
  std::vector<Variable> parameters() const { return {weight_}; }

 private:
  Variable weight_;
  double epsilon_ = 0;
};

}  // namespace longhaul
