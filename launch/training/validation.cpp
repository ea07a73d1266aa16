#include "launch/training/validation.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/autograd/tape.h"
#include "core/comm/agreement.h"
#include "kernels/error.h"

namespace longhaul {

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
  int64_t counts[2] = {};  // valid targets, right ones
  agree(group, "validation", [&] {
    for (int64_t index = group.rank(); index < batches; index += group.size()) {
      const int64_t first = index * rows_per_batch;
      const Batch batch = batch_of(first, std::min(rows_per_batch, rows - first));
      Tape tape(Tape::Mode::off);
      ForwardContext context{.tape = tape, .batch = batch};
      const LossSums loss = model.loss(context);
      sums[static_cast<size_t>(index)] = loss.cross_entropy;
      counts[0] += loss.valid_targets;
      counts[1] += loss.correct;
      progress(std::min(rows, first + rows_per_batch * group.size()));
    }
  });
  group.assemble(sums);
  group.sum(counts);
  if (counts[0] == 0)
    throw AgreedError(Fault::kUser, "validation: none of the rows has a target; the split is too small", 0);
  ValidationScore score{0, counts[0], rows, counts[1]};
  for (const double sum : sums) score.cross_entropy_sum += sum;
  return score;
}

}  // namespace longhaul
