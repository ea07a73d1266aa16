#include "launch/pictures/prior_pictures.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/io/file.h"
#include "core/models/length_aware_layer.h"
#include "kernels/error.h"
#include "launch/pictures/heat_map.h"

namespace longhaul {
namespace {

constexpr double kSide = 384, kStrip = 96;  // pixels of a square map and of the memberships' height
constexpr double kLeft = 80, kTop = 40, kApart = 560, kBelow = 100;
constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

/// The largest absolute value shown: the ends of a scale around 0.
double largest_shown(const HeatMap& map) {
  const int64_t cells = std::min(map.rows, kMostHeatCells);
  double largest = 0;
  for (int64_t row = 0; row < cells; ++row) {
    for (int64_t column = 0; column <= row; ++column) {
      const int64_t query = shown_element(row, cells, map.rows), key = shown_element(column, cells, map.columns);
      largest = std::max(largest, std::abs(map.value(query, key)));
    }
  }
  return largest;
}

HeatMap square(const std::string& title, int64_t length, std::function<double(int64_t, int64_t)> value) {
  HeatMap map{.title = title,
              .row_label = "query",
              .column_label = "key",
              .rows = length,
              .columns = length,
              .value = [value = std::move(value)](int64_t query,
                                                  int64_t key) { return key > query ? kNone : value(query, key); },
              .width = kSide,
              .height = kSide};
  map.most = largest_shown(map);
  map.least = -map.most;
  return map;
}

HeatMap strip(const Tensor& memberships) {
  const int64_t regimes = memberships.size(1);
  const auto [least, most] = std::ranges::minmax(memberships.span<double>());
  return {.title = "mean memberships",
          .row_label = "regime",
          .column_label = "position",
          .rows = regimes,
          .columns = memberships.size(0),
          .value = [=](int64_t regime, int64_t t) { return memberships.data<double>()[t * regimes + regime]; },
          .least = least,
          .most = most,
          .width = kApart + kSide,
          .height = kStrip};
}

}  // namespace

double PriorBias::unclipped(int64_t query, int64_t key) const {
  const kernels::AttentionPrior<float> prior = factors_.view<float>();
  const int64_t columns = prior.rank + 1;
  const float *q = prior.query + query * columns, *k = prior.key + key * columns;
  double sum = static_cast<double>(q[prior.rank]) + static_cast<double>(k[prior.rank]);
  for (int64_t r = 0; r < prior.rank; ++r) sum += static_cast<double>(q[r]) * static_cast<double>(k[r]);
  return sum;
}

double PriorBias::clipped(int64_t query, int64_t key) const {
  return std::clamp(unclipped(query, key), -limit(), limit());
}

std::string draw_prior(const LanguageModel& model, int64_t layer, int64_t length) {
  const PriorMemory& memory = *model.prior_memory();
  const bool has_prior = model.config().has_prior();
  const double maps = has_prior ? kSide + kBelow : 0;
  SvgPicture picture(kLeft + kApart + kSide + kLeft, kTop + 30 + maps + kStrip + 50);
  picture.text({16, 22}, fmt::format("layer {}, rows of {} tokens", layer, length), {.size = 15});
  if (has_prior) {
    const Variable slope = prior_slopes(model.parameters()).at(static_cast<size_t>(layer));
    const PriorBias bias(frozen_prior(memory, model.config().rpa, layer, slope, length, DType::f32), length);
    const auto before = [&](int64_t query, int64_t key) { return bias.unclipped(query, key); };
    const auto after = [&](int64_t query, int64_t key) { return bias.clipped(query, key); };
    draw_heat_map(picture, {kLeft, kTop + 30}, square("bias before the clip", length, before));
    draw_heat_map(picture, {kLeft + kApart, kTop + 30}, square("bias that attention adds", length, after));
  }
  draw_heat_map(picture, {kLeft, kTop + 30 + maps}, strip(memory.memberships(layer, length, DType::f64)));
  return picture.document();
}

std::vector<std::filesystem::path> write_prior_pictures(const LanguageModel& model, const std::vector<int64_t>& lengths,
                                                        const std::filesystem::path& directory) {
  if (model.prior_memory() == nullptr) {
    throw user_error("a model of family {} has no memberships to draw; see rpa.prior", model.config().family);
  }
  create_directories_durably(directory);
  std::vector<std::filesystem::path> files;
  for (const int64_t length : lengths) {
    for (int64_t layer = 0; layer < model.prior_memory()->options().layers; ++layer) {
      files.push_back(directory / fmt::format("length-{}-layer-{:02}.svg", length, layer));
      write_file_durably(files.back(), draw_prior(model, layer, length));
    }
  }
  return files;
}

}  // namespace longhaul
