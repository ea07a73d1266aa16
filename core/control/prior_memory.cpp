#include "core/control/prior_memory.h"

#include <algorithm>
#include <cmath>

#include "kernels/error.h"

namespace longhaul {
namespace {

/// to += weight * (value - to) for all elements.
void move_towards(const Tensor& to, const Tensor& value, double weight) {
  double* const x = to.data<double>();
  const double* const y = value.data<double>();
  for (int64_t i = 0; i < to.count(); ++i) x[i] += weight * (y[i] - x[i]);
}

/// result [length, columns] += weight * source [source_length, columns], read at the same share of the row.
void add_resampled(double* result, int64_t length, const double* source, int64_t source_length, int64_t columns,
                   double weight) {
  const double scale = length > 1 ? static_cast<double>(source_length - 1) / static_cast<double>(length - 1) : 0.0;
  for (int64_t t = 0; t < length; ++t) {
    const double at = static_cast<double>(t) * scale;
    const int64_t below = std::min(static_cast<int64_t>(at), source_length - 1);
    const int64_t above = std::min(below + 1, source_length - 1);
    const double fraction = at - static_cast<double>(below);
    for (int64_t c = 0; c < columns; ++c) {
      const double low = source[below * columns + c], high = source[above * columns + c];
      result[t * columns + c] += weight * (low + fraction * (high - low));
    }
  }
}

}  // namespace

PriorMemory::PriorMemory(const Options& options) : options_(options) {
  if (options.layers < 1 || options.regimes < 1) {
    throw internal_error("prior memory of {} layers and {} regimes", options.layers, options.regimes);
  }
  control_.temperature = options.temperature;
}

PriorMemory::Entry& PriorMemory::entry(int64_t length) {
  Entry& entry = entries_[length];
  if (!entry.memberships.defined()) {
    entry.memberships = Tensor::zeros({options_.layers, length, options_.regimes}, DType::f64);
    entry.alignment = Tensor::zeros({options_.layers, options_.regimes, options_.regimes}, DType::f64);
  }
  return entry;
}

void PriorMemory::observe(int64_t length, const Tensor& memberships, const Tensor& alignment) {
  Entry& entry = this->entry(length);
  if (memberships.shape() != entry.memberships.shape() || alignment.shape() != entry.alignment.shape()) {
    throw internal_error("prior memory of length {}: memberships {}, expected {}; alignment {}, expected {}", length,
                         memberships.shape().text(), entry.memberships.shape().text(), alignment.shape().text(),
                         entry.alignment.shape().text());
  }
  ++entry.updates;
  const double weight = std::max(1.0 / static_cast<double>(entry.updates), 1 - options_.momentum);
  move_towards(entry.memberships, memberships, weight);
  move_towards(entry.alignment, alignment, weight);
}

std::vector<PriorMemory::Share> PriorMemory::shares(int64_t length) const {
  if (entries_.empty()) return {};
  const auto above = entries_.lower_bound(length);
  if (above == entries_.begin() || (above != entries_.end() && above->first == length)) return {{above->first, 1.0}};
  const auto below = std::prev(above);
  if (above == entries_.end()) return {{below->first, 1.0}};
  const double fraction = static_cast<double>(length - below->first) / static_cast<double>(above->first - below->first);
  return {{below->first, 1 - fraction}, {above->first, fraction}};
}

Tensor PriorMemory::memberships(int64_t layer, int64_t length, DType dtype) const {
  const Tensor result = Tensor::zeros({length, options_.regimes}, DType::f64);
  const std::vector<Share> shares = this->shares(length);
  for (const Share& share : shares) {
    const double* const source =
        entries_.at(share.length).memberships.data<double>() + layer * share.length * options_.regimes;
    add_resampled(result.data<double>(), length, source, share.length, options_.regimes, share.weight);
  }
  if (shares.empty()) {
    std::fill_n(result.data<double>(), result.count(), 1.0 / static_cast<double>(options_.regimes));
  }
  return result.to(dtype);
}

Tensor PriorMemory::alignment(int64_t layer, int64_t length, DType dtype) const {
  const int64_t regimes = options_.regimes, count = regimes * regimes;
  const Tensor result = Tensor::zeros({regimes, regimes}, DType::f64);
  const std::vector<Share> shares = this->shares(length);
  for (const Share& share : shares) {
    const double* const source = entries_.at(share.length).alignment.data<double>() + layer * count;
    for (int64_t i = 0; i < count; ++i) result.data<double>()[i] += share.weight * source[i];
  }
  if (shares.empty()) std::fill_n(result.data<double>(), count, 1.0 / static_cast<double>(regimes));
  return result.to(dtype);
}

int64_t PriorMemory::decoding_length(int64_t max_length) const {
  return entries_.empty() ? max_length : std::max(max_length, entries_.rbegin()->first);
}

}  // namespace longhaul
