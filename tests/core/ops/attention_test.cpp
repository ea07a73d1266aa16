#include "core/ops/attention.h"

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
    const Tensor expected = testing::dense_attention(qkv, c.batch, c.options);
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
