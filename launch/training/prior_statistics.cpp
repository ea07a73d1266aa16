#include "launch/training/prior_statistics.h"

#include <algorithm>
#include <cmath>

#include "kernels/error.h"

namespace longhaul {
namespace {

constexpr int kFractionBits = 40;  ///< of a sum's unit: 2^22 slots of values up to 2 fit

/// A step with values that are not finite is never applied.
int64_t fixed_point(double value) { return std::isfinite(value) ? std::llround(std::ldexp(value, kFractionBits)) : 0; }

/// sums[begin + i] += values[i].
void add_fixed(std::vector<int64_t>& sums, int64_t begin, const Tensor& values) {
  const Tensor source = values.to(DType::f64);
  for (int64_t i = 0; i < source.count(); ++i) {
    sums[static_cast<size_t>(begin + i)] += fixed_point(source.data<double>()[i]);
  }
}

Tensor mean_of(const std::vector<int64_t>& sums, Shape shape, int64_t slots) {
  const Tensor result = Tensor::empty(shape, DType::f64);
  for (size_t i = 0; i < sums.size(); ++i) {
    result.data<double>()[i] = std::ldexp(static_cast<double>(sums[i]), -kFractionBits) / static_cast<double>(slots);
  }
  return result;
}

}  // namespace

void add_memberships(LayerMemberships& sum, const LayerMemberships& other) {
  if (sum.empty()) sum.resize(other.size());
  for (size_t layer = 0; layer < other.size(); ++layer) sum.at(layer).add(other[layer]);
}

MembershipSummary summarize(const LayerMemberships& layers) {
  MembershipSummary summary;
  for (const ops::MembershipStatistics& layer : layers) {
    summary.saturation += layer.saturation() / static_cast<double>(layers.size());
    summary.relative_entropy += layer.relative_entropy() / static_cast<double>(layers.size());
    summary.collapse = std::max(summary.collapse, layer.collapse());
  }
  return summary;
}

PriorStatistics::PriorStatistics(const PriorMemory* memory, int64_t slots) {
  if (!memory) return;
  layers_ = memory->options().layers;
  regimes_ = memory->options().regimes;
  slot_lengths_.resize(static_cast<size_t>(slots));
  ops::MembershipStatistics none;
  none.regimes = regimes_;
  slots_.assign(static_cast<size_t>(slots), LayerMemberships(static_cast<size_t>(layers_), none));
}

PriorStatistics::LengthSums& PriorStatistics::sums_of(int64_t length) {
  LengthSums& sums = sums_[length];
  sums.memberships.resize(static_cast<size_t>(layers_ * length * regimes_));
  sums.alignment.resize(static_cast<size_t>(layers_ * regimes_ * regimes_));
  return sums;
}

void PriorStatistics::add(int64_t slot, const PriorRecord& record, const Batch& batch) {
  if (static_cast<int64_t>(record.layers.size()) != layers_) {
    throw internal_error("prior statistics: a record of {} layers, expected {}", record.layers.size(), layers_);
  }
  if (layers_ == 0) return;
  const int64_t length = batch.length();
  slot_lengths_[static_cast<size_t>(slot)] = length;
  LengthSums& sums = sums_of(length);
  for (int64_t layer = 0; layer < layers_; ++layer) {
    const PriorRecord::Layer& measured = record.layers[static_cast<size_t>(layer)];
    slots_[static_cast<size_t>(slot)][static_cast<size_t>(layer)] =
        ops::membership_statistics(measured.memberships, batch.targets);
    add_fixed(sums.memberships, layer * length * regimes_, measured.mean_memberships);
    if (measured.alignment.defined()) add_fixed(sums.alignment, layer * regimes_ * regimes_, measured.alignment);
  }
}

std::vector<LayerMemberships> PriorStatistics::gather(Communicator& group) {
  if (layers_ == 0) return {};
  gather_slots(group);
  sum_lengths(group);
  return slots_;
}

void PriorStatistics::gather_slots(Communicator& group) {
  std::vector<int64_t> counts = slot_lengths_;
  std::vector<double> values;
  for (const LayerMemberships& slot : slots_) {
    for (const ops::MembershipStatistics& layer : slot) {
      counts.insert(counts.end(), {layer.tokens, layer.saturated});
      values.push_back(layer.entropy);
      values.insert(values.end(), layer.sums.begin(), layer.sums.begin() + regimes_);
    }
  }
  group.sum(counts);
  group.assemble(values);
  std::copy_n(counts.begin(), slot_lengths_.size(), slot_lengths_.begin());
  const int64_t* count = counts.data() + slot_lengths_.size();
  const double* value = values.data();
  for (LayerMemberships& slot : slots_) {
    for (ops::MembershipStatistics& layer : slot) {
      layer.tokens = *count++;
      layer.saturated = *count++;
      layer.entropy = *value++;
      std::copy_n(value, regimes_, layer.sums.begin());
      value += regimes_;
    }
  }
}

void PriorStatistics::sum_lengths(Communicator& group) {
  for (const int64_t length : slot_lengths_) ++sums_of(length).slots;  // also where only other ranks played it
  std::vector<int64_t> all;
  for (const auto& [length, sums] : sums_) {
    all.insert(all.end(), sums.memberships.begin(), sums.memberships.end());
    all.insert(all.end(), sums.alignment.begin(), sums.alignment.end());
  }
  group.sum(all);
  const int64_t* next = all.data();
  for (auto& [length, sums] : sums_) {
    for (std::vector<int64_t>* part : {&sums.memberships, &sums.alignment}) {
      std::copy_n(next, part->size(), part->begin());
      next += part->size();
    }
  }
}

void PriorStatistics::update(PriorMemory& memory) const {
  for (const auto& [length, sums] : sums_) {
    memory.observe(length, mean_of(sums.memberships, {layers_, length, regimes_}, sums.slots),
                   mean_of(sums.alignment, {layers_, regimes_, regimes_}, sums.slots));
  }
}

}  // namespace longhaul
