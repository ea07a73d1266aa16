#include "parallel/checkpoint_manifest.h"

#include <gmock/gmock.h>

#include "kernels/error.h"
#include "parallel/checkpoint_table.h"
#include "tests/parallel/checkpoint_fixture.h"

namespace longhaul {
namespace {

using testing::error_of;
using ::testing::HasSubstr;

CheckpointManifest small_manifest() {
  CheckpointManifest manifest;
  manifest.run_id = "0123456789abcdef";
  manifest.step = 20;
  manifest.extras = {"hash", "text \"quoted\"\n", 3'000'000'000, "{\"a\":[1,0.1]}", "{\"weights\":\"raw\"}"};
  manifest.files = {{"rank_00000_of_00002.h5", {100, "aa"}}, {"rank_00001_of_00002.h5", {101, "bb"}}};
  manifest.tensors["parameter/w"] = {Shape({2, 3}), DType::f32, {{0, 0, 4}, {1, 4, 2}}};
  manifest.tensors["empty"] = {Shape({0, 3}), DType::i64, {}};
  return manifest;
}

TEST(CheckpointManifest, DecodesWhatItEncoded) {
  const CheckpointManifest manifest = small_manifest();
  EXPECT_EQ(CheckpointManifest::decode(manifest.encode(), "m"), manifest);
  EXPECT_EQ(manifest.tensor_bytes(), 24);
}

TEST(CheckpointManifest, EveryChangedByteAndEveryCutIsRejected) {
  const std::string text = small_manifest().encode();
  for (size_t at = 0; at < text.size(); ++at) {
    for (const char mask : {1, 4, 32}) {
      std::string mutant = text;
      mutant[at] = static_cast<char>(mutant[at] ^ mask);
      EXPECT_THROW(CheckpointManifest::decode(mutant, "m"), Error) << mutant;
    }
    EXPECT_THROW(CheckpointManifest::decode(text.substr(0, at), "m"), Error) << at;
  }
  EXPECT_THROW(CheckpointManifest::decode(text + " ", "m"), Error);
}

TEST(CheckpointManifest, CoverageIsCheckedBeforeWriting) {
  const auto problem = [](std::vector<TensorPiece> pieces) {
    CheckpointManifest manifest = small_manifest();
    manifest.tensors["parameter/w"].pieces = std::move(pieces);
    return error_of([&] { manifest.encode(); });
  };
  EXPECT_THAT(problem({{0, 0, 4}}), HasSubstr("lacks elements [4, 6)"));
  EXPECT_THAT(problem({{0, 1, 5}}), HasSubstr("lacks elements [0, 1)"));
  EXPECT_THAT(problem({{0, 0, 4}, {1, 3, 3}}), HasSubstr("holds element 3 twice"));
  EXPECT_THAT(problem({{0, 0, 4}, {1, 4, 3}}), HasSubstr("beyond its end"));
  EXPECT_THAT(problem({{0, 0, 4}, {2, 4, 2}}), HasSubstr("names file 2"));
}

TEST(CheckpointTable, MergesRanksAndNoticesDisagreement) {
  RankTable first{{"a.h5", {1, "aa"}}, {{"w", Shape({2, 3}), DType::f32, 4, 2}}};
  RankTable second{{"b.h5", {2, "bb"}},
                   {{"w", Shape({2, 3}), DType::f32, 0, 4}, {"none", Shape({1}), DType::f32, 1, 0}}};
  const std::vector<RankTable> tables{RankTable::decode(first.encode()), RankTable::decode(second.encode())};
  CheckpointManifest manifest;
  merge_tables(tables, manifest);
  EXPECT_EQ(manifest.tensors["w"].pieces, (std::vector<TensorPiece>{{1, 0, 4}, {0, 4, 2}}));
  EXPECT_TRUE(manifest.tensors["none"].pieces.empty());

  second.pieces[0].shape = Shape({3, 2});
  CheckpointManifest other;
  EXPECT_THAT(error_of([&] { merge_tables(std::vector<RankTable>{first, second}, other); }), HasSubstr("[3, 2]"));
}

}  // namespace
}  // namespace longhaul
