#include "kernels/attention.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <limits>

#include "kernels/error.h"
#include "tests/kernels/kernel_test.h"

namespace longhaul::kernels {
namespace {

/// A training call with contiguous q, k, v and everything it returns.
template <typename T>
struct Attention {
  AttentionShape shape;
  std::vector<int32_t> starts;  ///< [batch, query_length]; empty: null
  std::vector<T> q, k, v, dout;
  std::vector<T> out, lse, delta, dq, dk, dv;

  Attention(int64_t batch, int64_t length, int64_t heads, int64_t key_heads, int64_t head_size, uint32_t stream = 1) {
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
    q = random_values<T>(batch * length * shape.q_stride, stream);
    k = random_values<T>(batch * length * shape.kv_stride, stream + 1);
    v = random_values<T>(batch * length * shape.kv_stride, stream + 2);
    dout = random_values<T>(batch * length * shape.out_stride, stream + 3);
    for (T& value : q) value *= 3;  // scores with some contrast
  }
  const int32_t* start_data() const { return starts.empty() ? nullptr : starts.data(); }
  Attention& forward() {
    out.assign(static_cast<size_t>(shape.batch * shape.query_length * shape.out_stride), T(NAN));
    lse.assign(static_cast<size_t>(shape.batch * shape.query_heads * shape.query_length), T(NAN));
    attention_forward<T>(Cpu{}, out.data(), lse.data(), q.data(), k.data(), v.data(), start_data(), shape);
    return *this;
  }
  Attention& backward() {
    dq.assign(q.size(), T(NAN));
    dk.assign(k.size(), T(NAN));
    dv.assign(v.size(), T(NAN));
    delta.assign(lse.size(), T(NAN));
    attention_backward<T>(Cpu{}, dq.data(), dk.data(), dv.data(), delta.data(), dout.data(), out.data(), lse.data(),
                          q.data(), k.data(), v.data(), start_data(), shape);
    return *this;
  }
};

/// The definition: whole rows of softmax in double. Returns {out, lse}.
template <typename T>
std::pair<std::vector<double>, std::vector<double>> reference(const Attention<T>& a) {
  const AttentionShape& s = a.shape;
  std::vector<double> out(static_cast<size_t>(s.batch * s.query_length * s.out_stride), 0.0);
  std::vector<double> lse(static_cast<size_t>(s.batch * s.query_heads * s.query_length), -INFINITY);
  for (int64_t b = 0; b < s.batch; ++b)
    for (int64_t h = 0; h < s.query_heads; ++h)
      for (int64_t t = 0; t < s.query_length; ++t) {
        const int64_t at = b * s.query_length + t, kv_head = h * s.key_heads / s.query_heads * s.head_size;
        const int64_t from = a.starts.empty() ? 0 : a.starts[static_cast<size_t>(at)];
        const int64_t last = s.key_length - s.query_length + t;
        std::vector<double> weight;
        double sum = 0;
        for (int64_t j = from; j <= last; ++j) {
          double score = 0;
          for (int64_t d = 0; d < s.head_size; ++d)
            score += double(a.q[static_cast<size_t>(at * s.q_stride + h * s.head_size + d)]) *
                     double(a.k[static_cast<size_t>((b * s.key_length + j) * s.kv_stride + kv_head + d)]);
          weight.push_back(std::exp(score * s.scale));
          sum += weight.back();
        }
        if (weight.empty()) continue;
        lse[static_cast<size_t>((b * s.query_heads + h) * s.query_length + t)] = std::log(sum);
        for (int64_t j = from; j <= last; ++j)
          for (int64_t d = 0; d < s.head_size; ++d)
            out[static_cast<size_t>(at * s.out_stride + h * s.head_size + d)] +=
                weight[static_cast<size_t>(j - from)] / sum *
                double(a.v[static_cast<size_t>((b * s.key_length + j) * s.kv_stride + kv_head + d)]);
      }
  return {out, lse};
}

template <typename T>
class AttentionTest : public ::testing::Test {};
using ElementTypes = ::testing::Types<float, double>;
TYPED_TEST_SUITE(AttentionTest, ElementTypes);

TYPED_TEST(AttentionTest, ForwardMatchesTheDefinitionAtOddSizes) {
  for (int64_t length : {1, 2, 3, 63, 64, 65, 127, 130, 200})
    for (int64_t head_size : {1, 5, 16, 64, 80}) {
      Attention<TypeParam> a(2, length, 2, 1, head_size);
      a.forward();
      const auto [out, lse] = reference(a);
      EXPECT_LT(relative_error(a.out, out), tolerance<TypeParam>()) << "T " << length << " D " << head_size;
      EXPECT_LT(relative_error(a.lse, lse), tolerance<TypeParam>()) << "T " << length << " D " << head_size;
    }
}

TYPED_TEST(AttentionTest, LargestHeadSize) {
  Attention<TypeParam> a(1, 70, 2, 2, 256);
  a.forward();
  EXPECT_LT(relative_error(a.out, reference(a).first), tolerance<TypeParam>());
}

/// Starts of documents of the given lengths.
std::vector<int32_t> starts_of(const std::vector<int>& lengths) {
  std::vector<int32_t> starts;
  for (int length : lengths)
    starts.insert(starts.end(), static_cast<size_t>(length), static_cast<int32_t>(starts.size()));
  return starts;
}

TYPED_TEST(AttentionTest, DocumentMask) {
  for (const auto& lengths : {std::vector<int>{5, 11}, {1, 1, 1}, {64, 1, 65}, {7, 9, 130}, {200}}) {
    const auto starts = starts_of(lengths);
    Attention<TypeParam> a(1, static_cast<int64_t>(starts.size()), 3, 1, 20);
    a.starts = starts;
    a.forward();
    EXPECT_LT(relative_error(a.out, reference(a).first), tolerance<TypeParam>());
  }
}

TYPED_TEST(AttentionTest, QueriesWithoutKeysGiveExactZeros) {
  Attention<TypeParam> a(1, 9, 2, 1, 8);
  a.starts = {2, 2, 2, 2, 7,
              7, 7, 7, 9};  // queries 0, 1, 4, 5, 6 and 8 see no key; keys 0, 1, 4..6 and 8 are never seen
  a.forward().backward();
  const auto [out, lse] = reference(a);
  EXPECT_LT(relative_error(a.out, out), tolerance<TypeParam>());
  for (int64_t t : {0, 1, 4, 5, 6, 8})
    for (int64_t i = 0; i < 16; ++i) {
      EXPECT_EQ(a.out[static_cast<size_t>(t * 16 + i)], 0);
      EXPECT_EQ(a.dq[static_cast<size_t>(t * 16 + i)], 0);
      EXPECT_EQ(a.dk[static_cast<size_t>(t * 8 + i % 8)], 0);
      EXPECT_EQ(a.dv[static_cast<size_t>(t * 8 + i % 8)], 0);
    }
  for (size_t i = 0; i < lse.size(); ++i) EXPECT_EQ(std::isinf(lse[i]), std::isinf(a.lse[i])) << i;
  for (const auto* values : {&a.dq, &a.dk, &a.dv})
    for (TypeParam value : *values) EXPECT_TRUE(std::isfinite(value));
}

TYPED_TEST(AttentionTest, EmptyCallsDoNothing) {
  Attention<TypeParam> no_rows(0, 5, 2, 1, 8), no_tokens(2, 0, 2, 1, 8);
  no_rows.forward().backward();
  no_tokens.forward().backward();
  EXPECT_TRUE(no_rows.out.empty());
  EXPECT_TRUE(no_tokens.dq.empty());
}

TEST(AttentionShapeTest, ImpossibleShapesAreRefused) {
  EXPECT_THROW(Attention<float>(1, 2, 1, 1, 257).forward(), Error);
  EXPECT_THROW(Attention<float>(1, 2, 3, 2, 8).forward(), Error);
  Attention<float> decode(1, 4, 1, 1, 8);
  decode.forward();
  decode.shape.query_length = 2;
  EXPECT_THROW(decode.backward(), Error);
}

TYPED_TEST(AttentionTest, DecodingGivesTheBitsOfTheWholeRow) {
  constexpr int64_t kLength = 150, kHeads = 4;
  for (int64_t head_size : {16, 33}) {
    Attention<TypeParam> whole(1, kLength, kHeads, 2, head_size);
    whole.starts.assign(kLength, 0);
    for (size_t t = 40; t < kLength; ++t) whole.starts[t] = 40;
    whole.forward();
    for (int64_t queries : {1, 2, 70}) {
      Attention<TypeParam> last = whole;
      last.shape.query_length = queries;
      last.q.erase(last.q.begin(), last.q.end() - queries * whole.shape.q_stride);
      last.starts.erase(last.starts.begin(), last.starts.end() - queries);
      last.forward();
      const std::vector<TypeParam> expected(whole.out.end() - queries * whole.shape.out_stride, whole.out.end());
      EXPECT_TRUE(same_bits(last.out, expected)) << queries << " queries";
    }
  }
}

TYPED_TEST(AttentionTest, MoreQueriesThanKeys) {
  Attention<TypeParam> a(1, 5, 1, 1, 8);
  a.shape.key_length = 3;  // the first two queries lie before the first key
  a.forward();
  EXPECT_LT(relative_error(a.out, reference(a).first), tolerance<TypeParam>());
  for (size_t i = 0; i < 16; ++i) EXPECT_EQ(a.out[i], 0);
}

TYPED_TEST(AttentionTest, PackedDocumentsHaveTheBitsOfSeparateOnes) {
  const std::vector<int> lengths = {5, 70, 1, 129, 64, 11};
  for (int64_t head_size : {16, 20, 64}) {
    const auto starts = starts_of(lengths);
    Attention<TypeParam> packed(1, static_cast<int64_t>(starts.size()), 4, 2, head_size);
    packed.starts = starts;
    packed.forward().backward();
    int64_t first = 0;
    for (int length : lengths) {
      Attention<TypeParam> alone(1, length, 4, 2, head_size);
      const auto cut = [&](const std::vector<TypeParam>& from, int64_t stride) {
        return std::vector<TypeParam>(from.begin() + first * stride, from.begin() + (first + length) * stride);
      };
      const int64_t q_stride = alone.shape.q_stride, kv_stride = alone.shape.kv_stride;
      alone.q = cut(packed.q, q_stride);
      alone.k = cut(packed.k, kv_stride);
      alone.v = cut(packed.v, kv_stride);
      alone.dout = cut(packed.dout, q_stride);
      alone.forward().backward();
      EXPECT_TRUE(same_bits(alone.out, cut(packed.out, q_stride))) << "document at " << first;
      EXPECT_TRUE(same_bits(alone.dq, cut(packed.dq, q_stride))) << "document at " << first;
      EXPECT_TRUE(same_bits(alone.dk, cut(packed.dk, kv_stride))) << "document at " << first;
      EXPECT_TRUE(same_bits(alone.dv, cut(packed.dv, kv_stride))) << "document at " << first;
      first += length;
    }
  }
}

TYPED_TEST(AttentionTest, OtherDocumentsAreNeverRead) {
  Attention<TypeParam> a(1, 16, 2, 1, 8);
  a.starts = starts_of({5, 11});
  a.forward().backward();
  Attention<TypeParam> poisoned = a;
  for (size_t i = 4 * 8; i < 5 * 8; ++i)
    poisoned.k[i] = poisoned.v[i] = TypeParam(NAN);  // last token of the first document
  poisoned.forward().backward();
  const auto second = [](const std::vector<TypeParam>& values, size_t stride) {
    return std::vector<TypeParam>(values.begin() + static_cast<int64_t>(5 * stride), values.end());
  };
  EXPECT_TRUE(same_bits(second(a.out, 16), second(poisoned.out, 16)));
  EXPECT_TRUE(same_bits(second(a.dq, 16), second(poisoned.dq, 16)));
  EXPECT_TRUE(same_bits(second(a.dk, 8), second(poisoned.dk, 8)));
  EXPECT_TRUE(std::isnan(poisoned.out[4 * 16])) << "and what does read the NaN shows it";
}

TEST(AttentionGradientTest, MatchesFiniteDifferences) {
  struct Case {
    int64_t length, heads, key_heads, head_size;
    std::vector<int32_t> starts;
  };
  for (const Case& c : {Case{1, 1, 1, 3, {}}, Case{7, 2, 2, 4, {}}, Case{9, 4, 2, 3, starts_of({2, 1, 6})},
                        Case{6, 2, 1, 2, {2, 2, 2, 2, 5, 5}}, Case{70, 1, 1, 2, starts_of({67, 3})}}) {
    Attention<double> a(1, c.length, c.heads, c.key_heads, c.head_size);
    a.starts = c.starts;
    a.forward().backward();
    const auto loss_of = [&](std::vector<double> Attention<double>::*input) {
      return [&a, input](const std::vector<double>& x) {
        Attention<double> moved = a;
        moved.*input = x;
        moved.forward();
        return dot(moved.out, a.dout);
      };
    };
    EXPECT_LT(relative_error(a.dq, numeric_gradient(a.q, loss_of(&Attention<double>::q))), 1e-8) << "T " << c.length;
    EXPECT_LT(relative_error(a.dk, numeric_gradient(a.k, loss_of(&Attention<double>::k))), 1e-8) << "T " << c.length;
    EXPECT_LT(relative_error(a.dv, numeric_gradient(a.v, loss_of(&Attention<double>::v))), 1e-8) << "T " << c.length;
  }
}

TEST(AttentionGradientTest, FloatMatchesDouble) {
  for (int64_t length : {65, 130}) {
    Attention<double> exact(2, length, 4, 2, 64);
    Attention<float> single(2, length, 4, 2, 64);
    exact.starts = single.starts = [&] {
      std::vector<int32_t> starts(static_cast<size_t>(2 * length), 0);
      for (int64_t t = 30; t < length; ++t) starts[static_cast<size_t>(t)] = 30;
      return starts;
    }();
    exact.forward().backward();
    single.forward().backward();
    EXPECT_LT(relative_error(single.dq, exact.dq), 1e-5);
    EXPECT_LT(relative_error(single.dk, exact.dk), 1e-5);
    EXPECT_LT(relative_error(single.dv, exact.dv), 1e-5);
  }
}

TYPED_TEST(AttentionTest, SameBitsOnAnyNumberOfThreads) {
  expect_same_on_any_threads([] {
    Attention<TypeParam> a(2, 140, 4, 2, 24);
    a.forward().backward();
    std::vector<TypeParam> all = a.out;
    for (const auto* part : {&a.lse, &a.dq, &a.dk, &a.dv}) all.insert(all.end(), part->begin(), part->end());
    return all;
  });
}

TYPED_TEST(AttentionTest, HugeScoresStayFinite) {
  Attention<TypeParam> a(1, 66, 1, 1, 16);
  for (TypeParam& value : a.q) value *= TypeParam(1e6);
  a.forward().backward();
  for (const auto* values : {&a.out, &a.dq, &a.dk, &a.dv})
    for (TypeParam value : *values) EXPECT_TRUE(std::isfinite(value));
}

TEST(AttentionOffsetTest, TokensBeyondTwoToThe31ElementsApart) {
  // q, k, v interleaved with a stride of 2^30 elements: token 3 lies beyond 2^31. Only the touched pages exist.
  constexpr int64_t kStride = int64_t{1} << 30, kTokens = 4, kSize = 4;
  const size_t bytes = static_cast<size_t>(kStride * kTokens) * sizeof(float);
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) GTEST_SKIP() << "cannot reserve address space";
  float* const base = static_cast<float*>(memory);
  Attention<float> small(1, kTokens, 1, 1, kSize);
  small.forward();
  for (int64_t t = 0; t < kTokens; ++t)
    for (int64_t d = 0; d < kSize; ++d) {
      base[t * kStride + d] = small.q[static_cast<size_t>(t * kSize + d)];
      base[t * kStride + kSize + d] = small.k[static_cast<size_t>(t * kSize + d)];
      base[t * kStride + 2 * kSize + d] = small.v[static_cast<size_t>(t * kSize + d)];
    }
  AttentionShape shape = small.shape;
  shape.q_stride = shape.kv_stride = shape.out_stride = kStride;
  std::vector<float> lse(kTokens);
  float* const out = base + 3 * kSize;
  attention_forward<float>(Cpu{}, out, lse.data(), base, base + kSize, base + 2 * kSize, nullptr, shape);
  for (int64_t t = 0; t < kTokens; ++t)
    for (int64_t d = 0; d < kSize; ++d) EXPECT_EQ(out[t * kStride + d], small.out[static_cast<size_t>(t * kSize + d)]);
  munmap(memory, bytes);
}

}  // namespace
}  // namespace longhaul::kernels
