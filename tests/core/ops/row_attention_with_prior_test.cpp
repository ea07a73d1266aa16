// ops::row_attention with the length-aware prior.
#include <numeric>

#include "core/ops/row_attention.h"
#include "core/ops/rows.h"
#include "tests/core/error_check.h"
#include "tests/core/gradient_check.h"
#include "tests/core/ops/attention_testing.h"
#include "tests/core/ops/prior_testing.h"

namespace longhaul {
namespace {

using testing::batch_of;
using testing::bytes_of;
using testing::GradientCheck;
using testing::kClipped;
using testing::kSmooth;
using testing::options_of;
using testing::random_tensor;

struct Case {
  const char* name;
  Batch batch;
  ops::AttentionOptions options;
  kernels::PriorSettings settings;
  std::vector<int32_t> rows;
  int64_t regimes = 3;
};

std::vector<int32_t> all_rows(const Batch& batch) {
  std::vector<int32_t> rows(static_cast<size_t>(batch.tokens()));
  std::iota(rows.begin(), rows.end(), 0);
  return rows;
}

std::vector<Case> cases() {
  const std::vector<int32_t> documents = {0, 0, 2, 2, 2, 5, 5, 0, 1, 2, 2, 2, 2, 6};
  const Batch packed = batch_of(2, 7, documents);
  return {{"one token", batch_of(1, 1), options_of(1, 1, 2, false), kSmooth, {0}},
          {"second row only", batch_of(2, 5), options_of(2, 2, 4, true), kSmooth, {6, 9}},
          {"all rows", batch_of(2, 6), options_of(2, 2, 4, true), kClipped, all_rows(batch_of(2, 6)), 4},
          {"grouped", batch_of(1, 7), options_of(6, 2, 2, true), kClipped, {1, 4, 6}, 4},
          {"a row named twice", batch_of(1, 5), options_of(2, 1, 4, true), kSmooth, {2, 2, 4}},
          {"documents", packed, options_of(4, 2, 2, true), kClipped, {1, 3, 4, 6, 10, 11, 13}},
          {"documents, all rows", packed, options_of(4, 2, 2, true), kClipped, all_rows(packed)}};
}

Tensor rows_of(const Case& c) { return Tensor::from<int32_t>({static_cast<int64_t>(c.rows.size())}, c.rows); }

/// qkv of all tokens, then mean_memberships, alignment and pos_beta.
std::vector<Tensor> inputs_of(const Case& c) {
  const int64_t columns = (c.options.query_heads + 2 * c.options.key_heads) * c.options.head_size;
  std::vector<Tensor> inputs{random_tensor({c.batch.tokens(), columns}, 2, 1.5)};
  for (const Tensor& tensor : testing::prior_tensors(testing::prior_inputs(c.batch.length(), c.regimes, c.settings)))
    inputs.push_back(tensor);
  return inputs;
}

Tensor columns_of(const Tensor& matrix, int64_t begin, int64_t end) {
  const Tensor part = Tensor::empty({matrix.size(0), end - begin}, matrix.dtype());
  for (int64_t row = 0; row < part.size(0); ++row)
    std::copy_n(matrix.data<double>() + row * matrix.size(1) + begin, end - begin,
                part.data<double>() + row * part.size(1));
  return part;
}

/// The queries of the named rows and the keys and values of all tokens, out of qkv.
std::vector<Tensor> split_inputs(const Case& c) {
  std::vector<Tensor> in = inputs_of(c);
  const int64_t q_columns = c.options.query_heads * c.options.head_size;
  Tape tape(Tape::Mode::off);
  const Tensor q = ops::gather_rows(tape, Variable(columns_of(in[0], 0, q_columns)), rows_of(c)).value();
  const Tensor kv = columns_of(in[0], q_columns, in[0].size(1));
  in[0] = kv;
  in.insert(in.begin(), q);
  return in;
}

Variable attend_rows(Tape& tape, const std::vector<Variable>& in, const Case& c, double score_temperature = 1) {
  ops::LengthPrior prior = testing::length_prior(in[2], in[3], in[4], c.settings);
  prior.score_temperature = score_temperature;
  return ops::row_attention(tape, in[0], in[1], rows_of(c), c.batch, c.options, &prior);
}

Variable attend_all(Tape& tape, const std::vector<Variable>& in, const Case& c, double score_temperature = 1) {
  ops::LengthPrior prior = testing::length_prior(in[1], in[2], in[3], c.settings);
  prior.score_temperature = score_temperature;
  return ops::attention(tape, in[0], c.batch, c.options, &prior);
}

std::vector<Variable> variables_of(const std::vector<Tensor>& tensors) {
  std::vector<Variable> variables;
  for (const Tensor& tensor : tensors) variables.emplace_back(tensor, true);
  return variables;
}

TEST(RowAttentionWithPrior, EqualsTheRowsOfAttention) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.name);
    Tape tape(Tape::Mode::off);
    const Tensor found = attend_rows(tape, variables_of(split_inputs(c)), c).value();
    const Variable all = attend_all(tape, variables_of(inputs_of(c)), c);
    EXPECT_EQ(bytes_of(found), bytes_of(ops::gather_rows(tape, all, rows_of(c)).value()));
    const std::vector<Tensor> in = inputs_of(c);
    const kernels::PlainPrior plain = plain_prior(testing::prior_inputs(c.batch.length(), c.regimes, c.settings));
    const Tensor dense =
        ops::gather_rows(tape, Variable(testing::dense_attention(in[0], c.batch, c.options, plain.bias)), rows_of(c))
            .value();
    for (int64_t i = 0; i < dense.count(); ++i) ASSERT_NEAR(found.data<double>()[i], dense.data<double>()[i], 1e-11);
  }
}

