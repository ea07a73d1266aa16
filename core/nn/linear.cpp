#include "core/nn/linear.h"

#include "core/ops/linear.h"

namespace longhaul {

Linear::Linear(ParameterStore& store, const std::string& name, int64_t inputs, int64_t outputs, Bias bias,
               double deviation) {
  weight_ = store.add(name + ".weight", {outputs, inputs}, WeightDecay::yes, Initialization::normal(deviation));
  if (bias == Bias::yes) bias_ = store.add(name + ".bias", {outputs}, WeightDecay::no, Initialization::constant(0));
}

Variable Linear::operator()(Tape& tape, const Variable& x) const { return ops::linear(tape, x, weight_, bias_); }

}  // namespace longhaul
