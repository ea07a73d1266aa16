// Mean cross-entropy and accuracy over a split: sums divided by valid targets, every target counted once, whatever the
// batch size and the number of ranks.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "core/comm/communicator.h"
#include "core/models/language_model.h"
#include "core/tensor/batch.h"

namespace longhaul {

/// On how many tokens an entropy gate fired.
struct GateScore {
  int64_t fired = 0;             ///< of all tokens
  int64_t fired_on_targets = 0;  ///< of those with a valid target
};

struct ValidationScore {
  double cross_entropy_sum = 0;
  int64_t valid_targets = 0;
  int64_t rows = 0;
  int64_t correct = 0;  ///< targets that were the most probable token
  int64_t tokens = 0;
  std::vector<GateScore> gates = {};  ///< of each gate of the model
  double mean() const { return cross_entropy_sum / static_cast<double>(valid_targets); }
  double perplexity() const;
  double accuracy() const { return static_cast<double>(correct) / static_cast<double>(valid_targets); }
};

/// Rows to score so that about `max_tokens` are read (at least one row); all `rows` when max_tokens is 0.
int64_t validation_rows(int64_t rows, int64_t context, int64_t max_tokens);

/// Scores rows [0, rows), `rows_per_batch` at a time, batches dealt to the ranks in turn. `batch_of(first, count)`
/// gives rows. `progress` is called after each batch of this rank with the rows done by all ranks (about). Reads the
/// parameters and nothing else of the training state. Collective. user_error when no target is valid.
ValidationScore score_rows(Communicator& group, LanguageModel& model, int64_t rows, int64_t rows_per_batch,
                           const std::function<Batch(int64_t first, int64_t count)>& batch_of,
                           const std::function<void(int64_t rows_done)>& progress);

}  // namespace longhaul
