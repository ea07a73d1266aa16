// The tape: ops append their backward functions while the model runs forward; backward() runs them in reverse, freeing
// each one (and the activations it holds) as soon as it has run.
#pragma once

#include <functional>
#include <initializer_list>
#include <utility>
#include <vector>

#include "core/autograd/variable.h"

namespace longhaul {

class Tape {
 public:
  enum class Mode {
    off,     ///< nothing is recorded: evaluation
    decode,  ///< likewise; products of a few rows run at the speed of memory, with other last bits (times_transposed.h)
    record,  ///< training
  };
  explicit Tape(Mode mode = Mode::record) : mode_(mode) {}
  Tape(const Tape&) = delete;
  Tape& operator=(const Tape&) = delete;
  ~Tape();  ///< entries that were never differentiated give up their uses of parameters

  Mode mode() const { return mode_; }

  /// Does an op with these inputs need a backward? Ops skip saving activations when not.
  bool needs_backward(std::initializer_list<const Variable*> inputs) const;

  /// The output of an op: requires a gradient when the tape records and any input does (undefined inputs are skipped).
  /// `backward` captures tensors it reads and the inputs' target()s, never Variables; it receives the gradient of
  /// the output (never undefined: outputs nobody used are skipped) and feeds the inputs' sinks.
  Variable record(const char* op, Tensor output, std::initializer_list<Variable> inputs,
                  std::function<void(const Tensor& output_gradient)> backward) {
    return record(op, std::move(output), std::vector<Variable>(inputs), std::move(backward));
  }
  Variable record(const char* op, Tensor output, const std::vector<Variable>& inputs,
                  std::function<void(const Tensor& output_gradient)> backward);

  /// Differentiates `loss` (one element) with respect to everything recorded; `seed` is the gradient of the loss
  /// itself.
  void backward(const Variable& loss, double seed = 1.0);
  /// The same from any output with a given gradient (recomputation, vector-Jacobian products).
  void backward_from(const Variable& output, const Tensor& gradient);

 private:
  struct Entry {
    const char* op;
    GradientTarget output;
    std::vector<GradientTarget> inputs;
    std::function<void(const Tensor&)> backward;
  };
  void run();
  static void differentiate(Entry& entry);
  static std::vector<GradientTarget> release_uses(const Entry& entry);

  Mode mode_;
  std::vector<Entry> entries_;
};

/// Activation recomputation: runs `function` without keeping its activations and runs it again in the backward pass
/// (Chen et al. 2016). `parameters` are the parameters it uses. function must be pure (random draws are counter-based,
/// so dropout is). Gradients have the same bits as without.
Variable recompute(Tape& tape, const Variable& input, std::vector<Variable> parameters,
                   std::function<Variable(Tape&, const Variable&)> function);

}  // namespace longhaul
