// The tiled attention with the length-aware prior against whole T x T matrices in double.
#include <gtest/gtest.h>

#include "kernels/attention.h"
#include "kernels/error.h"
#include "tests/kernels/attention_prior_oracle.h"

namespace longhaul::kernels {
namespace {

constexpr int64_t kBatch = 2, kHeads = 4, kKeyHeads = 2, kSize = 5;

/// A training call on values that are the same in float and double, and what it returns.
template <typename T>
struct Call {
  AttentionShape shape;
  PriorInputs inputs;
  std::vector<int32_t> starts;  ///< [batch, length]; empty: null
  std::vector<T> q, k, v, dout;
  std::vector<T> out, lse, dq, dk, dv;
  std::vector<double> sums;

  explicit Call(int64_t length, PriorSettings settings = {}, int64_t regimes = 4) : inputs(length, regimes) {
    inputs.settings = settings;
    shape = {.batch = kBatch,
             .query_length = length,
             .key_length = length,
             .query_heads = kHeads,
             .key_heads = kKeyHeads,
             .head_size = kSize,
             .q_stride = kHeads * kSize,
             .kv_stride = kKeyHeads * kSize,
             .out_stride = kHeads * kSize,
             .scale = 0.7};
    const auto random = [&](int64_t columns, uint32_t stream) {
      const std::vector<float> values = random_values<float>(kBatch * length * columns, stream);
      return std::vector<T>(values.begin(), values.end());
    };
    q = random(shape.q_stride, 1);
    k = random(shape.kv_stride, 2);
    v = random(shape.kv_stride, 3);
    dout = random(shape.out_stride, 4);
  }
  /// The batch in documents of `document` tokens.
  Call& cut(int64_t document) {
    for (int64_t i = 0; i < kBatch * shape.key_length; ++i)
      starts.push_back(static_cast<int32_t>(i % shape.key_length / document * document));
    return *this;
  }
  Call& run(const AttentionPrior<T>& prior) {
    const int32_t* const start = starts.empty() ? nullptr : starts.data();
    out.assign(q.size(), T(NAN));
    lse.assign(static_cast<size_t>(kBatch * kHeads * shape.query_length), T(NAN));
    attention_forward<T>(Cpu{}, out.data(), lse.data(), q.data(), k.data(), v.data(), start, shape, prior);
    if (shape.query_length != shape.key_length) return *this;
    dq.assign(q.size(), T(NAN));
    dk.assign(k.size(), T(NAN));
    dv.assign(v.size(), T(NAN));
    std::vector<T> delta(lse.size(), T(NAN)), rows(lse.size() * static_cast<size_t>(prior.rank + 2), T(NAN));
    sums.assign(static_cast<size_t>(shape.query_length * (prior.rank + 2)), NAN);
    attention_backward<T>(Cpu{}, dq.data(), dk.data(), dv.data(), delta.data(), dout.data(), out.data(), lse.data(),
                          q.data(), k.data(), v.data(), start, shape, prior,
                          {.sums = sums.data(), .rows = rows.data()});
    return *this;
  }
  Call& run() {
    const PriorFactors<T> factors(inputs);
    return run(factors.view());
  }
};

/// Everything by whole rows of the matrix.
struct Plain {
  std::vector<double> out, dq, dk, dv, sums;
  double loss = 0;  ///< dot(out, dout)
  int64_t clipped = 0;
};

/// One query row: its output, and all gradients it gives.
void plain_row(Plain& plain, const Call<double>& c, const PlainPrior& prior, const PriorFactors<double>& factors,
               int64_t b, int64_t h, int64_t i) {
  const int64_t length = c.shape.key_length, rank = c.inputs.shape.functions, query = b * length + i;
  const auto q_at = [=](int64_t d) { return static_cast<size_t>((query * kHeads + h) * kSize + d); };
  const auto kv_at = [=](int64_t j, int64_t d) {
    return static_cast<size_t>(((b * length + j) * kKeyHeads + h * kKeyHeads / kHeads) * kSize + d);
  };
  const int64_t first = c.starts.empty() ? 0 : c.starts[static_cast<size_t>(query)];
  std::vector<double> p, dp;
  double sum = 0, delta = 0;
  for (int64_t j = first; j <= i; ++j) {
    double score = prior.bias[static_cast<size_t>(i * length + j)], gradient = 0;
    for (int64_t d = 0; d < kSize; ++d) {
      score += c.shape.scale * c.q[q_at(d)] * c.k[kv_at(j, d)];
      gradient += c.dout[q_at(d)] * c.v[kv_at(j, d)];
    }
    p.push_back(std::exp(score));
    dp.push_back(gradient);
    sum += p.back();
  }
  for (size_t n = 0; n < p.size(); ++n) delta += (p[n] /= sum) * dp[n];
  plain.loss += delta;
  for (int64_t j = first; j <= i; ++j) {
    const size_t n = static_cast<size_t>(j - first), at = static_cast<size_t>(i * length + j);
    const double ds = p[n] * (dp[n] - delta);
    for (int64_t d = 0; d < kSize; ++d) {
      plain.out[q_at(d)] += p[n] * c.v[kv_at(j, d)];
      plain.dq[q_at(d)] += c.shape.scale * ds * c.k[kv_at(j, d)];
      plain.dk[kv_at(j, d)] += c.shape.scale * ds * c.q[q_at(d)];
      plain.dv[kv_at(j, d)] += p[n] * c.dout[q_at(d)];
    }
    if (prior.bias[at] != prior.unclipped[at]) {
      ++plain.clipped;
      continue;
    }
    double* const row = plain.sums.data() + i * (rank + 2);
    for (int64_t r = 0; r < rank; ++r) row[r] += ds * factors.key[static_cast<size_t>(j * (rank + 1) + r)];
    row[rank] += ds;
    row[rank + 1] += ds * static_cast<double>(i - j);
  }
}

Plain plain_attention(const Call<double>& c) {
  Plain plain;
  plain.out = plain.dq = std::vector<double>(c.q.size(), 0.0);
  plain.dk = plain.dv = std::vector<double>(c.k.size(), 0.0);
  plain.sums.assign(static_cast<size_t>(c.shape.key_length * (c.inputs.shape.functions + 2)), 0.0);
  const PlainPrior prior = plain_prior(c.inputs);
  const PriorFactors<double> factors(c.inputs);
  for (int64_t b = 0; b < kBatch; ++b)
    for (int64_t h = 0; h < kHeads; ++h)
      for (int64_t i = 0; i < c.shape.key_length; ++i) plain_row(plain, c, prior, factors, b, h, i);
  return plain;
}

constexpr PriorSettings kSmooth{.mix = 0.1, .pos_beta = 0.2, .temperature = 0.8, .clip = 4, .warm = 1};
constexpr PriorSettings kClipped{.mix = 0.4, .pos_beta = 0.7, .temperature = 0.3, .clip = 1.1, .warm = 0.9};

void expect_the_matrix_form(int64_t length, const PriorSettings& settings, int64_t regimes, int64_t document = 0) {
  Call<double> exact(length, settings, regimes);
  Call<float> single(length, settings, regimes);
  if (document > 0) {
    exact.cut(document);
    single.cut(document);
  }
  const Plain plain = plain_attention(exact);
  exact.run();
  single.run();
  if (length > 60) {
    EXPECT_EQ(plain.clipped > 0, settings.clip < 4);
  }
  const auto expect_near = [&](auto member, const std::vector<double>& expected, const auto& of, double tolerance) {
    EXPECT_LT(relative_error(of.*member, expected), tolerance) << "T " << length << ", rank " << regimes;
  };
  if (length == 1) {  // one key: no gradient reaches the scores
    for (double value : exact.dq) EXPECT_NEAR(value, 0, 1e-15);
    return expect_near(&Call<double>::out, plain.out, exact, 1e-14);
  }
  for (const auto& [member, expected] :
       {std::pair{&Call<double>::out, &plain.out}, std::pair{&Call<double>::dq, &plain.dq},
        std::pair{&Call<double>::dk, &plain.dk}, std::pair{&Call<double>::dv, &plain.dv},
        std::pair{&Call<double>::sums, &plain.sums}})
    expect_near(member, *expected, exact, 1e-11);
  for (const auto& [member, expected] :
       {std::pair{&Call<float>::out, &plain.out}, std::pair{&Call<float>::dq, &plain.dq},
        std::pair{&Call<float>::dk, &plain.dk}, std::pair{&Call<float>::dv, &plain.dv}})
    expect_near(member, *expected, single, 1e-5);
  expect_near(&Call<float>::sums, plain.sums, single, 1e-5);
}

TEST(AttentionWithPriorTest, EqualsTheMatrixForm) {
  for (int64_t length : {1, 2, 63, 64, 65}) expect_the_matrix_form(length, kSmooth, 4);
  for (int64_t length : {2, 63, 64, 65, 300}) expect_the_matrix_form(length, kClipped, 4);
}

TEST(AttentionWithPriorTest, EqualsTheMatrixFormAtEveryRank) {
  for (int64_t regimes : {1, 2, 3, 5, 6, 7, 8}) expect_the_matrix_form(67, kClipped, regimes);
}

TEST(AttentionWithPriorTest, DocumentsKeepThePositionsOfTheirRow) {
  for (int64_t document : {2, 7, 66}) expect_the_matrix_form(130, kClipped, 4, document);
}

TEST(AttentionWithPriorTest, GradientsOfTheWholeChainMatchFiniteDifferences) {
  for (const PriorSettings& settings : {kSmooth, kClipped}) {
    Call<double> call(7, settings, 3);
    call.run();
    const PriorGradients prior(call.inputs, call.sums);
    const auto loss = [&](auto member) {
      return [&call, member](const std::vector<double>& x) {
        Call<double> moved = call;
        moved.*member = x;
        return plain_attention(moved).loss;
      };
    };
    EXPECT_LT(relative_error(call.dq, numeric_gradient(call.q, loss(&Call<double>::q))), 1e-8);
    EXPECT_LT(relative_error(call.dk, numeric_gradient(call.k, loss(&Call<double>::k))), 1e-8);
    EXPECT_LT(relative_error(call.dv, numeric_gradient(call.v, loss(&Call<double>::v))), 1e-8);
    const auto prior_loss = [&](auto member) {
      return [&call, member](const std::vector<double>& x) {
        Call<double> moved = call;
        moved.inputs.*member = x;
        return plain_attention(moved).loss;
      };
    };
    EXPECT_LT(relative_error(prior.memberships,
                             numeric_gradient(call.inputs.memberships, prior_loss(&PriorInputs::memberships))),
              1e-7);
    EXPECT_LT(relative_error(prior.projection,
                             numeric_gradient(call.inputs.projection, prior_loss(&PriorInputs::projection))),
              1e-7);
    const double numeric = numeric_gradient({settings.pos_beta}, [&](const std::vector<double>& x) {
      Call<double> moved = call;
      moved.inputs.settings.pos_beta = x[0];
      return plain_attention(moved).loss;
    })[0];
    EXPECT_NEAR(prior.pos_beta / numeric, 1, 1e-7);
  }
}

template <typename T>
std::vector<T> everything(const Call<T>& call) {
  std::vector<T> all = call.out;
  for (const auto* part : {&call.lse, &call.dq, &call.dk, &call.dv}) all.insert(all.end(), part->begin(), part->end());
  for (double value : call.sums) all.push_back(static_cast<T>(value));
  return all;
}

TEST(AttentionWithPriorTest, SameBitsOnAnyNumberOfThreads) {
  expect_same_on_any_threads([] { return everything(Call<float>(140, kClipped).run()); });
}

TEST(AttentionWithPriorTest, PriorOfZerosChangesNoBits) {
  Call<float> with(130);
  Call<float> without = with;
  without.run(AttentionPrior<float>{});
  with.inputs.settings.warm = 0;
  with.run();
  EXPECT_TRUE(same_bits(with.out, without.out));
  EXPECT_TRUE(same_bits(with.dq, without.dq));
  EXPECT_TRUE(same_bits(with.dk, without.dk));
  EXPECT_TRUE(same_bits(with.dv, without.dv));
}

TEST(AttentionWithPriorTest, NoGradientWantedGivesTheSameOthers) {
  Call<float> call(70, kClipped);
  call.run();
  const PriorFactors<float> factors(call.inputs);
  std::vector<float> dq(call.q.size()), dk(call.k.size()), dv(call.v.size()), delta(call.lse.size());
  attention_backward<float>(Cpu{}, dq.data(), dk.data(), dv.data(), delta.data(), call.dout.data(), call.out.data(),
                            call.lse.data(), call.q.data(), call.k.data(), call.v.data(), nullptr, call.shape,
                            factors.view());
  EXPECT_TRUE(same_bits(dq, call.dq));
  EXPECT_TRUE(same_bits(dk, call.dk));
  EXPECT_TRUE(same_bits(dv, call.dv));
}

TEST(AttentionWithPriorTest, DecodingGivesTheBitsOfTheWholeRow) {
  Call<float> whole(150, kClipped);
  whole.run();
  const PriorFactors<float> factors(whole.inputs);
  const auto last = [&](const std::vector<float>& rows, int64_t queries) {  // of each sequence
    std::vector<float> result;
    for (int64_t b = 1; b <= kBatch; ++b) {
      const auto end = rows.begin() + b * 150 * kHeads * kSize;
      result.insert(result.end(), end - queries * kHeads * kSize, end);
    }
    return result;
  };
  for (int64_t queries : {1, 3, 70}) {
    Call<float> decode = whole;
    decode.shape.query_length = queries;
    decode.q = last(whole.q, queries);
    decode.run(factors.view());
    EXPECT_TRUE(same_bits(decode.out, last(whole.out, queries))) << queries << " queries";
  }
}

TEST(AttentionWithPriorTest, PriorsThatDoNotFitAreRefused) {
  const PriorFactors<float> factors(PriorInputs(6, 4));
  EXPECT_THROW(Call<float>(7).run(factors.view()), Error);
  AttentionPrior<float> wide = factors.view();
  wide.rank = 9;
  EXPECT_THROW(Call<float>(6).run(wide), Error);
}

}  // namespace
}  // namespace longhaul::kernels
