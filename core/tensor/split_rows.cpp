#include "core/tensor/split_rows.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "kernels/error.h"

namespace longhaul {

Batch split_rows(const Batch& batch, int64_t length) {
  if (length < 1 || batch.length() % length != 0) {
    throw internal_error("batch: rows of {} tokens cannot be cut into rows of {}", batch.length(), length);
  }
  const int64_t pieces = batch.length() / length;
  if (pieces == 1) return batch;
  std::vector<int32_t> document_start = batch.document_start.to_vector<int32_t>();
  for (size_t i = 0; i < document_start.size(); ++i) {
    const int64_t piece = static_cast<int64_t>(i) / length % pieces;
    document_start[i] = std::max(0, document_start[i] - static_cast<int32_t>(piece * length));
  }
  std::vector<int64_t> sample_ids;
  for (const int64_t sample : batch.sample_ids) {
    for (int64_t piece = 0; piece < pieces; ++piece) sample_ids.push_back(sample * pieces + piece);
  }
  return make_batch(batch.rows() * pieces, length, batch.ids.to_vector<int32_t>(), batch.targets.to_vector<int32_t>(),
                    std::move(document_start), std::move(sample_ids));
}

}  // namespace longhaul
