#include "launch/training/validation.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/autograd/tape.h"
#include "core/comm/agreement.h"
#include "kernels/error.h"

namespace longhaul {

namespace {

void count_fired(const GateRecord& record, const Batch& batch, std::vector<GateScore>& gates) {
  const std::span<const int32_t> targets = batch.targets.span<int32_t>();
  for (size_t gate = 0; gate < gates.size(); ++gate) {
    const std::span<const float> entropies = record.blocks[gate].entropies.span<float>();
    for (size_t i = 0; i < entropies.size(); ++i) {
      const bool fired = entropies[i] > record.blocks[gate].threshold;
      gates[gate].fired += fired;
      gates[gate].fired_on_targets += fired && targets[i] >= 0;
    }
  }
}

/// Adds up over the ranks.
void sum_scores(Communicator& group, ValidationScore& score) {
  std::vector<int64_t> counts = {score.valid_targets, score.correct, score.tokens};
  for (const GateScore& gate : score.gates) counts.insert(counts.end(), {gate.fired, gate.fired_on_targets});
  group.sum(counts);
  score.valid_targets = counts[0];
  score.correct = counts[1];
  score.tokens = counts[2];
  for (size_t gate = 0; gate < score.gates.size(); ++gate)
    score.gates[gate] = {counts[3 + 2 * gate], counts[4 + 2 * gate]};
}

}  // namespace

double ValidationScore::perplexity() const { return std::exp(mean()); }

int64_t validation_rows(int64_t rows, int64_t context, int64_t max_tokens) {
  if (max_tokens == 0) return rows;
  return std::clamp((max_tokens + context - 1) / context, int64_t{1}, rows);
}

ValidationScore score_rows(Communicator& group, LanguageModel& model, int64_t rows, int64_t rows_per_batch,
                           const std::function<Batch(int64_t first, int64_t count)>& batch_of,
                           const std::function<void(int64_t rows_done)>& progress) {
  const int64_t batches = (rows + rows_per_batch - 1) / rows_per_batch;
  std::vector<double> sums(static_cast<size_t>(batches));
  ValidationScore score;
  score.rows = rows;
  score.gates.resize(model.gates().size());
  agree(group, "validation", [&] {
    for (int64_t index = group.rank(); index < batches; index += group.size()) {
      const int64_t first = index * rows_per_batch;
      const Batch batch = batch_of(first, std::min(rows_per_batch, rows - first));
      Tape tape(Tape::Mode::off);
      GateRecord gates;
      ForwardContext context{.tape = tape, .batch = batch, .gates = &gates};
      const LossSums loss = model.loss(context);
      sums[static_cast<size_t>(index)] = loss.cross_entropy;
      score.valid_targets += loss.valid_targets;
      score.correct += loss.correct;
      score.tokens += batch.tokens();
      count_fired(gates, batch, score.gates);
      progress(std::min(rows, first + rows_per_batch * group.size()));
    }
  });
  group.assemble(sums);
  sum_scores(group, score);
  if (score.valid_targets == 0)
    throw AgreedError(Fault::kUser, "validation: none of the rows has a target; the split is too small", 0);
  for (const double sum : sums) score.cross_entropy_sum += sum;
  return score;
}

}  // namespace longhaul
