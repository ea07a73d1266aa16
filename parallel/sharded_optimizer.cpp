#include "parallel/sharded_optimizer.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/comm/agreement.h"
#include "kernels/error.h"
#include "kernels/pointwise.h"
#include "parallel/parameter_gather.h"

namespace longhaul {

/// Elements [offset, offset + count) of a parameter: at `flat` in the flat buffers, at `local` in the own state.
struct ShardedOptimizer::OwnedPiece {
  int parameter;
  int64_t offset, flat, local, count;
};

const char* name_of(WeightAverage average) { return average == WeightAverage::ema ? "ema" : "swa"; }

ShardedOptimizer::ShardedOptimizer(ParameterStore& store, const ShardLayout& layout, Communicator& group,
                                   const ShardedOptimizerOptions& options)
    : store_(store), layout_(layout), group_(group), options_(options) {
  if (!(options.ema_decay >= 0 && options.ema_decay < 1)) {
    throw user_error("EMA decay {}: expected a number from 0 (off) to below 1", options.ema_decay);
  }
  int64_t local = 0;
  for (size_t bucket = 0; bucket < layout.buckets().size(); ++bucket) {
    auto& pieces = pieces_.emplace_back();
    const auto [begin, end] = layout.owned_blocks(static_cast<int64_t>(bucket), group.rank());
    for (int64_t index = begin; index < end; ++index) {
      const ParameterBlock& block = store.blocks()[index];
      if (!pieces.empty() && pieces.back().parameter == block.parameter) {
        pieces.back().count += block.count;
      } else {
        pieces.push_back({block.parameter, block.begin, block.offset, local, block.count});
      }
      local += block.count;
    }
  }
  const DType type = store.dtype() == DType::f64 ? DType::f64 : DType::f32;
  m_ = Tensor::zeros({local}, type);
  v_ = Tensor::zeros({local}, type);
  if (store.dtype() == DType::bf16) master_ = Tensor::empty({local}, type);
  if (options.ema_decay > 0) ema_ = Tensor::empty({local}, type);
  if (options.snapshots) swa_ = Tensor::empty({local}, type);
  restart_from_values();
}

ShardedOptimizer::~ShardedOptimizer() = default;

void ShardedOptimizer::restart_from_values() {
  m_.zero();
  v_.zero();
  updates_ = 0;
  swapped_.reset();
  for (const Tensor* copy : {&master_, &ema_, &swa_}) {
    if (!copy->defined()) continue;
    for_each_piece([&](const OwnedPiece& piece) {
      dispatch_float("optimizer", m_.dtype(), [&]<typename T>(T) {
        T* out = copy->data<T>() + piece.local;
        if (master_.defined()) {
          kernels::convert(kernels::Cpu{}, reinterpret_cast<float*>(out), values<bf16>(piece), piece.count);
        } else {
          kernels::convert(kernels::Cpu{}, out, values<T>(piece), piece.count);
        }
      });
    });
  }
}

GradientNorms ShardedOptimizer::gradient_norms(const Tensor& gradients, double scale) {
  std::vector<double> block_sums(store_.blocks().size(), 0.0);
  for (size_t bucket = 0; bucket < layout_.buckets().size(); ++bucket) {
    const auto owned = layout_.owned_blocks(static_cast<int64_t>(bucket), group_.rank());
    dispatch_float("gradient norm", gradients.dtype(), [&]<typename T>(T) {
      const T* elements = gradients.data<T>();
      // One parallel region for a bucket instead of one for a block; a block is summed in the same order either way.
#pragma omp parallel for schedule(static)
      for (int64_t index = owned.first; index < owned.second; ++index) {
        const ParameterBlock& block = store_.blocks()[index];
        block_sums[index] = kernels::sum_of_squares(kernels::Cpu{}, elements + block.offset, block.count);
      }
    });
  }
  group_.assemble(block_sums);
  std::vector<double> sums(store_.parameters().size(), 0.0);
  for (size_t index = 0; index < block_sums.size(); ++index)
    sums[store_.blocks()[index].parameter] += block_sums[index];
  GradientNorms norms;
  double total = 0;
  for (const double sum : sums) {
    total += sum;
    norms.per_tensor.push_back(scale * std::sqrt(sum));
  }
  norms.total = scale * std::sqrt(total);
  return norms;
}

void ShardedOptimizer::update(const Tensor& gradients, double learning_rate, double gradient_scale) {
  require_not_swapped("update");
  ++updates_;
  const auto decayed = adamw_step(options_.adamw, updates_, learning_rate, gradient_scale, WeightDecay::yes);
  const auto plain = adamw_step(options_.adamw, updates_, learning_rate, gradient_scale, WeightDecay::no);
  ParameterGather gather(group_, layout_, store_.flat_values());
  for (size_t bucket = 0; bucket < pieces_.size(); ++bucket) {
    for (const OwnedPiece& piece : pieces_[bucket]) {
      const bool decays = store_.parameters()[piece.parameter].decay == WeightDecay::yes;
      dispatch_float("optimizer", m_.dtype(),
                     [&]<typename T>(T) { update_piece<T>(piece, gradients, decays ? decayed : plain); });
    }
    gather.start(static_cast<int64_t>(bucket));
  }
  gather.finish();
}

template <typename T>
void ShardedOptimizer::update_piece(const OwnedPiece& piece, const Tensor& gradients, const kernels::AdamWStep& step) {
  const kernels::Cpu cpu;
  T* weights = master_.defined() ? master_.data<T>() + piece.local : values<T>(piece);
  kernels::adamw_update(cpu, weights, m_.data<T>() + piece.local, v_.data<T>() + piece.local,
                        gradients.data<T>() + piece.flat, piece.count, step);
  if (master_.defined()) round_to_values(master_, piece);
  if (ema_.defined()) {
    kernels::lerp_average(cpu, ema_.data<T>() + piece.local, weights, options_.ema_decay, piece.count);
  }
}

template <typename T>
T* ShardedOptimizer::values(const OwnedPiece& piece) const {
  return store_.flat_values().data<T>() + piece.flat;
}

void ShardedOptimizer::round_to_values(const Tensor& source, const OwnedPiece& piece) const {
  kernels::convert(kernels::Cpu{}, values<bf16>(piece), source.data<float>() + piece.local, piece.count);
}

template <typename Function>
void ShardedOptimizer::for_each_piece(Function&& function) const {
  for (const auto& bucket : pieces_) {
    for (const OwnedPiece& piece : bucket) function(piece);
  }
}

void ShardedOptimizer::swap_average(WeightAverage average) {
  const Tensor& tensor = tensor_of(average);
  if (!tensor.defined()) throw internal_error("no {} of the weights is kept", name_of(average));
  if (swapped_ && *swapped_ != average) require_not_swapped("swap_average");
  for_each_piece([&](const OwnedPiece& piece) {
    if (master_.defined()) {  // the values are the rounded master copy: nothing needs to be kept
      round_to_values(swapped_ ? master_ : tensor, piece);
      return;
    }
    dispatch_float("optimizer", m_.dtype(), [&]<typename T>(T) {
      T* elements = tensor.data<T>() + piece.local;
      std::swap_ranges(elements, elements + piece.count, values<T>(piece));
    });
  });
  swapped_ = swapped_ ? std::nullopt : std::optional(average);
  gather_parameters(group_, layout_, store_.flat_values());
}

void ShardedOptimizer::take_snapshot(double weight) {
  require_not_swapped("take_snapshot");
  if (!swa_.defined()) throw internal_error("no mean of snapshots is kept");
  for_each_piece([&](const OwnedPiece& piece) {
    dispatch_float("snapshot", swa_.dtype(), [&]<typename T>(T) {
      const T* weights = master_.defined() ? master_.data<T>() + piece.local : values<T>(piece);
      T* mean = swa_.data<T>() + piece.local;
      const T share = static_cast<T>(weight);
#pragma omp parallel for schedule(static)
      for (int64_t i = 0; i < piece.count; ++i) {
        mean[i] = share == 1 ? weights[i] : mean[i] + share * (weights[i] - mean[i]);
      }
    });
  });
}

std::vector<TensorSlice> ShardedOptimizer::state() {
  require_not_swapped("state");
  std::vector<TensorSlice> slices;
  const auto add = [&](const std::string& kind, const Tensor& tensor, bool flat) {
    if (!tensor.defined()) return;
    for_each_piece([&](const OwnedPiece& piece) {
      const Parameter& parameter = store_.parameters()[piece.parameter];
      const int64_t element = flat ? piece.flat : piece.local;
      slices.push_back({kind, parameter.name, parameter.shape(), tensor.dtype(), piece.offset, piece.count,
                        tensor.raw() + element * size_of(tensor.dtype())});
    });
  };
  add("parameter", store_.flat_values(), true);
  add("adam_m", m_, false);
  add("adam_v", v_, false);
  add("master", master_, false);
  for (const WeightAverage average : {WeightAverage::ema, WeightAverage::swa}) {
    add(name_of(average), tensor_of(average), false);
  }
  return slices;
}

void ShardedOptimizer::load(int64_t updates, const std::function<void(const TensorSlice&)>& fill) {
  agree(group_, "loading the training state", [&] {
    for (const TensorSlice& slice : state()) fill(slice);
  });
  updates_ = updates;
  gather_parameters(group_, layout_, store_.flat_values());
}

void ShardedOptimizer::require_not_swapped(const char* call) const {
  if (swapped_) throw internal_error("{}: the {} weights are swapped in", call, name_of(*swapped_));
}

std::string ShardedOptimizer::decay_list() const {
  std::string text;
  for (const Parameter& parameter : store_.parameters()) {
    text += fmt::format("{} {} {}\n", parameter.name, parameter.shape().text(),
                        parameter.decay == WeightDecay::yes ? "decay" : "no decay");
  }
  return text;
}

std::string ShardedOptimizer::description() const {
  int64_t bytes = 0;
  for (const Tensor* tensor : {&m_, &v_, &master_, &ema_, &swa_}) bytes += tensor->defined() ? tensor->bytes() : 0;
  return fmt::format(
      "AdamW over {} rank{}: values {}, {}, moments {}{}{}; {:.1f} MiB of state on this rank", group_.size(),
      group_.size() == 1 ? "" : "s", name_of(store_.dtype()),
      master_.defined() ? "f32 master weights on the rank that owns them" : "which are the master weights",
      name_of(m_.dtype()), ema_.defined() ? fmt::format(", EMA {}", options_.ema_decay) : "",
      swa_.defined() ? ", mean of snapshots" : "", static_cast<double>(bytes) / (1 << 20));
}

}  // namespace longhaul
