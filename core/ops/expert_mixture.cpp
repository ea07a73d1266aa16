#include "core/ops/expert_mixture.h"

#include <memory>
#include <utility>

#include "core/ops/op_support.h"
#include "kernels/expert_mixture.h"

namespace longhaul::ops {
namespace {

kernels::ExpertPlaces places_of(const ExpertRouting& routing) {
  return {routing.experts.data<int32_t>(), routing.rows.data<int32_t>(), routing.experts.size(0),
          routing.experts.size(1)};
}

template <typename T>
std::vector<const T*> pointers(const std::vector<Tensor>& tensors) {
  std::vector<const T*> result;
  for (const Tensor& tensor : tensors) result.push_back(tensor.data<T>());
  return result;
}

void check(const std::vector<Variable>& outputs, const Variable& weights, const ExpertRouting& routing) {
  if (outputs.size() != routing.tokens.size() || outputs.empty())
    throw internal_error("mix_experts: {} outputs for {} experts", outputs.size(), routing.tokens.size());
  if (!(weights.shape() == routing.experts.shape()))
    throw internal_error("mix_experts: weights {} do not go with the chosen experts {}", weights.shape().text(),
                         routing.experts.shape().text());
  for (size_t e = 0; e < outputs.size(); ++e) {
    check_columns("mix_experts", "output", outputs[e].value(), outputs[0].shape()[1]);
    if (outputs[e].shape()[0] != routing.tokens[e].count() || outputs[e].dtype() != weights.dtype())
      throw internal_error("mix_experts: output {} {} of expert {} does not go with its {} tokens and weights {}",
                           name_of(outputs[e].dtype()), outputs[e].shape().text(), e, routing.tokens[e].count(),
                           name_of(weights.dtype()));
  }
}

template <typename T>
void backward(const Tensor& dy, const std::vector<Tensor>& outputs, const Tensor& weights, const ExpertRouting& routing,
              const std::vector<GradientTarget>& output_targets, const GradientTarget& weights_target) {
  std::vector<Tensor> kept;
  std::vector<T*> doutputs(outputs.size(), nullptr);
  const auto accumulate = std::make_unique<bool[]>(outputs.size());
  for (size_t e = 0; e < outputs.size(); ++e) {
    if (!output_targets[e].wanted()) continue;
    const GradientSink sink = output_targets[e].sink();
    kept.push_back(sink.tensor);
    doutputs[e] = sink.tensor.data<T>();
    accumulate[e] = sink.accumulate;
  }
  GradientSink dweights;
  if (weights_target.wanted()) dweights = weights_target.sink();
  kernels::expert_mixture_backward<T>(kCpu, doutputs.data(), accumulate.get(),
                                      dweights.tensor.defined() ? dweights.tensor.data<T>() : nullptr,
                                      dweights.accumulate, dy.data<T>(), pointers<T>(outputs).data(), weights.data<T>(),
                                      places_of(routing), dy.size(1));
}

}  // namespace

ExpertRouting route_to_experts(const Tensor& experts, int64_t count) {
  check_matrix("route_to_experts", "experts", experts);
  const int64_t chosen = experts.size(1);
  std::vector<std::vector<int32_t>> tokens(static_cast<size_t>(count));
  ExpertRouting routing{{}, experts, Tensor::empty(experts.shape(), DType::i32)};
  for (int64_t choice = 0; choice < experts.count(); ++choice) {
    const int32_t expert = experts.data<int32_t>()[choice];
    if (expert < 0 || expert >= count) {
      throw internal_error("route_to_experts: expert {} of token {} is outside 0..{}", expert, choice / chosen,
                           count - 1);
    }
    std::vector<int32_t>& mine = tokens[static_cast<size_t>(expert)];
    routing.rows.data<int32_t>()[choice] = static_cast<int32_t>(mine.size());
    mine.push_back(static_cast<int32_t>(choice / chosen));
  }
  for (const std::vector<int32_t>& mine : tokens) {
    routing.tokens.push_back(Tensor::from<int32_t>({static_cast<int64_t>(mine.size())}, mine));
  }
  return routing;
}

Variable mix_experts(Tape& tape, const std::vector<Variable>& outputs, const Variable& weights,
                     const ExpertRouting& routing) {
  check(outputs, weights, routing);
  return dispatch_float("mix_experts", weights.dtype(), [&](auto type) {
    using T = decltype(type);
    std::vector<Tensor> values;
    std::vector<GradientTarget> targets;
    for (const Variable& output : outputs) {
      values.push_back(output.value());
      targets.push_back(output.target());
    }
    const Tensor y = Tensor::empty({weights.shape()[0], values[0].size(1)}, weights.dtype());
    kernels::expert_mixture_forward<T>(kCpu, y.data<T>(), pointers<T>(values).data(), weights.value().data<T>(),
                                       places_of(routing), y.size(1));
    std::vector<Variable> inputs = outputs;
    inputs.push_back(weights);
    return tape.record("mix_experts", y, inputs,
                       [values = std::move(values), weights_value = weights.value(), routing,
                        targets = std::move(targets), weights_target = weights.target()](const Tensor& dy) {
                         backward<T>(dy, values, weights_value, routing, targets, weights_target);
                       });
  });
}

}  // namespace longhaul::ops
