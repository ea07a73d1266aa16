// All parameters of a model in one flat value buffer and one flat gradient buffer, cut into fixed blocks. The layout
// depends on the model alone, never on ranks; ranks own runs of blocks (parallel/shard_layout.h).
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/autograd/variable.h"

namespace longhaul {

/// How a parameter starts. All draws are keyed by (seed, parameter name), so neither order nor ranks matter.
struct Initialization {
  enum class Kind { normal, constant, custom } kind = Kind::normal;
  double value = 0.02;  ///< standard deviation, or the constant
  /// custom: element index and a uniform draw in [0,1) to value.
  std::function<double(int64_t index, double uniform)> element;
  static Initialization normal(double deviation) { return {Kind::normal, deviation, nullptr}; }
  static Initialization constant(double value) { return {Kind::constant, value, nullptr}; }
};

enum class WeightDecay { yes, no };  ///< explicit for every parameter: there is no default (bug log O3)

/// One named parameter. `offset` is its first element in the flat buffers (multiple of 16 elements).
struct Parameter {
  std::string name;
  Variable variable;
  WeightDecay decay;
  Initialization initialization;
  int64_t offset = 0;
  int64_t count() const { return variable.value().count(); }
  const Shape& shape() const { return variable.shape(); }
};

/// A piece of a parameter of at most ParameterStore::kBlockElements elements: the unit of sharding, norms and
/// checkpoints.
struct ParameterBlock {
  int parameter;  ///< index into parameters()
  int64_t begin;  ///< first element within the parameter
  int64_t count;
  int64_t offset;  ///< first element in the flat buffers
};

class ParameterStore {
 public:
  static constexpr int64_t kBlockElements = 65536;
  static constexpr int64_t kAlignment = 16;  ///< elements between parameter starts

  explicit ParameterStore(DType dtype = DType::f32) : dtype_(dtype) {}
  ParameterStore(const ParameterStore&) = delete;
  ParameterStore& operator=(const ParameterStore&) = delete;

  /// Registers a parameter; call in forward order. internal_error for a repeated name or after finalize().
  Variable add(const std::string& name, Shape shape, WeightDecay decay, Initialization initialization);
  /// Lays out and allocates the flat value buffer (reverse registration order: the order in which gradients become
  /// ready) and binds every Variable to it. Gradients are allocated by allocate_gradients().
  void finalize();
  void initialize(uint64_t seed);

  /// A flat f32/f64 buffer in the layout of the values, zero-filled.
  Tensor make_flat_buffer(DType dtype) const;
  /// Points every parameter's gradient into `flat` (from make_flat_buffer). Marks all gradients absent.
  void bind_gradients(const Tensor& flat);
  /// Zeroes the gradient of parameters that received none since bind_gradients (unused ones), so the buffer is
  /// complete.
  void zero_absent_gradients();

  const std::vector<Parameter>& parameters() const { return parameters_; }  ///< in flat order after finalize()
  const std::vector<ParameterBlock>& blocks() const { return blocks_; }     ///< in flat order
  const Parameter& find(const std::string& name) const;                     ///< user_error naming the nearest name
  const Tensor& flat_values() const { return flat_values_; }
  int64_t flat_count() const { return flat_count_; }  ///< with alignment gaps
  int64_t parameter_count() const;                    ///< without
  DType dtype() const { return dtype_; }

 private:
  DType dtype_;
  std::vector<Parameter> parameters_;
  std::vector<ParameterBlock> blocks_;
  Tensor flat_values_;
  int64_t flat_count_ = 0;
  bool finalized_ = false;
};

}  // namespace longhaul
