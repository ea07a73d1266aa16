#include "data/stream/token_stream.h"

#include <map>
#include <random>
#include <set>

#include "data/shards/dataset.h"
#include "tests/data/data_test_support.h"

namespace longhaul {
namespace {

constexpr int32_t kEnd = ByteTokenizer::kEndOfText;
using Ids = std::vector<int32_t>;

class TokenStreamTest : public testing::Test {
 protected:
  DatasetChoice make(const std::string& name, const std::vector<Ids>& documents, int64_t shard_tokens = 1000,
                     const std::string& split = "train", double weight = 1) {
    write_dataset(directory_ / name, documents, ByteTokenizer(), shard_tokens, split);
    return {directory_ / name, weight};
  }
  DataConfig config(std::vector<DatasetChoice> datasets, int64_t context) {
    DataConfig config;
    config.datasets = std::move(datasets);
    config.context = context;
    config.open_shards = 2;
    return config;
  }
  TemporaryDirectory directory_;
};

TEST_F(TokenStreamTest, PacksDocumentsByTheWrittenRule) {
  // Documents of 3, 6 and 2 tokens in rows of 4: [1 2 E 3] [4 5 6 7] [E 8 E .]
  DataConfig data = config({make("a", {{1, 2, kEnd}, {3, 4, 5, 6, 7, kEnd}, {8, kEnd}}, 4)}, 4);
  data.shuffle = false;
  TokenStream stream(data);
  ASSERT_EQ(stream.rows_per_epoch(0), 3);
  const Batch batch = stream.rows(0, 3);
  EXPECT_EQ(batch.ids.to_vector<int32_t>(), (Ids{1, 2, kEnd, 3, 4, 5, 6, 7, kEnd, 8, kEnd, kEnd}));
  EXPECT_EQ(batch.targets.to_vector<int32_t>(), (Ids{2, kEnd, -1, 4, 5, 6, 7, kEnd, -1, kEnd, -1, -1}));
  EXPECT_EQ(batch.document_start.to_vector<int32_t>(), (Ids{0, 0, 0, 3, 0, 0, 0, 0, 0, 1, 1, 3}));
  EXPECT_EQ(batch.positions.to_vector<int32_t>(), (Ids{0, 1, 2, 0, 0, 1, 2, 3, 0, 0, 1, 0}));
  EXPECT_EQ(batch.sample_ids, (std::vector<int64_t>{0, 1, 2}));
}

TEST_F(TokenStreamTest, WithoutMasksDocumentsSeeEachOther) {
  DataConfig data = config({make("a", {{1, 2, kEnd}, {3, 4, 5, 6, 7, kEnd}, {8, kEnd}}, 4)}, 4);
  data.shuffle = false;
  data.document_mask = false;
  TokenStream stream(data);
  const Batch batch = stream.rows(0, 3);
  EXPECT_EQ(batch.targets.to_vector<int32_t>(), (Ids{2, kEnd, 3, 4, 5, 6, 7, kEnd, 8, kEnd, -1, -1}));
  EXPECT_EQ(batch.document_start.to_vector<int32_t>(), Ids(12, 0));
}

TEST_F(TokenStreamTest, ShardBoundariesDoNotShow) {
  const auto documents = numbered_documents(200, 30);
  DataConfig whole = config({make("whole", documents, 1 << 20)}, 16);
  DataConfig cut = config({make("cut", documents, 50)}, 16);
  for (const bool mask : {true, false}) {
    whole.document_mask = cut.document_mask = mask;
    TokenStream one(whole), many(cut);
    for (int64_t sample = 0; sample < one.rows_per_epoch(0); ++sample) {
      const Batch a = one.rows(sample, 1), b = many.rows(sample, 1);
      EXPECT_EQ(a.ids.to_vector<int32_t>(), b.ids.to_vector<int32_t>());
      EXPECT_EQ(a.targets.to_vector<int32_t>(), b.targets.to_vector<int32_t>());
      EXPECT_EQ(a.document_start.to_vector<int32_t>(), b.document_start.to_vector<int32_t>());
    }
  }
}

TEST_F(TokenStreamTest, EveryTokenIsUsedOncePerEpochHoweverTheRunIsCut) {
  DataConfig data = config({make("a", numbered_documents(120, 25), 300), make("b", numbered_documents(40, 9), 60)}, 8);
  data.datasets[0].weight = 3;
  TokenStream clean(data);
  const int64_t samples = 3 * 4 * clean.rows_per_epoch(0) / 3;  // three epochs of the first dataset
  std::vector<Ids> expected;
  std::map<std::pair<int64_t, int64_t>, std::multiset<int64_t>> used;  // (dataset, epoch) -> rows
  for (int64_t sample = 0; sample < samples; ++sample) {
    expected.push_back(clean.rows(sample, 1).ids.to_vector<int32_t>());
    const SampleOrigin origin = clean.origin(sample);
    used[{origin.dataset, origin.epoch}].insert(origin.row);
  }
  for (int64_t epoch = 0; epoch < 2; ++epoch) {
    const auto& rows = used[{0, epoch}];
    EXPECT_EQ(static_cast<int64_t>(rows.size()), clean.rows_per_epoch(0));
    EXPECT_EQ(std::set<int64_t>(rows.begin(), rows.end()).size(), rows.size());
  }
  std::mt19937 random(1);
  for (int schedule = 0; schedule < 25; ++schedule) {
    std::map<int64_t, Ids> consumed;
    int64_t position = 0;  // the whole state: it alone survives a stop
    while (position < samples) {
      const int64_t ranks = int64_t{1} << random() % 3, slots = 4;
      std::vector<TokenStream> streams;
      for (int64_t rank = 0; rank < ranks; ++rank) streams.emplace_back(data);
      const int64_t steps = 1 + random() % 40;
      for (int64_t step = 0; step < steps && position < samples; ++step, position += slots) {
        for (int64_t rank = ranks - 1; rank >= 0; --rank) {  // any order of the ranks
          const Batch batch = streams[static_cast<size_t>(rank)].rows(position + rank * slots / ranks, slots / ranks);
          const Ids ids = batch.ids.to_vector<int32_t>();
          for (size_t row = 0; row < batch.sample_ids.size(); ++row) {
            const auto inserted = consumed.emplace(
                batch.sample_ids[row],
                Ids(ids.begin() + static_cast<int64_t>(row) * 8, ids.begin() + static_cast<int64_t>(row) * 8 + 8));
            EXPECT_TRUE(inserted.second) << "sample " << batch.sample_ids[row] << " twice";
          }
        }
      }
    }
    for (int64_t sample = 0; sample < samples; ++sample) {
      ASSERT_EQ(consumed[sample], expected[static_cast<size_t>(sample)]) << "sample " << sample;
    }
  }
}

TEST_F(TokenStreamTest, OrderFollowsTheSeedAndChangesWithTheEpoch) {
  DataConfig data = config({make("a", numbered_documents(120, 25))}, 8);
  const TokenStream one(data), same(data);
  data.seed = 2;
  const TokenStream other(data);
  const int64_t rows = one.rows_per_epoch(0);
  int64_t equal_seed = 0, equal_epoch = 0;
  for (int64_t sample = 0; sample < rows; ++sample) {
    EXPECT_EQ(one.origin(sample).row, same.origin(sample).row);
    equal_seed += one.origin(sample).row == other.origin(sample).row;
    equal_epoch += one.origin(sample).row == one.origin(sample + rows).row;
  }
  EXPECT_LT(equal_seed, rows / 4);
  EXPECT_LT(equal_epoch, rows / 4);
}

TEST_F(TokenStreamTest, RefusesWhatCannotFeedATraining) {
  const DatasetChoice good = make("a", numbered_documents(20, 5));
  EXPECT_NE(user_error_of([&] { TokenStream(config({}, 8)); }).find("data.datasets"), std::string::npos);
  EXPECT_NE(user_error_of([&] { TokenStream(config({good}, 8), "valid"); }).find("split valid has 0 tokens"),
            std::string::npos);
  EXPECT_NE(user_error_of([&] { ValidationSet(config({good}, 8)); }).find("split valid has 0 tokens"),
            std::string::npos);
  EXPECT_NE(user_error_of([&] { TokenStream(config({good}, 0)); }).find("data.context"), std::string::npos);
  EXPECT_NE(user_error_of([&] { TokenStream(config({{good.directory, -1}}, 8)); }).find("weight"), std::string::npos);
  EXPECT_NE(user_error_of([&] { TokenStream(config({{directory_ / "none", 1}}, 8)); }).find("none"), std::string::npos);
}

TEST_F(TokenStreamTest, RefusesDatasetsOfDifferentTokenizers) {
  const DatasetChoice bytes = make("a", numbered_documents(20, 5)), other = make("b", numbered_documents(20, 5));
  Manifest manifest = read_manifest(other.directory);
  manifest.tokenizer.fingerprint = "another";
  write_file_durably(other.directory / Manifest::kFileName, manifest.to_json());
  const auto message = user_error_of([&] { TokenStream(config({bytes, other}, 8)); });
  EXPECT_NE(message.find("different tokenizers"), std::string::npos) << message;
}

TEST_F(TokenStreamTest, ShardsWithoutDocumentsAreSkippedAndCounted) {
  const DatasetChoice choice = make("a", numbered_documents(30, 6), 40);
  TokenStream before(config({choice}, 8));
  const Batch expected = before.rows(0, 5);
  Manifest manifest = read_manifest(choice.directory);
  ShardEntry empty = manifest.shards[1];
  empty.name = "train-00099.h5";
  empty.documents = empty.tokens = 0;
  fs::copy_file(choice.directory / manifest.shards[1].name, choice.directory / empty.name);
  manifest.shards.insert(manifest.shards.begin() + 1, empty);
  write_file_durably(choice.directory / Manifest::kFileName, manifest.to_json());
  TokenStream stream(config({choice}, 8));
  EXPECT_EQ(before.skipped_empty_shards(), 0);
  EXPECT_EQ(stream.skipped_empty_shards(), 1);
  EXPECT_EQ(stream.rows(0, 5).ids.to_vector<int32_t>(), expected.ids.to_vector<int32_t>());
}

TEST_F(TokenStreamTest, DocumentsShorterThanTheContextFillOneRow) {
  TokenStream stream(config({make("a", {{5, kEnd}})}, 64));
  const Batch batch = stream.rows(0, 2);  // two epochs of the one row
  EXPECT_EQ(batch.valid_targets(), 2);
  EXPECT_EQ(batch.ids.to_vector<int32_t>()[0], 5);
}

TEST_F(TokenStreamTest, FingerprintFollowsContentWeightAndOrder) {
  const DatasetChoice a = make("a", numbered_documents(20, 5)), b = make("b", numbered_documents(21, 5));
  const std::string base = data_fingerprint(config({a, b}, 8));
  EXPECT_EQ(data_fingerprint(config({a, b}, 8)), base);
  EXPECT_NE(data_fingerprint(config({b, a}, 8)), base);
  EXPECT_NE(data_fingerprint(config({a}, 8)), base);
  EXPECT_NE(data_fingerprint(config({a, {b.directory, 2}}, 8)), base);
}

TEST(DatasetChoices, ParseDirectoriesAndWeights) {
  const auto choices = parse_dataset_choices("data/a=3, data/b=b=0.5,data/c");
  ASSERT_EQ(choices.size(), 3u);
  EXPECT_EQ(choices[0].directory, "data/a");
  EXPECT_EQ(choices[0].weight, 3);
  EXPECT_EQ(choices[1].directory, "data/b=b");
  EXPECT_EQ(choices[1].weight, 0.5);
  EXPECT_EQ(choices[2].weight, 1);
  for (const char* bad : {"", "a,,b", "a=", "a=x", "a=0", "a=-1", "=2", "a,"}) {
    user_error_of([&] { parse_dataset_choices(bad); });
  }
}

class ValidationSetTest : public TokenStreamTest {};

TEST_F(ValidationSetTest, CountsEveryTokenOnceWhateverTheBatch) {
  const auto documents = numbered_documents(11, 7);
  Ids all;
  for (const Ids& document : documents) all.insert(all.end(), document.begin(), document.end());
  ValidationSet set(config({make("a", documents, 15, "valid")}, 5));
  EXPECT_EQ(set.tokens_total(), static_cast<int64_t>(all.size()));
  for (const int64_t count : {1, 2, 3, 4, 7}) {
    Ids ids;
    int64_t targets = 0;
    for (int64_t row = 0; row < set.rows_total(); row += count) {
      const Batch batch = set.rows(row, count);
      const Ids part = batch.ids.to_vector<int32_t>();
      ids.insert(ids.end(), part.begin(), part.end());
      targets += batch.valid_targets();
    }
    EXPECT_EQ(targets, static_cast<int64_t>(all.size() - documents.size())) << "batch of " << count;
    ids.resize(all.size());
    EXPECT_EQ(ids, all);
  }
}

TEST_F(ValidationSetTest, RowsPastTheEndArePadding) {
  ValidationSet set(config({make("a", {{1, 2, kEnd}}, 15, "valid"), make("b", {{3, kEnd}}, 15, "valid")}, 4));
  ASSERT_EQ(set.rows_total(), 2);
  const Batch batch = set.rows(1, 3);
  EXPECT_EQ(batch.targets.to_vector<int32_t>(), (Ids{kEnd, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1}));
  EXPECT_EQ(batch.ids.to_vector<int32_t>(), (Ids{3, kEnd, kEnd, kEnd, kEnd, kEnd, kEnd, kEnd, kEnd, kEnd, kEnd, kEnd}));
}

}  // namespace
}  // namespace longhaul
