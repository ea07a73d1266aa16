#include "core/ops/rows.h"

#include <cmath>

#include "tests/core/error_check.h"
#include "tests/core/gradient_check.h"

namespace longhaul {
namespace {

using testing::GradientCheck;
using testing::random_tensor;

Tensor rows_of(const std::vector<int32_t>& rows) {
  return Tensor::from<int32_t>({static_cast<int64_t>(rows.size())}, rows);
}

const std::vector<std::vector<int32_t>> kChoices = {{}, {0}, {6}, {1, 3, 4}, {2, 2, 5}, {0, 1, 2, 3, 4, 5, 6}};

TEST(GatherRows, TakesTheNamedRows) {
  Tape tape;
  const Variable x(Tensor::from<float>({3, 2}, {1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(ops::gather_rows(tape, x, rows_of({0, 2})).value().to_vector<float>(), std::vector<float>({1, 2, 5, 6}));
  EXPECT_EQ(ops::gather_rows(tape, x, rows_of({})).shape(), Shape({0, 2}));
}

TEST(GatherRows, GradientsAreRight) {
  for (const auto& rows : kChoices) {
    if (rows.empty()) continue;  // no output, no gradient: see below
    const auto op = [&](Tape& tape, const std::vector<Variable>& in) {
      return ops::gather_rows(tape, in[0], rows_of(rows));
    };
    GradientCheck(op, {random_tensor({7, 5}, 1)}).run();
  }
}

TEST(GatherRows, NoRowsGiveZeroGradients) {
  const testing::NanMemory nan;
  Tape tape;
  const Variable x(random_tensor({3, 2}, 1), true);
  tape.backward_from(ops::gather_rows(tape, x, rows_of({})), Tensor::empty({0, 2}, DType::f64));
  EXPECT_EQ(x.grad().to_vector<double>(), std::vector<double>(6, 0.0));
}

TEST(AddGatedRows, AddsTheGatedUpdateToTheNamedRows) {
  Tape tape;
  const Variable h(Tensor::from<double>({3, 2}, {1, 2, 3, 4, 5, 6})), update(Tensor::from<double>({1, 2}, {10, 20}));
  const Variable raw(Tensor::from<double>({2}, {0, -7}));  // -7 is held at -1
  const std::vector<double> y = ops::add_gated_rows(tape, h, update, raw, rows_of({1})).value().to_vector<double>();
  EXPECT_EQ(std::vector<double>(y.begin(), y.begin() + 2), std::vector<double>({1, 2}));
  EXPECT_EQ(y[2], 3 + 0.5 * 10);
  EXPECT_DOUBLE_EQ(y[3], 4 + 20 / (1 + std::exp(1.0)));
  EXPECT_EQ(std::vector<double>(y.begin() + 4, y.end()), std::vector<double>({5, 6}));
}

TEST(AddGatedRows, GradientsAreRight) {
  for (const int64_t columns : {1, 5})
    for (const auto& rows : kChoices) {
      const auto op = [&](Tape& tape, const std::vector<Variable>& in) {
        return ops::add_gated_rows(tape, in[0], in[1], in[2], rows_of(rows));
      };
      const int64_t count = static_cast<int64_t>(rows.size());
      GradientCheck(
          op, {random_tensor({7, columns}, 1), random_tensor({count, columns}, 2), random_tensor({columns}, 3, 0.9)})
          .run();
    }
}

TEST(AddGatedRows, WideRowsHaveTheGradientOfTheirColumns) {
  constexpr int64_t kColumns = 1030;  // more than the kernel sums at a time
  Tape tape;
  const Variable h(random_tensor({2, kColumns}, 1), true), update(random_tensor({1, kColumns}, 2), true);
  const Variable raw(Tensor::zeros({kColumns}, DType::f64), true);
  const Tensor dy = random_tensor({2, kColumns}, 3);
  tape.backward_from(ops::add_gated_rows(tape, h, update, raw, rows_of({1})), dy);
  for (int64_t c = 0; c < kColumns; ++c) {
    const double gradient = dy.data<double>()[kColumns + c];
    EXPECT_DOUBLE_EQ(update.grad().data<double>()[c], 0.5 * gradient);
    EXPECT_DOUBLE_EQ(raw.grad().data<double>()[c], 0.25 * gradient * update.value().data<double>()[c]);
  }
}

TEST(AddGatedRows, NoGradientBelowTheFloorOfTheGate) {
  Tape tape;
  const Variable h(random_tensor({2, 3}, 1), true), update(random_tensor({2, 3}, 2), true);
  const Variable raw(Tensor::from<double>({3}, {-1.5, -1.0, -0.5}), true);
  tape.backward_from(ops::add_gated_rows(tape, h, update, raw, rows_of({0, 1})),
                     Tensor::from<double>({2, 3}, {1, 1, 1, 1, 1, 1}));
  EXPECT_EQ(raw.grad().data<double>()[0], 0.0);
  EXPECT_NE(raw.grad().data<double>()[1], 0.0);
  EXPECT_NE(raw.grad().data<double>()[2], 0.0);
}

TEST(AddGatedRows, TakesABf16Gate) {
  const Variable h(random_tensor<float>({2, 3}, 1)), update(random_tensor<float>({1, 3}, 2));
  const Tensor stored = random_tensor<float>({3}, 3).to(DType::bf16);
  Tape tape;
  const auto run = [&](const Tensor& raw) {
    return ops::add_gated_rows(tape, h, update, Variable(raw), rows_of({1})).value().to_vector<float>();
  };
  EXPECT_EQ(run(stored), run(stored.to(DType::f32)));
}

TEST(RowOps, MistakesAreErrors) {
  Tape tape;
  const Variable x(Tensor::zeros({4, 3}, DType::f64)), raw(Tensor::zeros({3}, DType::f64));
  const auto update = [](int64_t rows) { return Variable(Tensor::zeros({rows, 3}, DType::f64)); };
  testing::expect_error(Fault::kInternal, {"gather_rows: row 4 at index 1", "0..3"}, [&] {
    ops::gather_rows(tape, x, rows_of({0, 4}));
  });
  testing::expect_error(Fault::kInternal, {"gather_rows: row 1 at index 1", "after row 2"}, [&] {
    ops::gather_rows(tape, x, rows_of({2, 1}));
  });
  testing::expect_error(Fault::kInternal, {"add_gated_rows: ", "[2, 3]", "1 rows"},
                        [&] { ops::add_gated_rows(tape, x, update(2), raw, rows_of({0})); });
  testing::expect_error(Fault::kInternal, {"add_gated_rows: row -1"},
                        [&] { ops::add_gated_rows(tape, x, update(1), raw, rows_of({-1})); });
  testing::expect_error(Fault::kInternal, {"add_gated_rows: raw_alpha", "[4]"}, [&] {
    ops::add_gated_rows(tape, x, update(1), Variable(Tensor::zeros({4}, DType::f64)), rows_of({0}));
  });
}

}  // namespace
}  // namespace longhaul
