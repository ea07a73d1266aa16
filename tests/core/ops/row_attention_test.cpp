#include "core/ops/row_attention.h"

#include "core/ops/rows.h"
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

Tensor rows_of(const std::vector<int32_t>& rows) {
  return Tensor::from<int32_t>({static_cast<int64_t>(rows.size())}, rows);
}

struct Case {
  const char* name;
  Batch batch;
  AttentionOptions options;
  std::vector<int32_t> rows;
};

std::vector<Case> cases() {
  const std::vector<int32_t> documents = {0, 0, 2, 2, 2, 5, 5, 0, 1, 2, 3, 4, 5, 6};
  return {{"one token", batch_of(1, 1), options_of(1, 1, 2, false), {0}},
          {"second row only", batch_of(2, 5), options_of(2, 2, 4, true), {5, 8}},
          {"all rows", batch_of(2, 3), options_of(2, 2, 4, true), {0, 1, 2, 3, 4, 5}},
          {"grouped", batch_of(1, 7), options_of(6, 2, 4, true), {1, 6}},
          {"a row named twice", batch_of(1, 4), options_of(2, 1, 4, true), {2, 2, 3}},
          {"documents", batch_of(2, 7, documents), options_of(4, 2, 4, true), {0, 1, 4, 5, 9, 13}}};
}

/// Attention of every query, then the named rows of it.
Tensor dense(const Tensor& q, const Tensor& kv, const Case& c) {
  const Tensor qkv = Tensor::empty({q.size(0), q.size(1) + kv.size(1)}, DType::f64);
  for (int64_t row = 0; row < q.size(0); ++row) {
    double* const target = qkv.data<double>() + row * qkv.size(1);
    std::copy_n(q.data<double>() + row * q.size(1), q.size(1), target);
    std::copy_n(kv.data<double>() + row * kv.size(1), kv.size(1), target + q.size(1));
  }
  Tape tape(Tape::Mode::off);
  return ops::gather_rows(tape, ops::attention(tape, Variable(qkv), c.batch, c.options), rows_of(c.rows)).value();
}

Tensor query_tensor(const Case& c) {
  return random_tensor({c.batch.tokens(), c.options.query_heads * c.options.head_size}, 1, 1.5);
}
Tensor key_value_tensor(const Case& c) {
  return random_tensor({c.batch.tokens(), 2 * c.options.key_heads * c.options.head_size}, 2, 1.5);
}

TEST(RowAttention, EqualsTheRowsOfDenseAttention) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.name);
    Tape tape;
    const Tensor q = query_tensor(c), kv = key_value_tensor(c), rows = rows_of(c.rows);
    const Variable fired = ops::gather_rows(tape, Variable(q), rows);
    const std::vector<std::byte> q_before = testing::bytes_of(fired.value()), kv_before = testing::bytes_of(kv);
    const Tensor found = ops::row_attention(tape, fired, Variable(kv), rows, c.batch, c.options).value();
    EXPECT_EQ(testing::bytes_of(found), testing::bytes_of(dense(q, kv, c)));
    EXPECT_EQ(testing::bytes_of(fired.value()), q_before) << "the caller's q was changed";
    EXPECT_EQ(testing::bytes_of(kv), kv_before) << "the caller's kv was changed";
  }
}

TEST(RowAttention, GradientsAreRight) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.name);
    const auto op = [&c](Tape& tape, const std::vector<Variable>& in) {
      return ops::row_attention(tape, in[0], in[1], rows_of(c.rows), c.batch, c.options);
    };
    const int64_t fired = static_cast<int64_t>(c.rows.size());
    GradientCheck(op,
                  {random_tensor({fired, c.options.query_heads * c.options.head_size}, 3, 1.5), key_value_tensor(c)})
        .run();
  }
}

TEST(RowAttention, NoQueriesGiveZeroGradients) {
  const testing::NanMemory nan;
  Tape tape;
  const Variable kv(random_tensor({6, 8}, 1), true), q(Tensor::empty({0, 8}, DType::f64), true);
  const Variable out = ops::row_attention(tape, q, kv, rows_of({}), batch_of(2, 3), options_of(2, 1, 4, true));
  EXPECT_EQ(out.shape(), Shape({0, 8}));
  tape.backward_from(out, Tensor::empty({0, 8}, DType::f64));
  EXPECT_EQ(kv.grad().to_vector<double>(), std::vector<double>(48, 0.0));
  EXPECT_EQ(q.grad().shape(), Shape({0, 8}));
}

TEST(RowAttention, MistakesAreErrors) {
  Tape tape;
  const auto run = [&](Shape q, Shape kv, const std::vector<int32_t>& rows, const AttentionOptions& options) {
    ops::row_attention(tape, Variable(Tensor::zeros(q, DType::f64)), Variable(Tensor::zeros(kv, DType::f64)),
                       rows_of(rows), batch_of(2, 3), options);
  };
  const AttentionOptions options = options_of(2, 2, 2, false);
  testing::expect_error(Fault::kInternal, {"row_attention: ", "[6, 7]", "8]"}, [&] {
    run({1, 4}, {6, 7}, {0}, options);
  });
  testing::expect_error(Fault::kInternal, {"row_attention: ", "[5, 8]", "6 tokens"}, [&] {
    run({1, 4}, {5, 8}, {0}, options);
  });
  testing::expect_error(Fault::kInternal, {"row_attention: q", "[1, 4]", "2 query rows"}, [&] {
    run({1, 4}, {6, 8}, {0, 1}, options);
  });
  testing::expect_error(Fault::kInternal, {"row_attention: row 6"}, [&] { run({1, 4}, {6, 8}, {6}, options); });
  testing::expect_error(Fault::kInternal, {"row_attention: row 1", "after row 3"}, [&] {
    run({2, 4}, {6, 8}, {3, 1}, options);
  });
  testing::expect_error(Fault::kInternal, {"row_attention: 3 query heads"}, [&] {
    run({1, 6}, {6, 8}, {0}, options_of(3, 2, 2, false));
  });
}

}  // namespace
}  // namespace longhaul
