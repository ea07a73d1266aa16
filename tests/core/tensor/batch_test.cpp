#include "core/tensor/batch.h"

#include "tests/core/error_check.h"

namespace longhaul {
namespace {

TEST(Batch, PositionsRestartAtDocumentStarts) {
  const Batch batch =
      make_batch(2, 4, {1, 2, 3, 4, 5, 6, 7, 8}, {2, -1, 4, -1, 6, 7, 8, -1}, {0, 0, 2, 2, 0, 0, 0, 3}, {7, 9});
  EXPECT_EQ(batch.positions.to_vector<int32_t>(), (std::vector<int32_t>{0, 1, 0, 1, 0, 1, 2, 0}));
  EXPECT_EQ(batch.rows(), 2);
  EXPECT_EQ(batch.length(), 4);
  EXPECT_EQ(batch.tokens(), 8);
  EXPECT_EQ(batch.valid_targets(), 5);
}

TEST(Batch, WithoutDocumentsEveryRowIsOne) {
  const Batch batch = make_batch(1, 3, {1, 2, 3}, {2, 3, -1}, {}, {0});
  EXPECT_EQ(batch.document_start.to_vector<int32_t>(), (std::vector<int32_t>{0, 0, 0}));
  EXPECT_EQ(batch.positions.to_vector<int32_t>(), (std::vector<int32_t>{0, 1, 2}));
}

TEST(Batch, WrongCountsAndStartsAreErrors) {
  testing::expect_error(Fault::kInternal, {"5 ids", "2 rows of 3"}, [] {
    make_batch(2, 3, {1, 2, 3, 4, 5}, std::vector<int32_t>(6), {}, {0, 1});
  });
  testing::expect_error(Fault::kInternal, {"1 sample ids"}, [] { make_batch(2, 1, {1, 2}, {1, 2}, {}, {0}); });
  testing::expect_error(Fault::kInternal, {"start 2", "position 1"}, [] {
    make_batch(1, 2, {1, 2}, {1, 2}, {0, 2}, {0});
  });
  testing::expect_error(Fault::kInternal, {"start 0", "position 2"}, [] {
    make_batch(1, 3, {1, 2, 3}, {1, 2, 3}, {0, 1, 0}, {0});
  });
}

}  // namespace
}  // namespace longhaul
