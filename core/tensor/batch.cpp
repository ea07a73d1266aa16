#include "core/tensor/batch.h"

#include <algorithm>
#include <utility>

namespace longhaul {
namespace {

void check_count(const char* what, size_t found, int64_t rows, int64_t length) {
  if (static_cast<int64_t>(found) != rows * length) {
    throw internal_error("batch: {} {} for {} rows of {} tokens", found, what, rows, length);
  }
}

}  // namespace

int64_t Batch::valid_targets() const {
  const std::span<const int32_t> values = targets.span<int32_t>();
  return std::count_if(values.begin(), values.end(), [](int32_t target) { return target >= 0; });
}

Batch make_batch(int64_t rows, int64_t length, std::vector<int32_t> ids, std::vector<int32_t> targets,
                 std::vector<int32_t> document_start, std::vector<int64_t> sample_ids) {
  if (document_start.empty()) document_start.assign(static_cast<size_t>(rows * length), 0);
  check_count("ids", ids.size(), rows, length);
  check_count("targets", targets.size(), rows, length);
  check_count("document starts", document_start.size(), rows, length);
  if (static_cast<int64_t>(sample_ids.size()) != rows) {
    throw internal_error("batch: {} sample ids for {} rows", sample_ids.size(), rows);
  }
  std::vector<int32_t> positions(ids.size());
  for (int64_t row = 0; row < rows; ++row) {
    int32_t previous = 0;
    for (int64_t t = 0; t < length; ++t) {
      const size_t index = static_cast<size_t>(row * length + t);
      const int32_t start = document_start[index];
      if (start < previous || start > t) {
        throw internal_error("batch: document start {} at row {} position {}: starts never fall and never lie ahead",
                             start, row, t);
      }
      previous = start;
      positions[index] = static_cast<int32_t>(t) - start;
    }
  }
  const Shape shape{rows, length};
  return {Tensor::from<int32_t>(shape, ids), Tensor::from<int32_t>(shape, targets),
          Tensor::from<int32_t>(shape, document_start), Tensor::from<int32_t>(shape, positions), std::move(sample_ids)};
}

}  // namespace longhaul
