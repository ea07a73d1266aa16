#include "core/control/validation_measure.h"

#include <cmath>

namespace longhaul {

Usability judge(const ValidationMeasure& measure, const std::string& reference) {
  if (!measure.finished) return Usability::unfinished;
  for (const double value : {measure.cross_entropy, measure.gate_delta, measure.saturation, measure.entropy}) {
    if (!std::isfinite(value)) return Usability::not_finite;
  }
  return reference.empty() || measure.data == reference ? Usability::usable : Usability::other_data;
}

const char* name_of(Usability usability) {
  switch (usability) {
    case Usability::usable:
      return "usable";
    case Usability::unfinished:
      return "validation did not finish";
    case Usability::not_finite:
      return "not finite";
    case Usability::other_data:
      return "other data";
  }
  return "";
}

}  // namespace longhaul
