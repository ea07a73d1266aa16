#include "core/ops/embedding.h"

#include "tests/core/error_check.h"
#include "tests/core/gradient_check.h"

namespace longhaul {
namespace {

using testing::random_tensor;

Batch batch_of(std::vector<int32_t> ids, int64_t rows) {
  const int64_t length = static_cast<int64_t>(ids.size()) / rows;
  const std::vector<int32_t> targets(ids.size(), -1);
  return make_batch(rows, length, std::move(ids), targets, {}, std::vector<int64_t>(static_cast<size_t>(rows), 0));
}

TEST(Embedding, ReadsRowsAndAddsPositions) {
  Tape tape;
  const Batch batch = batch_of({2, 0, 2, 1}, 2);
  const Variable tokens(Tensor::from<float>({3, 2}, {1, 2, 3, 4, 5, 6}));
  const Variable positions(Tensor::from<float>({2, 2}, {10, 20, 30, 40}));
  EXPECT_EQ(ops::embedding(tape, batch, tokens).value().to_vector<float>(),
            (std::vector<float>{5, 6, 1, 2, 5, 6, 3, 4}));
  EXPECT_EQ(ops::embedding(tape, batch, tokens, positions).value().to_vector<float>(),
            (std::vector<float>{15, 26, 31, 42, 15, 26, 33, 44}));
}

TEST(Embedding, GradientsAreRight) {
  const Batch batch = make_batch(2, 3, {4, 0, 4, 4, 1, 2}, std::vector<int32_t>(6, -1), {0, 1, 1, 0, 0, 2}, {0, 1});
  const auto op = [&batch](Tape& tape, const std::vector<Variable>& in) {
    return ops::embedding(tape, batch, in[0], in.size() > 1 ? in[1] : Variable());
  };
  testing::GradientCheck(op, {random_tensor({6, 5}, 1)}).run();
  testing::GradientCheck(op, {random_tensor({6, 5}, 1), random_tensor({4, 5}, 2)}).run();
}

TEST(Embedding, Bf16TablesActAsTheirFloatValues) {
  const Batch batch = batch_of({2, 0, 1, 2}, 2);
  const Tensor tokens = random_tensor<float>({3, 4}, 1).to(DType::bf16),
               positions = random_tensor<float>({2, 4}, 2).to(DType::bf16);
  Tape tape;
  const Variable token_table(tokens, true), position_table(positions, true);
  const Variable y = ops::embedding(tape, batch, token_table, position_table);
  const Variable expected =
      ops::embedding(tape, batch, Variable(tokens.to(DType::f32)), Variable(positions.to(DType::f32)));
  EXPECT_EQ(y.value().to_vector<float>(), expected.value().to_vector<float>());
  tape.backward_from(y, Tensor::from<float>({4, 4}, {1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4}));
  EXPECT_EQ(token_table.grad().to_vector<float>(), (std::vector<float>{2, 2, 2, 2, 3, 3, 3, 3, 5, 5, 5, 5}));
  EXPECT_EQ(position_table.grad().to_vector<float>(), (std::vector<float>{4, 4, 4, 4, 6, 6, 6, 6}));
}

TEST(Embedding, ForeignIdsAreUserErrorsNamingTheirPlace) {
  Tape tape;
  const Variable tokens(Tensor::zeros({50257, 1}, DType::f32)), positions(Tensor::zeros({4, 1}, DType::f32));
  std::vector<int32_t> ids(4 * 6, 0);
  ids[3 * 6 + 5] = 70000;
  testing::expect_error(Fault::kUser, {"embedding: id 70000 at row 3 position 5 is outside the vocabulary of 50257"},
                        [&] { ops::embedding(tape, batch_of(ids, 4), tokens); });
  ids[3 * 6 + 5] = -1;
  testing::expect_error(Fault::kUser, {"id -1 at row 3 position 5"},
                        [&] { ops::embedding(tape, batch_of(ids, 4), tokens); });
  ids[3 * 6 + 5] = 50257;
  testing::expect_error(Fault::kUser, {"id 50257"}, [&] { ops::embedding(tape, batch_of(ids, 4), tokens); });
  ids[3 * 6 + 5] = 50256;
  testing::expect_error(Fault::kUser, {"embedding: position 4 at row 0 position 4 is outside the context of 4"},
                        [&] { ops::embedding(tape, batch_of(ids, 4), tokens, positions); });
}

TEST(Embedding, TablesOfDifferentWidthAreNamed) {
  Tape tape;
  const Variable tokens(Tensor::zeros({3, 4}, DType::f32)), positions(Tensor::zeros({4, 5}, DType::f32));
  testing::expect_error(Fault::kInternal, {"embedding: ", "[4, 5]", "4]"}, [&] {
    ops::embedding(tape, batch_of({0, 1}, 1), tokens, positions);
  });
}

}  // namespace
}  // namespace longhaul
