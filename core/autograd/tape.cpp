#include "core/autograd/tape.h"

#include <string>

#include "kernels/error.h"

namespace longhaul {

bool Tape::needs_backward(std::initializer_list<const Variable*> inputs) const {
  if (mode_ != Mode::record) return false;
  for (const Variable* input : inputs) {
    if (input->requires_grad()) return true;
  }
  return false;
}

Variable Tape::record(const char* op, Tensor output, const std::vector<Variable>& inputs,
                      std::function<void(const Tensor&)> backward) {
  std::vector<GradientTarget> targets;
  if (mode_ == Mode::record) {
    for (const Variable& input : inputs) {
      if (input.requires_grad()) targets.push_back(input.target());
    }
  }
  Variable result(std::move(output), !targets.empty());
  if (targets.empty()) return result;
  for (const GradientTarget& target : targets) ++target.state_->pending_uses;
  entries_.push_back({op, result.target(), std::move(targets), std::move(backward)});
  return result;
}

void Tape::backward(const Variable& loss, double seed) {
  if (loss.value().count() != 1)
    throw internal_error("backward: the loss has shape {}, not one element", loss.shape().text());
  const Tensor gradient = Tensor::empty(loss.shape(), loss.dtype());
  dispatch_float("backward", loss.dtype(), [&](auto type) {
    using T = decltype(type);
    *gradient.data<T>() = static_cast<T>(seed);
  });
  backward_from(loss, gradient);
}

void Tape::backward_from(const Variable& output, const Tensor& gradient) {
  if (!output.requires_grad())
    throw internal_error("backward: output {} depends on no parameter", output.shape().text());
  output.give_gradient(gradient);
  run();
}

void Tape::run() {
  while (!entries_.empty()) {
    Entry entry = std::move(entries_.back());
    entries_.pop_back();
    differentiate(entry);
  }
}

/// Runs one entry, frees what it holds, then tells the parameters it was the last use of.
void Tape::differentiate(Entry& entry) {
  GradientTarget::State& output = *entry.output.state_;
  if (output.gradient.defined()) {
    const Tensor gradient = std::exchange(output.gradient, Tensor());
    try {
      entry.backward(gradient);
    } catch (const Error& error) {
      release_uses(entry);
      throw error.within(std::string("backward of ") + entry.op);
    }
  }
  entry.backward = nullptr;
  for (const GradientTarget& parameter : release_uses(entry)) {
    const GradientTarget::State& state = *parameter.state_;
    if (!state.gradient.defined() && state.memory.defined()) parameter.sink().tensor.zero();
    state.ready();
  }
}

/// Gives up the entry's uses; returns the inputs that wait for their last use and have now had it.
std::vector<GradientTarget> Tape::release_uses(const Entry& entry) {
  std::vector<GradientTarget> finished;
  for (const GradientTarget& input : entry.inputs) {
    if (--input.state_->pending_uses == 0 && input.state_->ready) finished.push_back(input);
  }
  return finished;
}

Tape::~Tape() {
  while (!entries_.empty()) {
    release_uses(entries_.back());
    entries_.pop_back();
  }
}

Variable recompute(Tape& tape, const Variable& input, std::vector<Variable> parameters,
                   std::function<Variable(Tape&, const Variable&)> function) {
  Tape unrecorded(Tape::Mode::off);
  const Variable output = function(unrecorded, input);
  std::vector<Variable> inputs = std::move(parameters);
  inputs.push_back(input);
  auto backward = [value = input.value(), target = input.target(),
                   function = std::move(function)](const Tensor& output_gradient) {
    // The inner tape feeds the gradient of `input` itself, so sums are formed in the same order as without
    // recomputation.
    Tape inner;
    const Variable result = function(inner, Variable(value, target));
    if (result.requires_grad()) inner.backward_from(result, output_gradient);
  };
  return tape.record("recompute", output.value(), inputs, std::move(backward));
}

}  // namespace longhaul
