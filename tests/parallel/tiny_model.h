// A parameter store with a backward pass whose gradients are a known function of slot and element, for tests of the
// engine.
#pragma once

#include <chrono>
#include <cmath>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "core/autograd/tape.h"
#include "core/nn/parameter_store.h"
#include "parallel/tree_reduction.h"

namespace longhaul::testing {

/// Parameters of odd sizes, one above a block; "unused" receives no gradient.
struct TinyModel {
  explicit TinyModel(DType dtype = DType::f32) : store(dtype) {
    const auto normal = Initialization::normal(0.5);
    used.push_back(store.add("embedding", {300, 257}, WeightDecay::yes, normal));
    used.push_back(store.add("weight", {33, 65}, WeightDecay::yes, normal));
    used.push_back(store.add("gain", {65}, WeightDecay::no, Initialization::constant(1.0)));
    store.add("unused", {7}, WeightDecay::no, normal);
    used.push_back(store.add("head", {129, 3}, WeightDecay::yes, normal));
    store.finalize();
    store.initialize(7);
  }

  /// Differentiates slot `slot`: every used parameter receives slot_gradient(), the last registered first. Each takes
  /// `pause` at least.
  void backward(int64_t slot, std::chrono::milliseconds pause = {}) {
    Tape tape;
    Variable value(Tensor::zeros({1}, DType::f32), true);
    for (const Variable& parameter : used) {
      const GradientTarget target = parameter.target();
      const GradientTarget before = value.target();
      const std::string name = name_of_parameter(parameter);
      value = tape.record("use", Tensor::zeros({1}, DType::f32), {value, parameter}, [=](const Tensor& gradient) {
        before.give(gradient);
        std::this_thread::sleep_for(pause);
        const GradientSink sink = target.sink();
        for (int64_t i = 0; i < sink.tensor.count(); ++i) {
          float& element = sink.tensor.data<float>()[i];
          element = (sink.accumulate ? element : 0) + slot_gradient(name, slot, i);
        }
      });
    }
    tape.backward(value);
  }

  std::string name_of_parameter(const Variable& variable) const {
    for (const Parameter& parameter : store.parameters()) {
      if (parameter.variable.value().raw() == variable.value().raw()) return parameter.name;
    }
    return "";
  }

  /// A number whose magnitude varies by 2^12, so that the order of additions shows in the bits.
  static float slot_gradient(const std::string& name, int64_t slot, int64_t index) {
    if (name == "unused") return 0;
    uint64_t word = static_cast<uint64_t>(slot + 1) * 0x9e3779b97f4a7c15ull ^
                    static_cast<uint64_t>(index + 1) * 0xc2b2ae3d27d4eb4full ^
                    static_cast<uint64_t>(name.size()) * 0x165667b19e3779f9ull;
    word = (word ^ (word >> 29)) * 0xbf58476d1ce4e5b9ull;
    word ^= word >> 32;
    const float fraction = static_cast<float>(word & 0xffffff) / 16777216.0f - 0.5f;
    return std::ldexp(fraction, static_cast<int>((word >> 40) % 12) - 6);
  }

  /// The sum over slots [begin, end) of one element along the tree, written out by its definition.
  static float tree_sum(const std::string& name, int64_t begin, int64_t end, int64_t index) {
    if (end - begin == 1) return slot_gradient(name, begin, index);
    int64_t left = 1;
    while (2 * left < end - begin) left *= 2;
    return tree_sum(name, begin, begin + left, index) + tree_sum(name, begin + left, end, index);
  }

  ParameterStore store;
  std::vector<Variable> used;
};

}  // namespace longhaul::testing
