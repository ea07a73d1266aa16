// Pictures of the length-aware prior of a trained model, as inference uses it (models.md 7.4, 7.5).
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "core/models/language_model.h"
#include "core/ops/length_prior.h"

namespace longhaul {

/// What attention adds to the score of key j at query i of rows of `length` tokens, j <= i < length.
class PriorBias {
 public:
  /// internal_error as ops::PriorFactors.
  PriorBias(const ops::LengthPrior& prior, int64_t length) : factors_(prior, length, DType::f32) {}

  double unclipped(int64_t query, int64_t key) const;  ///< from the factors, before the clip
  double clipped(int64_t query, int64_t key) const;
  double limit() const { return factors_.view<float>().limit; }  ///< of the absolute value, clipped

 private:
  ops::PriorFactors factors_;
};

/// An SVG file of layer number `layer` of those with memberships: the bias before and after the clip (with a prior) and
/// the mean memberships over the row.
std::string draw_prior(const LanguageModel& model, int64_t layer, int64_t length);

/// Writes one picture per layer with memberships and length, DIR/length-T-layer-NN.svg; makes the directory. Returns
/// the files. user_error naming the family when the model has no memberships.
std::vector<std::filesystem::path> write_prior_pictures(const LanguageModel& model, const std::vector<int64_t>& lengths,
                                                        const std::filesystem::path& directory);

}  // namespace longhaul
