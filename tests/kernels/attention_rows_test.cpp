#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "kernels/attention.h"
#include "kernels/error.h"
#include "tests/kernels/attention_prior_oracle.h"

namespace longhaul::kernels {
namespace {

/// All queries of a batch, of which some are chosen: contiguous q, k, v of every token and dout of every query.
template <typename T>
struct Problem {
  AttentionShape shape;
  std::vector<int32_t> starts, rows;
  std::vector<T> q, k, v, dout;
  std::shared_ptr<const PriorFactors<T>> factors;

  Problem(int64_t batch, int64_t length, int64_t heads, int64_t key_heads, int64_t head_size) {
    shape = {.batch = batch,
             .query_length = length,
             .key_length = length,
             .query_heads = heads,
             .key_heads = key_heads,
             .head_size = head_size,
             .q_stride = heads * head_size,
             .kv_stride = key_heads * head_size,
             .out_stride = heads * head_size,
             .scale = 1 / std::sqrt(static_cast<double>(head_size))};
    starts.assign(static_cast<size_t>(batch * length), 0);
    q = random_values<T>(batch * length * shape.q_stride, 1);
    k = random_values<T>(batch * length * shape.kv_stride, 2);
    v = random_values<T>(batch * length * shape.kv_stride, 3);
    dout = random_values<T>(batch * length * shape.out_stride, 4);
    for (T& value : q) value *= 3;
  }
  /// Every token for which a draw in [-1, 1) lies below `share`.
  Problem& choose(double share) {
    const auto draws = random_values<double>(shape.batch * shape.key_length, 5);
    for (size_t token = 0; token < draws.size(); ++token)
      if (draws[token] < share) rows.push_back(static_cast<int32_t>(token));
    return *this;
  }
  /// With a prior that is clipped here and there.
  Problem& bias() {
    PriorInputs inputs(shape.key_length, 4);
    inputs.settings = {.mix = 0.4, .pos_beta = 0.7, .temperature = 0.6, .clip = 1.1, .warm = 0.9};
    factors = std::make_shared<const PriorFactors<T>>(inputs);
    return *this;
  }
  AttentionPrior<T> prior() const { return factors == nullptr ? AttentionPrior<T>{} : factors->view(); }
};

template <typename T>
struct Results {
  std::vector<T> out, dq, dk, dv;
  std::vector<double> sums;  ///< [key_length, rank + 2] with a prior

  /// Room for what a call on p with this many queries leaves.
  Results(const Problem<T>& p, size_t queries)
      : out(queries * static_cast<size_t>(p.shape.out_stride), T(NAN)),
        dq(queries * static_cast<size_t>(p.shape.q_stride), T(NAN)),
        dk(p.k.size(), T(NAN)),
        dv(dk),
        rows_(queries * static_cast<size_t>(p.shape.query_heads * (p.prior().rank + 2)), T(NAN)) {
    if (p.factors != nullptr) sums.assign(static_cast<size_t>(p.shape.key_length * (p.prior().rank + 2)), NAN);
  }
  AttentionPriorGradient<T> dprior() { return {.sums = sums.empty() ? nullptr : sums.data(), .rows = rows_.data()}; }

