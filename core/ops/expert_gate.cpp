#include "core/ops/expert_gate.h"

#include "core/ops/op_support.h"

namespace longhaul::ops {

ExpertChoice expert_gate(Tape& tape, const Variable& logits, const kernels::ExpertGate& gate, const Batch& batch) {
  check_tokens("expert_gate", logits.value(), batch.tokens());
  check_columns("expert_gate", "logits", logits.value(), gate.experts);
  return dispatch_float("expert_gate", logits.dtype(), [&](auto type) {
    using T = decltype(type);
    const int64_t tokens = batch.tokens();
    const Tensor weights = Tensor::empty({tokens, gate.chosen}, logits.dtype());
    const Tensor experts = Tensor::empty({tokens, gate.chosen}, DType::i32);
    kernels::expert_gate_forward<T>(kCpu, weights.data<T>(), experts.data<int32_t>(), logits.value().data<T>(), gate,
                                    batch.sample_ids.data(), tokens, batch.length());
    const Variable output = tape.record(
        "expert_gate", weights, {logits}, [weights, experts, gate, target = logits.target()](const Tensor& dweights) {
          if (!target.wanted()) return;
          const GradientSink dlogits = target.sink();
          kernels::expert_gate_backward<T>(kCpu, dlogits.tensor.data<T>(), dlogits.accumulate, dweights.data<T>(),
                                           weights.data<T>(), experts.data<int32_t>(), gate, weights.size(0));
        });
    return ExpertChoice{output, experts};
  });
}

}  // namespace longhaul::ops
