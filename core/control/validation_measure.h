// What the controllers read after a validation: numbers that are equal on all ranks, and whether they may be used.
#pragma once

#include <string>

namespace longhaul {

/// One validation over all ranks.
struct ValidationMeasure {
  bool finished = false;     ///< every planned token was scored
  std::string data;          ///< identity of what was scored (dataset, split, tokens, length)
  double cross_entropy = 0;  ///< nats a token
  double gate_delta = 0;     ///< how far the residual gates moved since the last validation
  double saturation = 0;     ///< fraction of memberships above 0.9
  double entropy = 0;        ///< mean membership entropy over its maximum, in [0, 1]
};

enum class Usability { usable, unfinished, not_finite, other_data };

/// Controllers act on usable measures only. `reference` is the identity of the data acted on so far; "" accepts any.
Usability judge(const ValidationMeasure& measure, const std::string& reference);

const char* name_of(Usability usability);  ///< "usable", "validation did not finish", "not finite", "other data"

}  // namespace longhaul
