// What every mixer must show, whatever it computes: right gradients of all its parameters, documents that do not know
// of each other, decoding that equals the forward pass.
#pragma once

#include <functional>

#include "core/models/mixers/mixer.h"
#include "core/models/rope_table.h"
#include "tests/core/gradient_check.h"
#include "tests/core/models/model_testing.h"

namespace longhaul::testing {

/// Registers a mixer's parameters under "m".
using MakeMixer =
    std::function<std::unique_ptr<Mixer>(ParameterStore&, const std::string& prefix, const ModelConfig&, DType)>;

class MixerUnderTest {
 public:
  MixerUnderTest(const MakeMixer& make, const ModelConfig& config, DType dtype)
      : store(dtype), width(config.d_model), mixer(make(store, "m", config, dtype)) {
    store.finalize();
    store.initialize(3);
  }

  Tensor forward(const Tensor& x, const Batch& batch) const {
    Tape tape(Tape::Mode::off);
    return mixer->forward(tape, Variable(x), batch, nullptr).value();
  }

  ParameterStore store;
  int64_t width;
  std::unique_ptr<Mixer> mixer;
};

inline Batch batch_of_documents(const std::vector<int64_t>& lengths) {
  std::vector<std::vector<int32_t>> documents;
  for (const int64_t length : lengths) documents.push_back(some_ids(length, 19));
  return packed_row(documents);
}

struct MixerRun {
  Tensor out, x_gradient;
};

inline MixerRun run_mixer(const MixerUnderTest& m, const Tensor& x, const Tensor& covector, const Batch& batch) {
  Tape tape;
  const Variable input(x, true);
  const Variable out = m.mixer->forward(tape, input, batch, nullptr);
  tape.backward_from(out, covector);
  return {out.value(), input.grad()};
}

/// Gradients of x and of every parameter against fourth-order differences, every `stride`-th element.
inline void check_mixer_gradients(const MixerUnderTest& m, const Batch& batch, int64_t stride) {
  const Tensor x = random_tensor({batch.tokens(), m.width}, 1), covector = random_tensor(x.shape(), 2);
  const MixerRun run = run_mixer(m, x, covector, batch);
  const auto scalar = [&] {
    const Tensor out = m.forward(x, batch);
    double sum = 0;
    for (int64_t i = 0; i < out.count(); ++i) sum += out.data<double>()[i] * covector.data<double>()[i];
    return sum;
  };
  const auto check = [&](const std::string& name, const Tensor& values, const Tensor& gradient) {
    double largest = 1e-3, worst = 0;
    for (int64_t i = 0; i < values.count(); i += stride) {
      double& value = values.data<double>()[i];
      const double centre = value;
      const auto at = [&](double offset) {
        value = centre + offset * 2e-4;
        return scalar();
      };
      const double numeric = (8 * (at(1) - at(-1)) - (at(2) - at(-2))) / 2.4e-3;
      value = centre;
      largest = std::max(largest, std::abs(numeric));
      worst = std::max(worst, std::abs(numeric - gradient.data<double>()[i]));
    }
    EXPECT_LT(worst / largest, 1e-6) << name;
  };
  check("x", x, run.x_gradient);
  EXPECT_EQ(m.mixer->parameters().size(), m.store.parameters().size());
  for (const Parameter& parameter : m.store.parameters()) {
    check(parameter.name, parameter.variable.value(), parameter.variable.grad());
    parameter.variable.clear_gradient();
  }
}

/// Outputs and gradients of packed documents have the bits of the documents alone (f32).
inline void check_packed_equals_separate(const MixerUnderTest& m, const std::vector<int64_t>& lengths) {
  const Batch batch = batch_of_documents(lengths);
  const Tensor x = random_tensor<float>({batch.tokens(), m.width}, 1), seed = random_tensor<float>(x.shape(), 2);
  const MixerRun packed = run_mixer(m, x, seed, batch);
  int64_t begin = 0;
  for (const int64_t length : lengths) {
    const int64_t end = begin + length;
    const MixerRun alone =
        run_mixer(m, x.rows(begin, end).clone(), seed.rows(begin, end).clone(), batch_of_documents({length}));
    EXPECT_EQ(alone.out.to_vector<float>(), packed.out.rows(begin, end).to_vector<float>()) << "document at " << begin;
    EXPECT_EQ(alone.x_gradient.to_vector<float>(), packed.x_gradient.rows(begin, end).to_vector<float>())
        << "document at " << begin;
    begin = end;
  }
}

/// Three sequences of a, b and 0 tokens at first, then of mixed further ones; then the first starts anew.
inline void check_decoding(const MixerUnderTest& m) {
  const int64_t length = 9;
  std::vector<Tensor> inputs, expected;
  for (uint64_t s = 0; s < 3; ++s) {
    inputs.push_back(random_tensor({length, m.width}, 10 + s));
    expected.push_back(m.forward(inputs[s], batch_of_documents({length})));
  }
  const auto state = m.mixer->make_state(3, 16, {});
  std::vector<int64_t> seen(3, 0);
  const auto decode = [&](const std::vector<int64_t>& counts) {
    DecodeRows rows;
    std::vector<int32_t> positions;
    for (int64_t s = 0; s < 3; ++s) {
      if (counts[s] == 0) continue;
      rows.runs.push_back({s, static_cast<int64_t>(positions.size()), counts[s]});
      for (int64_t i = 0; i < counts[s]; ++i) positions.push_back(static_cast<int32_t>(seen[s] + i));
    }
    const int64_t total = static_cast<int64_t>(positions.size());
    rows.positions = Tensor::from<int32_t>({total}, positions);
    const Tensor x = Tensor::empty({total, m.width}, DType::f64);
    for (const SequenceRows& run : rows.runs) {
      const int64_t from = seen[run.sequence];
      x.rows(run.begin, run.begin + run.count).copy_from(inputs[run.sequence].rows(from, from + run.count));
    }
    const Tensor out = m.mixer->decode(*state, x, rows);
    for (const SequenceRows& run : rows.runs) {
      const int64_t from = seen[run.sequence];
      const auto found = out.rows(run.begin, run.begin + run.count).to_vector<double>();
      const auto wanted = expected[run.sequence].rows(from, from + run.count).to_vector<double>();
      for (size_t i = 0; i < found.size(); ++i) {
        EXPECT_NEAR(found[i], wanted[i], 1e-11) << "sequence " << run.sequence << " from token " << from;
      }
      seen[run.sequence] += run.count;
    }
  };
  decode({4, 1, 0});
  decode({1, 1, 1});
  decode({0, 3, 7});
  decode({2, 1, 1});
  state->clear(0);
  seen[0] = 0;
  decode({5, 1, 0});
}

}  // namespace longhaul::testing
