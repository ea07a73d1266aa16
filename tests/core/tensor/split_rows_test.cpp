#include "core/tensor/split_rows.h"

#include "tests/core/error_check.h"

namespace longhaul {
namespace {

TEST(SplitRows, CutsDocumentsAndKeepsTheTargetsAcrossTheCut) {
  // Documents 1 2 3 | 4 5 6 7 8 in the first row, one document in the second; cut into rows of two.
  const Batch batch = make_batch(2, 8, {1, 2, 3, 4, 5, 6, 7, 8, 11, 12, 13, 14, 15, 16, 17, 18},
                                 {2, 3, -1, 5, 6, 7, 8, 9, 12, 13, 14, 15, 16, 17, 18, -1},
                                 {0, 0, 0, 3, 3, 3, 3, 3, 0, 0, 0, 0, 0, 0, 0, 0}, {7, 9});
  const Batch pairs = split_rows(batch, 2);
  EXPECT_EQ(pairs.rows(), 8);
  EXPECT_EQ(pairs.length(), 2);
  EXPECT_EQ(pairs.ids.to_vector<int32_t>(), batch.ids.to_vector<int32_t>());
  EXPECT_EQ(pairs.targets.to_vector<int32_t>(), batch.targets.to_vector<int32_t>());
  // Only the second pair, 3 | 4, holds the start of a document behind its own beginning.
  EXPECT_EQ(pairs.document_start.to_vector<int32_t>(),
            (std::vector<int32_t>{0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(pairs.positions.to_vector<int32_t>(),
            (std::vector<int32_t>{0, 1, 0, 0, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1}));
  EXPECT_EQ(pairs.sample_ids, (std::vector<int64_t>{28, 29, 30, 31, 36, 37, 38, 39}));
  const Batch halves = split_rows(batch, 4);
  EXPECT_EQ(halves.document_start.to_vector<int32_t>(),
            (std::vector<int32_t>{0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(halves.sample_ids, (std::vector<int64_t>{14, 15, 18, 19}));
}

TEST(SplitRows, TheWholeLengthChangesNothing) {
  const Batch batch = make_batch(1, 4, {1, 2, 3, 4}, {2, -1, 4, -1}, {0, 0, 2, 2}, {5});
  const Batch same = split_rows(batch, 4);
  EXPECT_EQ(same.ids.to_vector<int32_t>(), batch.ids.to_vector<int32_t>());
  EXPECT_EQ(same.targets.to_vector<int32_t>(), batch.targets.to_vector<int32_t>());
  EXPECT_EQ(same.document_start.to_vector<int32_t>(), batch.document_start.to_vector<int32_t>());
  EXPECT_EQ(same.positions.to_vector<int32_t>(), batch.positions.to_vector<int32_t>());
  EXPECT_EQ(same.sample_ids, batch.sample_ids);
}

TEST(SplitRows, ALengthThatDoesNotDivideIsAnError) {
  const Batch batch = make_batch(1, 4, {1, 2, 3, 4}, {2, 3, 4, -1}, {}, {5});
  testing::expect_error(Fault::kInternal, {"rows of 4", "rows of 3"}, [&] { split_rows(batch, 3); });
  testing::expect_error(Fault::kInternal, {"rows of 0"}, [&] { split_rows(batch, 0); });
}

}  // namespace
}  // namespace longhaul
