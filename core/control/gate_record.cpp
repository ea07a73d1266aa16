#include "core/control/gate_record.h"

#include <cstdint>
#include <span>

namespace longhaul {

std::vector<float> valid_entropies(const Tensor& entropies, const Tensor& targets) {
  std::vector<float> valid;
  const std::span<const float> values = entropies.span<float>();
  const std::span<const int32_t> wanted = targets.span<int32_t>();
  if (values.size() != wanted.size()) throw internal_error("{} entropies for {} targets", values.size(), wanted.size());
  for (size_t i = 0; i < values.size(); ++i) {
    if (wanted[i] >= 0) valid.push_back(values[i]);
  }
  return valid;
}

}  // namespace longhaul
