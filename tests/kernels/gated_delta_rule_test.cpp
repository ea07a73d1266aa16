#include "kernels/gated_delta_rule.h"

#include <omp.h>

#include "kernels/error.h"
#include "tests/kernels/recurrence_fixture.h"

namespace longhaul::kernels {
namespace {

template <typename T>
struct Values {
  std::vector<T> q, k, v, log_alpha, beta, d_o;
  DeltaRuleInputs<T> inputs() const { return {q.data(), k.data(), v.data(), log_alpha.data(), beta.data()}; }
  template <typename U>
  Values<U> to() const {
    const auto cast = [](const std::vector<T>& x) { return std::vector<U>(x.begin(), x.end()); };
    return {cast(q), cast(k), cast(v), cast(log_alpha), cast(beta), cast(d_o)};
  }
};

template <typename T>
struct Results {
  std::vector<T> o, q, k, v, log_alpha, beta;
};

void normalise(std::vector<float>& rows, int64_t size) {
  for (size_t begin = 0; begin < rows.size(); begin += size) {
    double sum = 0;
    for (int64_t i = 0; i < size; ++i) sum += rows[begin + i] * rows[begin + i];
    for (int64_t i = 0; i < size; ++i) rows[begin + i] = static_cast<float>(rows[begin + i] / std::sqrt(sum));
  }
}

Values<float> make_values(const DeltaRuleShape& s, uint32_t seed) {
  Values<float> values{uniform_values<float>(s.tokens * s.heads * s.key_size, -1, 1, seed),
                       uniform_values<float>(s.tokens * s.heads * s.key_size, -1, 1, seed + 1),
                       uniform_values<float>(s.tokens * s.heads * s.value_size, -1, 1, seed + 2),
                       uniform_values<float>(s.tokens * s.heads, -0.7, 0, seed + 3),
                       uniform_values<float>(s.tokens * s.heads, 0, 1, seed + 4),
                       uniform_values<float>(s.tokens * s.heads * s.value_size, -1, 1, seed + 5)};
  normalise(values.q, s.key_size);
  normalise(values.k, s.key_size);
  return values;
}

template <typename T>
Results<T> run_chunked(const Values<T>& values, const DeltaRuleShape& shape, const std::vector<int32_t>& starts,
                       int64_t chunk) {
  const auto chunks = document_chunks(starts.data(), 1, shape.tokens, chunk);
  const int64_t count = static_cast<int64_t>(chunks.size());
  std::vector<char> workspace(gated_delta_rule_workspace<T>(shape, count, chunk, true, omp_get_max_threads()) + 64,
                              '\xff');
  void* memory = reinterpret_cast<void*>((reinterpret_cast<uintptr_t>(workspace.data()) + 63) / 64 * 64);
  Results<T> out{std::vector<T>(values.v.size()),    std::vector<T>(values.q.size()),
                 std::vector<T>(values.k.size()),    std::vector<T>(values.v.size()),
                 std::vector<T>(values.beta.size()), std::vector<T>(values.beta.size())};
  gated_delta_rule_forward<T>(Cpu{}, out.o.data(), memory, values.inputs(), shape, chunks.data(), count, chunk);
  gated_delta_rule_backward<T>(Cpu{}, {out.q.data(), out.k.data(), out.v.data(), out.log_alpha.data(), out.beta.data()},
                               memory, values.d_o.data(), values.inputs(), shape, chunks.data(), count, chunk);
  return out;
}

/// Token-by-token recurrence and its reverse, in double: the oracle of outputs and gradients.
Results<double> run_sequential(const Values<double>& in, const DeltaRuleShape& s, const std::vector<int32_t>& starts) {
  Results<double> out{std::vector<double>(in.v.size()),    std::vector<double>(in.q.size()),
                      std::vector<double>(in.k.size()),    std::vector<double>(in.v.size()),
                      std::vector<double>(in.beta.size()), std::vector<double>(in.beta.size())};
  const auto chunks = document_chunks(starts.data(), 1, s.tokens, s.tokens);
  const int64_t K = s.key_size, V = s.value_size;
  std::vector<double> scratch(K * V);
  gated_delta_rule_sequential<double>(Cpu{}, out.o.data(), scratch.data(), in.inputs(), s, chunks.data(),
                                      chunks.size());
  for (int64_t h = 0; h < s.heads; ++h) {
    std::vector<std::vector<double>> states(s.tokens + 1, std::vector<double>(K * V, 0.0));
    std::vector<std::vector<double>> updates(s.tokens, std::vector<double>(V));
    const auto before = [&](int64_t t, int64_t e) { return starts[t] == t ? 0.0 : states[t][e]; };
    for (int64_t t = 0; t < s.tokens; ++t) {
      const int64_t at = t * s.heads + h;
      const double alpha = std::exp(in.log_alpha[at]);
      for (int64_t c = 0; c < V; ++c) {
        double predicted = 0;
        for (int64_t d = 0; d < K; ++d) predicted += alpha * before(t, c * K + d) * in.k[at * K + d];
        updates[t][c] = in.beta[at] * (in.v[at * V + c] - predicted);
        for (int64_t d = 0; d < K; ++d) {
          states[t + 1][c * K + d] = alpha * before(t, c * K + d) + updates[t][c] * in.k[at * K + d];
        }
      }
    }
    std::vector<double> dS(K * V, 0.0);
    for (int64_t t = s.tokens - 1; t >= 0; --t) {
      const int64_t at = t * s.heads + h;
      const double alpha = std::exp(in.log_alpha[at]), beta = in.beta[at];
      const double *q = &in.q[at * K], *k = &in.k[at * K];
      double dalpha = 0;
      for (int64_t c = 0; c < V; ++c) {
        const double d_o = in.d_o[at * V + c];
        double du = 0, predicted = 0;
        for (int64_t d = 0; d < K; ++d) {
          dS[c * K + d] += d_o * q[d];
          out.q[at * K + d] += d_o * states[t + 1][c * K + d];
          du += dS[c * K + d] * k[d];
          predicted += alpha * before(t, c * K + d) * k[d];
        }
        out.v[at * V + c] = beta * du;
        out.beta[at] += du * (in.v[at * V + c] - predicted);
        for (int64_t d = 0; d < K; ++d) {
          const double held = before(t, c * K + d);
          out.k[at * K + d] += dS[c * K + d] * updates[t][c] - beta * du * alpha * held;
          const double dR = dS[c * K + d] - beta * du * k[d];
          dalpha += dR * held;
          dS[c * K + d] = starts[t] == t ? 0.0 : alpha * dR;
        }
      }
      out.log_alpha[at] = alpha * dalpha;
    }
  }
  return out;
}

template <typename T>
void expect_close(const Results<T>& actual, const Results<double>& expected, double tolerance,
                  const std::string& what) {
  EXPECT_LT(scaled_error(actual.o, expected.o), tolerance) << what << " o";
  EXPECT_LT(scaled_error(actual.q, expected.q), tolerance) << what << " gradient of q";
  EXPECT_LT(scaled_error(actual.k, expected.k), tolerance) << what << " gradient of k";
  EXPECT_LT(scaled_error(actual.v, expected.v), tolerance) << what << " gradient of v";
  EXPECT_LT(scaled_error(actual.beta, expected.beta), tolerance) << what << " gradient of beta";
  EXPECT_LT(scaled_error(actual.log_alpha, expected.log_alpha), tolerance) << what << " gradient of log alpha";
}

TEST(GatedDeltaRule, ChunkedEqualsSequentialAtEveryLength) {
  for (const auto& lengths : document_cases(16)) {
    const auto starts = document_starts(lengths);
    const DeltaRuleShape shape{static_cast<int64_t>(starts.size()), 3, 5, 7};
    const auto values = make_values(shape, 21);
    const auto expected = run_sequential(values.to<double>(), shape, starts);
    const std::string what = "tokens " + std::to_string(starts.size());
    expect_close(run_chunked(values.to<double>(), shape, starts, 16), expected, 1e-9, what);
    expect_close(run_chunked(values, shape, starts, 16), expected, 1e-5, what);
  }
}

TEST(GatedDeltaRule, ExtremeDecaysIdenticalKeysAndBetaZeroAndOne) {
  const auto starts = document_starts({37, 9});
  const DeltaRuleShape shape{46, 2, 6, 5};
  for (const float log_alpha : {0.0f, -1e-6f, -20.0f, -200.0f, -1e4f}) {
    for (const bool identical_keys : {false, true}) {
      for (const float beta : {0.0f, 0.5f, 1.0f}) {
        auto values = make_values(shape, 9);
        for (size_t i = 0; i < values.log_alpha.size(); ++i) values.log_alpha[i] = i % 5 == 2 ? -0.1f : log_alpha;
        if (beta != 0.5f) std::fill(values.beta.begin(), values.beta.end(), beta);
        for (size_t i = 0; identical_keys && i < values.k.size(); ++i) values.k[i] = values.k[i % shape.key_size];
        const auto expected = run_sequential(values.to<double>(), shape, starts);
        const std::string what = "log alpha " + std::to_string(log_alpha) + " beta " + std::to_string(beta) +
                                 (identical_keys ? " identical keys" : "");
        expect_close(run_chunked(values.to<double>(), shape, starts, 16), expected, 1e-9, what);
        expect_close(run_chunked(values, shape, starts, 16), expected, 1e-5, what);
      }
    }
  }
}

TEST(GatedDeltaRule, IdenticalKeysInChunksOfAnySize) {
  const auto starts = document_starts({150});
  const DeltaRuleShape shape{150, 1, 8, 5};
  for (const float log_alpha : {0.0f, -1e-6f, -20.0f, -200.0f, -1e4f}) {
    auto values = make_values(shape, 13);
    std::fill(values.log_alpha.begin(), values.log_alpha.end(), log_alpha);
    std::fill(values.beta.begin(), values.beta.end(), 1.0f);
    for (size_t i = 0; i < values.k.size(); ++i) values.k[i] = values.k[i % 8];
    const auto expected = run_sequential(values.to<double>(), shape, starts);
    for (const int64_t chunk : {16, 64, 128}) {
      const std::string what = "log alpha " + std::to_string(log_alpha) + " chunk " + std::to_string(chunk);
      expect_close(run_chunked(values.to<double>(), shape, starts, chunk), expected, 1e-9, what);
      expect_close(run_chunked(values, shape, starts, chunk), expected, 1e-5, what);
    }
  }
}

TEST(GatedDeltaRule, KeysThatWereNotNormalisedAreNamed) {
  const DeltaRuleShape shape{20, 2, 8, 5};
  auto values = make_values(shape, 13);
  std::fill(values.beta.begin(), values.beta.end(), 1.0f);
  for (size_t i = 0; i < values.k.size(); ++i) values.k[i] = 30 * values.k[i % 8];
  try {
    run_chunked(values, shape, document_starts({20}), 16);
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("gated_delta_rule: key of token 0 head 0 has norm 30"), std::string::npos)
        << error.what();
  }
}

TEST(GatedDeltaRule, PackedDocumentHasTheBitsOfOneAlone) {
  const std::vector<int64_t> lengths = {19, 40, 5};
  const DeltaRuleShape packed{64, 2, 16, 24};
  const auto values = make_values(packed, 3);
  const auto together = run_chunked(values, packed, document_starts(lengths), 16);
  int64_t begin = 0;
  for (const int64_t length : lengths) {
    DeltaRuleShape alone = packed;
    alone.tokens = length;
    const auto part = [&](const std::vector<float>& all, int64_t columns) {
      return std::vector<float>(all.begin() + begin * columns, all.begin() + (begin + length) * columns);
    };
    const Values<float> own{part(values.q, 32),        part(values.k, 32),   part(values.v, 48),
                            part(values.log_alpha, 2), part(values.beta, 2), part(values.d_o, 48)};
    const auto single = run_chunked(own, alone, document_starts({length}), 16);
    EXPECT_EQ(single.o, part(together.o, 48));
    EXPECT_EQ(single.q, part(together.q, 32));
    EXPECT_EQ(single.k, part(together.k, 32));
    EXPECT_EQ(single.v, part(together.v, 48));
    EXPECT_EQ(single.log_alpha, part(together.log_alpha, 2));
    EXPECT_EQ(single.beta, part(together.beta, 2));
    begin += length;
  }
}

TEST(GatedDeltaRule, InputsInRowsOfAWiderMatrixGiveTheSameBits) {
  const DeltaRuleShape dense{37, 2, 16, 24};
  DeltaRuleShape wide = dense;
  wide.stride = 2 * 32 + 48 + 3;
  const auto values = make_values(dense, 5);
  const auto starts = document_starts({30, 7});
  const auto expected = run_chunked(values, dense, starts, 16);
  // q | k | v | three columns of others, as a projection writes them.
  std::vector<float> in(wide.tokens * wide.stride, NAN), out(in.size(), 0.0f);
  const auto place = [&](const std::vector<float>& from, int64_t columns, int64_t offset) {
    for (size_t i = 0; i < from.size(); ++i) {
      in[static_cast<int64_t>(i) / columns * wide.stride + offset + static_cast<int64_t>(i) % columns] = from[i];
    }
  };
  place(values.q, 32, 0), place(values.k, 32, 32), place(values.v, 48, 64);
  const auto chunks = document_chunks(starts.data(), 1, wide.tokens, 16);
  const int64_t count = static_cast<int64_t>(chunks.size());
  std::vector<char> workspace(gated_delta_rule_workspace<float>(wide, count, 16, true, omp_get_max_threads()));
  const DeltaRuleInputs<float> inputs{in.data(), in.data() + 32, in.data() + 64, values.log_alpha.data(),
                                      values.beta.data()};
  Results<float> found = expected;
  gated_delta_rule_forward<float>(Cpu{}, found.o.data(), workspace.data(), inputs, wide, chunks.data(), count, 16);
  gated_delta_rule_backward<float>(
      Cpu{}, {out.data(), out.data() + 32, out.data() + 64, found.log_alpha.data(), found.beta.data()},
      workspace.data(), values.d_o.data(), inputs, wide, chunks.data(), count, 16);
  const auto taken = [&](int64_t columns, int64_t offset) {
    std::vector<float> part;
    for (int64_t t = 0; t < wide.tokens; ++t) {
      const auto row = out.begin() + t * wide.stride + offset;
      part.insert(part.end(), row, row + columns);
    }
    return part;
  };
  EXPECT_EQ(found.o, expected.o);
  EXPECT_EQ(taken(32, 0), expected.q);
  EXPECT_EQ(taken(32, 32), expected.k);
  EXPECT_EQ(taken(48, 64), expected.v);
  EXPECT_EQ(taken(3, 112), std::vector<float>(3 * wide.tokens, 0.0f));
}

TEST(GatedDeltaRule, StepsEqualTheFullForm) {
  const DeltaRuleShape shape{21, 2, 8, 12};
  const auto values = make_values(shape, 8).to<double>();
  const auto full = run_chunked(values, shape, document_starts({21}), 16);
  std::vector<double> state(2 * 8 * 12, 0.0), o(24);
  DeltaRuleShape one = shape;
  one.tokens = 1;
  for (int64_t t = 0; t < shape.tokens; ++t) {
    const DeltaRuleInputs<double> in{values.q.data() + t * 16, values.k.data() + t * 16, values.v.data() + t * 24,
                                     values.log_alpha.data() + t * 2, values.beta.data() + t * 2};
    gated_delta_rule_step<double>(Cpu{}, o.data(), state.data(), in, one);
    EXPECT_LT(scaled_error(o, std::vector<double>(full.o.begin() + t * 24, full.o.begin() + (t + 1) * 24)), 1e-12) << t;
  }
}

}  // namespace
}  // namespace longhaul::kernels
