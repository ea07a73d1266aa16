// What a model remembers of the length-aware prior, so that inference needs no memberships of its own input (models.md
// 7, "Inference"): per layer and trained length the running means of mean_b mu_b and of the alignment P. Part of the
// model as its parameters are: in checkpoints and exports.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "core/tensor/tensor.h"

namespace longhaul {

class PriorMemory {
 public:
  struct Options {
    int64_t layers = 0;   ///< with memberships
    int64_t regimes = 0;  ///< R, and K = R functions of the basis
    double momentum = 0.99;
    double temperature = 0.68;  ///< at the start
  };
  /// What the controllers decide about the prior; training and inference use the same values.
  struct Control {
    double temperature = 0;        ///< tau_att
    double warm = 0;               ///< scale of the prior: min(1, step / rpa.warm_steps), times the chaotic warm-in
    double lambda_saturation = 0;  ///< raises the penalty of small membership entropy; training only
    bool operator==(const Control&) const = default;
  };
  /// Of one length: f64 tensors, written in place by observe().
  struct Entry {
    int64_t updates = 0;
    Tensor memberships;  ///< [layers, length, R]
    Tensor alignment;    ///< [layers, R, R]
  };

  explicit PriorMemory(const Options& options);

  const Options& options() const { return options_; }
  const Control& control() const { return control_; }
  void set_control(const Control& control) { control_ = control; }

  /// The trained lengths, ascending.
  const std::map<int64_t, Entry>& entries() const { return entries_; }
  /// The entry of a length, zeros with no updates when it is new: what a checkpoint is read into.
  Entry& entry(int64_t length);
  void clear() { entries_.clear(); }

  /// Takes in the means of one step at `length`, in the shapes of Entry, over all slots of that length of all ranks.
  /// The n-th of a length counts 1 / n until that falls below 1 - momentum, so that a young mean is the plain one.
  void observe(int64_t length, const Tensor& memberships, const Tensor& alignment);

  // Both for any length >= 1. Between two trained lengths the mean of their entries, weighted by closeness in length,
  // the memberships read at the same share t / (T - 1) of the row (linearly between positions); beyond them the nearest
  // length's alone. Before any training all regimes are alike: 1 / R.
  Tensor memberships(int64_t layer, int64_t length, DType dtype) const;  ///< [length, R]
  Tensor alignment(int64_t layer, int64_t length, DType dtype) const;    ///< [R, R]

  /// The length whose B a decoder of up to max_length tokens keeps from its first token to its last: the longest
  /// trained one, or max_length when that is longer.
  int64_t decoding_length(int64_t max_length) const;

 private:
  struct Share {
    int64_t length;  ///< a trained one
    double weight;
  };
  std::vector<Share> shares(int64_t length) const;

  Options options_;
  Control control_;
  std::map<int64_t, Entry> entries_;
};

}  // namespace longhaul
