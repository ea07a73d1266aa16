// Batches for the ops whose random draws are keyed by samples.
#pragma once

#include <utility>
#include <vector>

#include "core/tensor/batch.h"

namespace longhaul::testing {

/// All ids and targets are 0, one document a row.
inline Batch batch_of_samples(int64_t rows, int64_t length, std::vector<int64_t> samples) {
  const std::vector<int32_t> zeros(static_cast<size_t>(rows * length), 0);
  return make_batch(rows, length, zeros, zeros, {}, std::move(samples));
}

}  // namespace longhaul::testing