 private:
  std::vector<T> rows_;
};

/// The chosen rows of a matrix.
template <typename T>
std::vector<T> chosen(const std::vector<T>& matrix, const std::vector<int32_t>& rows, int64_t stride) {
  std::vector<T> result;
  for (int32_t row : rows)
    result.insert(result.end(), matrix.begin() + row * stride, matrix.begin() + (row + 1) * stride);
  return result;
}

template <typename T>
Results<T> compact(const Problem<T>& p) {
  const int64_t count = static_cast<int64_t>(p.rows.size());
  const std::vector<T> q = chosen(p.q, p.rows, p.shape.q_stride), dout = chosen(p.dout, p.rows, p.shape.out_stride);
  std::vector<T> lse(static_cast<size_t>(count * p.shape.query_heads), T(NAN)), delta = lse;
  Results<T> r(p, p.rows.size());
  attention_rows_forward<T>(Cpu{}, r.out.data(), lse.data(), q.data(), p.k.data(), p.v.data(), p.rows.data(), count,
                            p.starts.data(), p.shape, p.prior());
  attention_rows_backward<T>(Cpu{}, r.dq.data(), r.dk.data(), r.dv.data(), delta.data(), dout.data(), r.out.data(),
                             lse.data(), q.data(), p.k.data(), p.v.data(), p.rows.data(), count, p.starts.data(),
                             p.shape, p.prior(), r.dprior());
  return r;
}

/// All queries computed, the output gradient of those that were not chosen zero.
template <typename T>
Results<T> dense(const Problem<T>& p) {
  const size_t queries = static_cast<size_t>(p.shape.batch * p.shape.key_length);
  std::vector<T> dout(p.dout.size(), T(0)), lse(queries * static_cast<size_t>(p.shape.query_heads)), delta = lse;
  for (int32_t row : p.rows)
    std::copy_n(p.dout.begin() + row * p.shape.out_stride, p.shape.out_stride, dout.begin() + row * p.shape.out_stride);
  Results<T> r(p, queries);
  attention_forward<T>(Cpu{}, r.out.data(), lse.data(), p.q.data(), p.k.data(), p.v.data(), p.starts.data(), p.shape,
                       p.prior());
  attention_backward<T>(Cpu{}, r.dq.data(), r.dk.data(), r.dv.data(), delta.data(), dout.data(), r.out.data(),
                        lse.data(), p.q.data(), p.k.data(), p.v.data(), p.starts.data(), p.shape, p.prior(),
                        r.dprior());
  r.out = chosen(r.out, p.rows, p.shape.out_stride);
  r.dq = chosen(r.dq, p.rows, p.shape.q_stride);
  return r;
}

std::vector<int32_t> starts_of(const std::vector<int>& lengths) {
  std::vector<int32_t> starts;
  for (int length : lengths)
    starts.insert(starts.end(), static_cast<size_t>(length), static_cast<int32_t>(starts.size()));
  return starts;
}

template <typename T>
class AttentionRowsTest : public ::testing::Test {};
using ElementTypes = ::testing::Types<float, double>;
TYPED_TEST_SUITE(AttentionRowsTest, ElementTypes);

/// Two documents in the first row, one in the second.
template <typename T>
void expect_the_bits_of_dense_attention(int64_t length, double share, bool prior) {
  SCOPED_TRACE(std::to_string(length) + " tokens, share " + std::to_string(share) + (prior ? ", prior" : ""));
  Problem<T> p(2, length, 4, 2, 20);
  p.choose(share);
  if (prior) p.bias();
  for (size_t t = 40; t < static_cast<size_t>(length); ++t) p.starts[t] = 40;
  const Results<T> found = compact(p), expected = dense(p);
  EXPECT_TRUE(same_bits(found.out, expected.out));
  EXPECT_TRUE(same_bits(found.dq, expected.dq));
  EXPECT_TRUE(same_bits(found.sums, expected.sums));
  EXPECT_LT(relative_error(found.dk, expected.dk), tolerance<T>());
  EXPECT_LT(relative_error(found.dv, expected.dv), tolerance<T>());
  if (share < 1) return;
  EXPECT_TRUE(same_bits(found.dk, expected.dk));
  EXPECT_TRUE(same_bits(found.dv, expected.dv));
}

TYPED_TEST(AttentionRowsTest, ChosenRowsHaveTheBitsOfDenseAttentionAndItsGradients) {
  for (int64_t length : {1, 2, 63, 65, 130, 300})
    for (double share : {-0.9, -0.5, 0.3, 1.0})
      for (bool prior : {false, true}) expect_the_bits_of_dense_attention<TypeParam>(length, share, prior);
}

TYPED_TEST(AttentionRowsTest, NoQueriesLeaveZeroSumsOfThePrior) {
  Problem<TypeParam> p(2, 70, 2, 1, 8);
  EXPECT_TRUE(same_bits(compact(p.bias()).sums, std::vector<double>(70 * 6, 0)));
}

/// The gradients of a document's tokens do not move when another one fires more, with the prior in all scores.
TYPED_TEST(AttentionRowsTest, WhatFiresElsewhereChangesNoBitsWithThePriorEither) {
  Problem<TypeParam> some(1, 140, 4, 2, 16);
  some.starts = starts_of({70, 70});
  some.bias().choose(-0.2);
  Problem<TypeParam> more = some;
  more.rows.clear();
  for (int32_t token = 0; token < 70; ++token) more.rows.push_back(token);
  for (int32_t token : some.rows)
    if (token >= 70) more.rows.push_back(token);
  const Results<TypeParam> a = compact(some), b = compact(more);
  const auto tail = [](const auto& values, int64_t count) { return std::vector(values.end() - count, values.end()); };
  const int64_t late = static_cast<int64_t>(more.rows.size()) - 70;
  EXPECT_TRUE(same_bits(tail(a.out, late * 64), tail(b.out, late * 64)));
  EXPECT_TRUE(same_bits(tail(a.dq, late * 64), tail(b.dq, late * 64)));
  EXPECT_TRUE(same_bits(tail(a.dk, 70 * 32), tail(b.dk, 70 * 32)));
  EXPECT_TRUE(same_bits(tail(a.dv, 70 * 32), tail(b.dv, 70 * 32)));
  EXPECT_TRUE(same_bits(tail(a.sums, 70 * 6), tail(b.sums, 70 * 6)));
  EXPECT_FALSE(same_bits(a.dk, b.dk));
}

TYPED_TEST(AttentionRowsTest, PriorsTooShortAreRefused) {
  Problem<TypeParam> p(1, 6, 2, 1, 8);
  p.bias();
  Problem<TypeParam> longer(1, 7, 2, 1, 8);
  longer.factors = p.factors;
  EXPECT_THROW(compact(longer), Error);
}

TYPED_TEST(AttentionRowsTest, NoQueriesLeaveZeroGradients) {
  Problem<TypeParam> p(2, 70, 2, 1, 8);
  const Results<TypeParam> found = compact(p);
  EXPECT_TRUE(found.out.empty());
  EXPECT_TRUE(same_bits(found.dk, std::vector<TypeParam>(p.k.size(), 0)));
  EXPECT_TRUE(same_bits(found.dv, std::vector<TypeParam>(p.k.size(), 0)));
}

TYPED_TEST(AttentionRowsTest, ARowNamedTwiceIsComputedTwice) {
  Problem<TypeParam> once(1, 9, 2, 1, 8), twice = once;
  once.rows = {6};
  twice.rows = {6, 6};
  const Results<TypeParam> a = compact(once), b = compact(twice);
  EXPECT_TRUE(same_bits(std::vector<TypeParam>(b.out.begin() + 16, b.out.end()), a.out));
  std::vector<TypeParam> doubled = a.dk;
  for (TypeParam& value : doubled) value *= 2;
  EXPECT_LT(relative_error(b.dk, doubled), tolerance<TypeParam>());
}

/// Whatever lies in the row before and after, and whatever fires there, a document keeps its bits.
TYPED_TEST(AttentionRowsTest, PackedDocumentsHaveTheBitsOfSeparateOnes) {
  const std::vector<int> lengths = {5, 70, 1, 300, 64, 11};
  for (double share : {-0.5, 0.4}) {
    Problem<TypeParam> packed(1, 451, 4, 2, 16);
    packed.starts = starts_of(lengths);
    packed.choose(share);
    const Results<TypeParam> all = compact(packed);
    int64_t first = 0, query = 0;
    for (int length : lengths) {
      Problem<TypeParam> alone(1, length, 4, 2, 16);
      const auto cut = [](const std::vector<TypeParam>& from, int64_t begin, int64_t count, int64_t stride) {
        return std::vector<TypeParam>(from.begin() + begin * stride, from.begin() + (begin + count) * stride);
      };
      const int64_t stride = alone.shape.q_stride, kv_stride = alone.shape.kv_stride;
      alone.q = cut(packed.q, first, length, stride);
      alone.k = cut(packed.k, first, length, kv_stride);
      alone.v = cut(packed.v, first, length, kv_stride);
      alone.dout = cut(packed.dout, first, length, stride);
      for (int32_t row : packed.rows)
        if (row >= first && row < first + length) alone.rows.push_back(row - static_cast<int32_t>(first));
      const Results<TypeParam> one = compact(alone);
      const int64_t count = static_cast<int64_t>(alone.rows.size());
      EXPECT_TRUE(same_bits(one.out, cut(all.out, query, count, stride))) << "document at " << first;
      EXPECT_TRUE(same_bits(one.dq, cut(all.dq, query, count, stride))) << "document at " << first;
      EXPECT_TRUE(same_bits(one.dk, cut(all.dk, first, length, kv_stride))) << "document at " << first;
      EXPECT_TRUE(same_bits(one.dv, cut(all.dv, first, length, kv_stride))) << "document at " << first;
      first += length;
      query += count;
    }
  }
}

TYPED_TEST(AttentionRowsTest, OtherDocumentsAreNeverRead) {
  Problem<TypeParam> p(1, 16, 2, 1, 8);
  p.starts = starts_of({5, 11});
  p.rows = {4, 5, 9, 15};
  Problem<TypeParam> poisoned = p;
  for (size_t i = 4 * 8; i < 5 * 8; ++i) poisoned.k[i] = poisoned.v[i] = TypeParam(NAN);
  const Results<TypeParam> clean = compact(p), dirty = compact(poisoned);
  const auto from = [](const std::vector<TypeParam>& values, int64_t begin) {
    return std::vector<TypeParam>(values.begin() + begin, values.end());
  };
  EXPECT_TRUE(same_bits(from(clean.out, 16), from(dirty.out, 16)));
  EXPECT_TRUE(same_bits(from(clean.dq, 16), from(dirty.dq, 16)));
  EXPECT_TRUE(same_bits(from(clean.dk, 5 * 8), from(dirty.dk, 5 * 8)));
  EXPECT_TRUE(std::isnan(dirty.out[0])) << "and what does read the NaN shows it";
}

TYPED_TEST(AttentionRowsTest, SameBitsOnAnyNumberOfThreads) {
  expect_same_on_any_threads([] {
    Problem<TypeParam> p(2, 400, 4, 2, 24);
    const Results<TypeParam> r = compact(p.choose(-0.4).bias());
    std::vector<double> all = r.sums;
    for (const auto* part : {&r.out, &r.dq, &r.dk, &r.dv}) all.insert(all.end(), part->begin(), part->end());
    return all;
  });
}

}  // namespace
}  // namespace longhaul::kernels
