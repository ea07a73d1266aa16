#include "core/nn/norm.h"

#include "core/ops/layer_norm.h"
#include "core/ops/rms_norm.h"

namespace longhaul {

LayerNorm::LayerNorm(ParameterStore& store, const std::string& name, int64_t columns, double epsilon)
    : weight_(store.add(name + ".weight", {columns}, WeightDecay::no, Initialization::constant(1))),
      bias_(store.add(name + ".bias", {columns}, WeightDecay::no, Initialization::constant(0))),
      epsilon_(epsilon) {}

Variable LayerNorm::operator()(Tape& tape, const Variable& x) const {
  return ops::layer_norm(tape, x, weight_, bias_, epsilon_);
}

RmsNorm::RmsNorm(ParameterStore& store, const std::string& name, int64_t columns, double epsilon)
    : weight_(store.add(name + ".weight", {columns}, WeightDecay::no, Initialization::constant(1))),
      epsilon_(epsilon) {}

Variable RmsNorm::operator()(Tape& tape, const Variable& x) const { return ops::rms_norm(tape, x, weight_, epsilon_); }

}  // namespace longhaul
