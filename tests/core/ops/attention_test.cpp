#include "core/ops/attention.h"

#include <cmath>

#include "tests/core/error_check.h"
#include "tests/core/gradient_check.h"
#include "tests/core/ops/attention_testing.h"

namespace longhaul {
namespace {

using ops::AttentionOptions;
using testing::batch_of;
using testing::GradientCheck;
using testing::options_of;
using testing::random_tensor;

/// Token (b, t)'s vector of one head, rotated by the definition.
std::vector<double> head_vector(const Tensor& qkv, const Batch& batch, int64_t token, int64_t offset, int64_t size,
                                bool rope) {
  const double* x = qkv.data<double>() + token * qkv.size(1) + offset;
  std::vector<double> out(x, x + size);
  if (!rope) return out;
  const int64_t half = size / 2;
  for (int64_t i = 0; i < half; ++i) {
    const double angle = batch.positions.data<int32_t>()[token] *
                         std::pow(10000.0, -2.0 * static_cast<double>(i) / static_cast<double>(size));
    out[static_cast<size_t>(i)] = x[i] * std::cos(angle) - x[i + half] * std::sin(angle);
    out[static_cast<size_t>(i + half)] = x[i + half] * std::cos(angle) + x[i] * std::sin(angle);
  }
  return out;
}

double dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

/// Attention written out: every query, every key it may see.
Tensor reference(const Tensor& qkv, const Batch& batch, const AttentionOptions& options) {
  const int64_t size = options.head_size, length = batch.length();
  const bool rope = options.rope_table.defined();
  const Tensor out = Tensor::zeros({batch.tokens(), options.query_heads * size}, DType::f64);
  for (int64_t token = 0; token < batch.tokens(); ++token) {
    const int64_t row_start = token / length * length;
    const int64_t first = row_start + batch.document_start.data<int32_t>()[token];
    for (int64_t head = 0; head < options.query_heads; ++head) {
      const int64_t key_head = head * options.key_heads / options.query_heads;
      const int64_t k_offset = (options.query_heads + key_head) * size;
      const int64_t v_offset = (options.query_heads + options.key_heads + key_head) * size;
      const std::vector<double> q = head_vector(qkv, batch, token, head * size, size, rope);
      double total = 0;
      double* y = out.data<double>() + token * out.size(1) + head * size;
      for (int64_t key = first; key <= token; ++key) {
        const std::vector<double> k = head_vector(qkv, batch, key, k_offset, size, rope);
        const double weight = std::exp(dot(q, k) / std::sqrt(static_cast<double>(size)));
        const std::vector<double> v = head_vector(qkv, batch, key, v_offset, size, false);
        for (int64_t i = 0; i < size; ++i) y[i] += weight * v[static_cast<size_t>(i)];
        total += weight;
      }
      for (int64_t i = 0; i < size; ++i) y[i] /= total;
    }
  }
  return out;
}

struct Case {
  const char* name;
  Batch batch;
  AttentionOptions options;
};

std::vector<Case> cases() {
  return {{"one token", batch_of(1, 1), options_of(1, 1, 2, false)},
          {"plain", batch_of(2, 5), options_of(2, 2, 3, false)},
          {"rope", batch_of(2, 5), options_of(2, 2, 4, true)},
          {"grouped", batch_of(1, 7), options_of(6, 2, 4, true)},
          {"one key head", batch_of(2, 4), options_of(3, 1, 2, true)},
          {"documents", batch_of(2, 7, {0, 0, 2, 2, 2, 5, 5, 0, 1, 2, 3, 4, 5, 6}), options_of(4, 2, 4, true)},
          {"document to the end", batch_of(1, 6, {0, 0, 0, 0, 0, 5}), options_of(2, 1, 4, false)}};
}

Tensor qkv_of(const Case& c, uint64_t seed) {
  const int64_t columns = (c.options.query_heads + 2 * c.options.key_heads) * c.options.head_size;
  return random_tensor({c.batch.tokens(), columns}, seed, 1.5);
}

TEST(Attention, EqualsTheDenseDefinition) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.name);
    Tape tape;
    const Tensor qkv = qkv_of(c, 1);
    const Tensor expected = reference(qkv, c.batch, c.options);
    const std::vector<std::byte> input = testing::bytes_of(qkv);
    const Tensor found = ops::attention(tape, Variable(qkv), c.batch, c.options).value();
    ASSERT_EQ(found.shape(), expected.shape());
    for (int64_t i = 0; i < expected.count(); ++i) {
      ASSERT_NEAR(found.data<double>()[i], expected.data<double>()[i], 1e-12) << i;
    }
    EXPECT_EQ(testing::bytes_of(qkv), input) << "the caller's qkv was changed";
  }
}

TEST(Attention, GradientsAreRight) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.name);
    const auto op = [&c](Tape& tape, const std::vector<Variable>& in) {
      return ops::attention(tape, in[0], c.batch, c.options);
    };
    GradientCheck(op, {qkv_of(c, 2)}).run();
  }
}

TEST(Attention, MistakesAreErrors) {
  Tape tape;
  const auto constant = [](Shape shape) { return Variable(Tensor::zeros(shape, DType::f64)); };
  testing::expect_error(Fault::kInternal, {"attention: ", "[6, 11]", "12]"}, [&] {
    ops::attention(tape, constant({6, 11}), batch_of(2, 3), options_of(2, 2, 2, false));
  });
  testing::expect_error(Fault::kInternal, {"attention: ", "[5, 12]", "6 tokens"}, [&] {
    ops::attention(tape, constant({5, 12}), batch_of(2, 3), options_of(2, 2, 2, false));
  });
  testing::expect_error(Fault::kInternal, {"attention: ", "3 query heads", "2 key heads"}, [&] {
    ops::attention(tape, constant({6, 14}), batch_of(2, 3), options_of(3, 2, 2, false));
  });
  testing::expect_error(Fault::kInternal, {"attention: RoPE table", "[64, 4]"}, [&] {
    AttentionOptions options = options_of(2, 2, 2, false);
    options.rope_table = Tensor::zeros({64, 4}, DType::f64);
    ops::attention(tape, constant({6, 12}), batch_of(2, 3), options);
  });
  testing::expect_error(Fault::kUser, {"attention: position 64", "64 positions"}, [&] {
    ops::attention(tape, constant({65, 12}), batch_of(1, 65), options_of(2, 2, 2, true));
  });
}

}  // namespace
}  // namespace longhaul
