// A decoder block stack that uses every op, small enough for tests of properties that need them all together.
#pragma once

#include <string>
#include <vector>

#include "core/nn/parameter_store.h"
#include "core/ops/activation.h"
#include "core/ops/add.h"
#include "core/ops/attention.h"
#include "core/ops/dropout.h"
#include "core/ops/embedding.h"
#include "core/ops/layer_norm.h"
#include "core/ops/linear.h"
#include "core/ops/linear_cross_entropy.h"
#include "core/ops/rms_norm.h"
#include "kernels/rope.h"

namespace longhaul::testing {

class SmallDecoder {
 public:
  static constexpr int64_t kWidth = 64, kVocabulary = 67, kContext = 32, kHeads = 4, kKeyHeads = 2, kHeadSize = 16;
  static constexpr int kLayers = 2;

  explicit SmallDecoder(double dropout = 0.0, bool recompute = false, DType storage = DType::f32)
      : store_(storage), dropout_(dropout), recompute_(recompute) {
    tokens_ = add("tokens", {kVocabulary, kWidth});
    positions_ = add("positions", {kContext, kWidth});
    for (int layer = 0; layer < kLayers; ++layer) blocks_.push_back(make_block("block." + std::to_string(layer) + "."));
    store_.finalize();
    store_.initialize(1234);
    attention_ = {kHeads, kKeyHeads, kHeadSize, Tensor::empty({kContext, kHeadSize}, DType::f32)};
    kernels::rope_table(kernels::Cpu{}, attention_.rope_table.data<float>(), kContext, kHeadSize, 10000.0);
  }

  ParameterStore& store() { return store_; }

  Variable embed(Tape& tape, const Batch& batch) const { return ops::embedding(tape, batch, tokens_, positions_); }

  Variable blocks(Tape& tape, Variable h, const Batch& batch) const {
    for (size_t layer = 0; layer < blocks_.size(); ++layer) {
      const auto body = [this, &batch, layer](Tape& inner, const Variable& input) {
        return block(inner, input, batch, layer);
      };
      h = recompute_ ? longhaul::recompute(tape, h, parameters_of(blocks_[layer]), body) : body(tape, h);
    }
    return h;
  }

  /// The tied head; about four chunks.
  ops::LinearCrossEntropyResult head(Tape& tape, const Variable& h, const Batch& batch) const {
    const int64_t chunk_bytes = (batch.tokens() + 3) / 4 * kVocabulary * 4;
    return ops::linear_cross_entropy(tape, h, tokens_, batch.targets, {0.01, 1e-4}, chunk_bytes);
  }

  ops::LinearCrossEntropyResult loss(Tape& tape, const Batch& batch) const {
    return head(tape, blocks(tape, embed(tape, batch), batch), batch);
  }

 private:
  struct Block {
    Variable norm, qkv, out, out_bias, gain, shift, up, up_bias, down, gate_up, gated_down;
  };

  Variable add(const std::string& name, Shape shape) {
    return store_.add(name, shape, WeightDecay::no, Initialization::normal(0.2));
  }

  Block make_block(const std::string& prefix) {
    return {add(prefix + "norm", {kWidth}),
            add(prefix + "qkv", {(kHeads + 2 * kKeyHeads) * kHeadSize, kWidth}),
            add(prefix + "out", {kWidth, kHeads * kHeadSize}),
            add(prefix + "out_bias", {kWidth}),
            add(prefix + "gain", {kWidth}),
            add(prefix + "shift", {kWidth}),
            add(prefix + "up", {3 * kWidth, kWidth}),
            add(prefix + "up_bias", {3 * kWidth}),
            add(prefix + "down", {kWidth, 3 * kWidth}),
            add(prefix + "gate_up", {4 * kWidth, kWidth}),
            add(prefix + "gated_down", {kWidth, 2 * kWidth})};
  }

  static std::vector<Variable> parameters_of(const Block& b) {
    return {b.norm, b.qkv, b.out, b.out_bias, b.gain, b.shift, b.up, b.up_bias, b.down, b.gate_up, b.gated_down};
  }

  Variable block(Tape& tape, Variable h, const Batch& batch, size_t layer) const {
    const Block& b = blocks_[layer];
    const auto drop = [&](const Variable& x, uint32_t place) {
      return ops::dropout(tape, x, dropout_, {5, 17, static_cast<uint32_t>(3 * layer) + place}, batch);
    };
    Variable x = ops::linear(tape, ops::rms_norm(tape, h, b.norm, 1e-6), b.qkv);
    x = ops::linear(tape, ops::attention(tape, x, batch, attention_), b.out, b.out_bias);
    h = ops::add(tape, h, drop(x, 0));
    x = ops::linear(tape, ops::layer_norm(tape, h, b.gain, b.shift, 1e-5), b.up);
    x = ops::linear(tape, ops::bias_gelu(tape, x, b.up_bias), b.down);
    h = ops::add(tape, h, drop(x, 1));
    x = ops::linear(tape, ops::rms_norm(tape, h, b.norm, 1e-6), b.gate_up);
    return ops::add(tape, h, drop(ops::linear(tape, ops::swiglu(tape, x), b.gated_down), 2));
  }

  ParameterStore store_;
  Variable tokens_, positions_;
  std::vector<Block> blocks_;
  ops::AttentionOptions attention_;
  double dropout_;
  bool recompute_;
};

/// Rows of random ids; the target of a position is the next id, none at the end of a document.
inline Batch small_batch(int64_t rows, int64_t length, std::vector<int32_t> document_start = {}) {
  std::vector<int32_t> ids, targets;
  for (int64_t i = 0; i < rows * length; ++i)
    ids.push_back(static_cast<int32_t>((i * i * 31 + 7 * i) % SmallDecoder::kVocabulary));
  if (document_start.empty()) document_start.assign(ids.size(), 0);
  for (size_t i = 0; i < ids.size(); ++i) {
    const bool last = static_cast<int64_t>(i) % length == length - 1 || document_start[i + 1] != document_start[i];
    targets.push_back(last ? -1 : ids[i + 1]);
  }
  std::vector<int64_t> samples;
  for (int64_t row = 0; row < rows; ++row) samples.push_back(1000 + row);
  return make_batch(rows, length, std::move(ids), std::move(targets), std::move(document_start), std::move(samples));
}

}  // namespace longhaul::testing
