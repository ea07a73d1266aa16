// AdamW with its state sharded over the ranks (ZeRO stage 1, Rajbhandari et al. 2020): every rank updates the blocks it
// owns, then the new values are gathered. The result does not depend on the number of ranks.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/comm/communicator.h"
#include "core/nn/parameter_store.h"
#include "core/optim/adamw.h"
#include "parallel/shard_layout.h"
#include "parallel/tensor_slice.h"

namespace longhaul {

/// Gradient norms (2-norm) after scaling. Not finite when any gradient is not; the same on every rank.
struct GradientNorms {
  double total = 0;
  std::vector<double> per_tensor;  ///< by index into ParameterStore::parameters()
};

struct ShardedOptimizerOptions {
  AdamWOptions adamw = {};
  double ema_decay = 0;    ///< per update; 0: no EMA is kept. Must lie in [0, 1).
  bool snapshots = false;  ///< keep a mean of snapshots of the weights
};

/// The averages of the weights that may be kept.
enum class WeightAverage { ema, swa };
const char* name_of(WeightAverage average);  ///< "ema", "swa": the kind of its state

class ShardedOptimizer {
 public:
  /// `store` is initialised (values equal on all ranks). State: m and v, an f32 master copy when the store holds bf16,
  /// and the averages asked for; f32 (f64 for a store in f64), own blocks only. All must outlive the optimizer.
  ShardedOptimizer(ParameterStore& store, const ShardLayout& layout, Communicator& group,
                   const ShardedOptimizerOptions& options);
  ~ShardedOptimizer();

  /// Norms of scale * gradient, where `gradients` is what GradientReducer::finish() returned. Collective. Sums of
  /// squares per block in double, added in block order.
  GradientNorms gradient_norms(const Tensor& gradients, double scale);
  /// One AdamW update with gradient gradient_scale * gradients, then the gather of the new values. Collective. Whether
  /// to call it at all (non-finite norm, spike) is the trainer's decision, taken alike on all ranks from
  /// gradient_norms().
  void update(const Tensor& gradients, double learning_rate, double gradient_scale);
  /// Updates done so far: the t of the bias corrections.
  int64_t updates() const { return updates_; }

  /// This rank's part of the training state: kinds "parameter", "adam_m", "adam_v", "master" (bf16 stores), "ema",
  /// "swa".
  std::vector<TensorSlice> state();
  /// Restores: `fill` writes the elements of every slice of state(); then the values are gathered. Collective, except
  /// for what `fill` throws, which becomes every rank's error.
  void load(int64_t updates, const std::function<void(const TensorSlice&)>& fill);
  /// After the store's values were replaced from outside (imported weights): master copy and averages start from them,
  /// moments from zero.
  void restart_from_values();

  bool has_average(WeightAverage average) const { return tensor_of(average).defined(); }
  /// Exchanges values and average on all ranks, for evaluation; a second call puts everything back bit for bit.
  /// Collective. Another average, update(), take_snapshot() and state() in between are an internal_error. No extra
  /// memory.
  void swap_average(WeightAverage average);
  /// The mean of snapshots moves towards the present weights (the master copy where there is one): mean <- mean +
  /// weight (weights - mean), weight in (0, 1]; 1 makes it the weights exactly. Not collective.
  void take_snapshot(double weight);

  /// One line per parameter: name, shape, "decay" or "no decay". Printed at start and stored in checkpoints.
  std::string decay_list() const;
  /// One line: where master weights live, types and bytes of the state on this rank.
  std::string description() const;

 private:
  struct OwnedPiece;  ///< a run of one parameter's elements
  template <typename Function>
  void for_each_piece(Function&& function) const;
  template <typename T>
  T* values(const OwnedPiece& piece) const;
  template <typename T>
  void update_piece(const OwnedPiece& piece, const Tensor& gradients, const kernels::AdamWStep& step);
  void round_to_values(const Tensor& source, const OwnedPiece& piece) const;
  void require_not_swapped(const char* call) const;
  const Tensor& tensor_of(WeightAverage average) const { return average == WeightAverage::ema ? ema_ : swa_; }

  ParameterStore& store_;
  const ShardLayout& layout_;
  Communicator& group_;
  ShardedOptimizerOptions options_;
  std::vector<std::vector<OwnedPiece>> pieces_;  ///< by bucket
  Tensor m_, v_, master_, ema_, swa_;            ///< own elements, end to end
  int64_t updates_ = 0;
  std::optional<WeightAverage> swapped_;
};

}  // namespace longhaul
