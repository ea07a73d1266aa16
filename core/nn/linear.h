// y = x W^T + b with W [out, in].
#pragma once

#include <string>

#include "core/autograd/tape.h"
#include "core/nn/parameter_store.h"

namespace longhaul {

class Linear {
 public:
  enum class Bias { no, yes };
  Linear() = default;
  /// Registers name.weight (normal with `deviation`, decayed) and, if wanted, name.bias (zero, not decayed).
  Linear(ParameterStore& store, const std::string& name, int64_t inputs, int64_t outputs, Bias bias, double deviation);

  /// x [rows, inputs] -> [rows, outputs].
  Variable operator()(Tape& tape, const Variable& x) const;
  const Variable& weight() const { return weight_; }
  const Variable& bias() const { return bias_; }  ///< undefined without one

 private:
  Variable weight_, bias_;
};

}  // namespace longhaul