TEST(RowAttentionWithPrior, ScoreTemperatureIsThatOfAttention) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.name);
    Tape tape(Tape::Mode::off);
    const Variable all = attend_all(tape, variables_of(inputs_of(c)), c, 1.25);
    EXPECT_EQ(bytes_of(attend_rows(tape, variables_of(split_inputs(c)), c, 1.25).value()),
              bytes_of(ops::gather_rows(tape, all, rows_of(c)).value()));
  }
}

TEST(RowAttentionWithPrior, GradientsAreRight) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.name);
    const auto op = [&c](Tape& tape, const std::vector<Variable>& in) { return attend_rows(tape, in, c); };
    GradientCheck(op, split_inputs(c)).run();
  }
}

/// All rows queried: every gradient is the one of ops::attention, bit for bit.
TEST(RowAttentionWithPrior, AllRowsHaveTheGradientsOfAttention) {
  for (const Case& c : cases()) {
    if (static_cast<int64_t>(c.rows.size()) != c.batch.tokens()) continue;
    SCOPED_TRACE(c.name);
    const std::vector<Variable> in = variables_of(inputs_of(c)), split = variables_of(split_inputs(c));
    const Tensor seed = random_tensor({c.batch.tokens(), c.options.query_heads * c.options.head_size}, 5);
    Tape tape;
    tape.backward_from(attend_all(tape, in, c), seed);
    tape.backward_from(attend_rows(tape, split, c), seed);
    const int64_t q_columns = split[0].value().size(1);
    EXPECT_EQ(bytes_of(split[0].grad()), bytes_of(columns_of(in[0].grad(), 0, q_columns)));
    EXPECT_EQ(bytes_of(split[1].grad()), bytes_of(columns_of(in[0].grad(), q_columns, in[0].value().size(1))));
    for (size_t i = 1; i < in.size(); ++i) EXPECT_EQ(bytes_of(split[i + 1].grad()), bytes_of(in[i].grad())) << i;
  }
}

TEST(RowAttentionWithPrior, NoQueriesGiveZeroGradients) {
  const testing::NanMemory nan;
  const Case c{"", batch_of(2, 3), options_of(2, 1, 4, true), kClipped, {}};
  const std::vector<Variable> in = variables_of(split_inputs(c));
  Tape tape;
  const Variable out = attend_rows(tape, in, c);
  EXPECT_EQ(out.shape(), Shape({0, 8}));
  tape.backward_from(out, Tensor::empty({0, 8}, DType::f64));
  for (size_t i = 1; i < in.size(); ++i)
    for (const double value : in[i].grad().span<double>()) EXPECT_EQ(value, 0) << i;
}

TEST(RowAttentionWithPrior, PriorsTooShortAreErrors) {
  const Case c{"", batch_of(2, 5), options_of(2, 1, 2, false), kSmooth, {3}};
  std::vector<Variable> in = variables_of(split_inputs(c));
  in[2] = Variable(Tensor::zeros({4, 3}, DType::f64));
  Tape tape;
  testing::expect_error(Fault::kInternal, {"attention: ", "[4, 3]", "5 tokens"}, [&] { attend_rows(tape, in, c); });
}

}  // namespace
}  // namespace longhaul
