// Target masks from shards to batches.
#include <algorithm>

#include "data/shards/dataset.h"
#include "data/shards/description.h"
#include "data/shards/shard.h"
#include "data/shards/verification.h"
#include "data/stream/token_stream.h"
#include "tests/data/data_test_support.h"

namespace longhaul {
namespace {

constexpr int32_t kEnd = ByteTokenizer::kEndOfText;
using Ids = std::vector<int32_t>;
using Mask = std::vector<uint8_t>;

const std::vector<Ids> kDocuments = {{1, 2, kEnd}, {3, 4, 5, 6, 7, kEnd}, {8, kEnd}};
const std::vector<Mask> kMasks = {{1, 0, 1}, {1, 0, 1, 1, 0, 0}, {0, 1}};

class TargetMask : public testing::Test {
 protected:
  DatasetChoice make(const std::string& name, const std::vector<Ids>& documents, const std::vector<Mask>& masks,
                     int64_t shard_tokens = 1000, const std::string& split = "train") {
    write_dataset(directory_ / name, documents, ByteTokenizer(), shard_tokens, split, masks);
    return {directory_ / name, 1};
  }
  static DataConfig config(std::vector<DatasetChoice> datasets, int64_t context, bool document_mask = true) {
    DataConfig config;
    config.datasets = std::move(datasets);
    config.context = context;
    config.shuffle = false;
    config.document_mask = document_mask;
    return config;
  }
  TemporaryDirectory directory_;
};

TEST_F(TargetMask, HidesTheTokensItExcludesAndNoOthers) {
  // Rows of 4, as packed: [1 2 E 3] [4 5 6 7] [E 8 E .]; the mask of a token decides about the place before it.
  const Ids packed = {1, 2, kEnd, 3, 4, 5, 6, 7, kEnd, 8, kEnd, kEnd};
  for (const int64_t shard_tokens : {1000, 4}) {  // one shard; two, cut between documents
    const auto choice = make(fmt::format("s{}", shard_tokens), kDocuments, kMasks, shard_tokens);
    TokenStream stream(config({choice}, 4));
    const Batch batch = stream.rows(0, 3);
    EXPECT_EQ(batch.ids.to_vector<int32_t>(), packed);
    EXPECT_EQ(batch.targets.to_vector<int32_t>(), (Ids{-1, kEnd, -1, -1, 5, 6, -1, -1, -1, kEnd, -1, -1}));
    EXPECT_EQ(batch.document_start.to_vector<int32_t>(), (Ids{0, 0, 0, 3, 0, 0, 0, 0, 0, 1, 1, 3}));
    TokenStream seeing(config({choice}, 4, false));  // first tokens of documents are targets too, if their masks say so
    EXPECT_EQ(seeing.rows(0, 3).targets.to_vector<int32_t>(), (Ids{-1, kEnd, 3, -1, 5, 6, -1, -1, -1, kEnd, -1, -1}));
  }
}

TEST_F(TargetMask, FollowsItsTokensThroughAnyCut) {
  const auto documents = numbered_documents(60, 11);
  std::vector<Mask> masks;
  for (const Ids& document : documents) {
    Mask mask;
    for (size_t t = 0; t < document.size(); ++t) mask.push_back((document[t] + static_cast<int32_t>(t)) % 3 == 0);
    masks.push_back(mask);
  }
  const auto plain = make("plain", documents, {}), whole = make("whole", documents, masks),
             cut = make("cut", documents, masks, 20);
  Mask all;
  for (const Mask& mask : masks) all.insert(all.end(), mask.begin(), mask.end());
  for (const int64_t context : {5, 7, 64}) {
    for (const bool document_mask : {true, false}) {
      TokenStream bare(config({plain}, context, document_mask)), one(config({whole}, context, document_mask)),
          many(config({cut}, context, document_mask));
      const int64_t rows = bare.rows_per_epoch(0);
      Ids expected = bare.rows(0, rows).targets.to_vector<int32_t>();
      for (size_t t = 0; t < expected.size(); ++t) {
        if (t + 1 < all.size() && all[t + 1] == 0) expected[t] = -1;
      }
      EXPECT_EQ(one.rows(0, rows).targets.to_vector<int32_t>(), expected);
      EXPECT_EQ(many.rows(0, rows).targets.to_vector<int32_t>(), expected);
    }
  }
}

TEST_F(TargetMask, DatasetsWithAndWithoutMix) {
  const auto masked = make("masked", kDocuments, kMasks), plain = make("plain", kDocuments, {});
  TokenStream stream(config({masked, plain}, 4));
  for (int64_t sample = 0; sample < 6; ++sample) {
    const SampleOrigin origin = stream.origin(sample);
    TokenStream alone(config({origin.dataset == 0 ? masked : plain}, 4));
    EXPECT_EQ(stream.rows(sample, 1).targets.to_vector<int32_t>(),
              alone.rows(origin.row, 1).targets.to_vector<int32_t>());
  }
}

TEST_F(TargetMask, ValidationCountsAllowedTargetsOnly) {
  ValidationSet set(config({make("v", kDocuments, kMasks, 1000, "valid")}, 4));
  int64_t targets = 0;
  for (int64_t row = 0; row < set.rows_total(); ++row) targets += set.rows(row, 1).valid_targets();
  EXPECT_EQ(targets, 4);  // the masks allow 6, of which 2 begin their documents
}

TEST_F(TargetMask, IsShownAndRecorded) {
  make("masked", kDocuments, kMasks);
  make("plain", kDocuments, {});
  const Manifest masked = read_manifest(directory_ / "masked"), plain = read_manifest(directory_ / "plain");
  EXPECT_EQ(masked.shards[0].targets, 6);
  EXPECT_FALSE(plain.shards[0].targets.has_value());
  // Programs that know no masks must refuse the first and read the second.
  EXPECT_NE(masked.to_json().find("\"version\": 2"), std::string::npos);
  EXPECT_NE(plain.to_json().find("\"version\": 1"), std::string::npos);
  EXPECT_EQ(plain.to_json().find("targets"), std::string::npos);
  const std::string text = describe_dataset(directory_ / "masked");
  EXPECT_NE(text.find("6 targets by the target masks of 1 shards"), std::string::npos) << text;
  EXPECT_NE(text.find("mask  1 0 1 1 0 1 1 0 0 0 1"), std::string::npos) << text;
  EXPECT_EQ(describe_dataset(directory_ / "plain").find("mask"), std::string::npos);
  EXPECT_TRUE(verify_dataset(directory_ / "masked").problems.empty());
}

/// Makes the masked dataset, then lets `change` alter its only shard; the manifest is kept true to the new file's
/// bytes.
class BadTargetMask : public TargetMask {
 protected:
  std::string problem(const std::function<void(const fs::path&, ShardEntry&)>& change) {
    const fs::path set = directory_ / fmt::format("set{}", sets_++);
    Manifest manifest = write_dataset(set, kDocuments, ByteTokenizer(), 1000, "train", kMasks);
    const fs::path shard = set / manifest.shards[0].name;
    change(shard, manifest.shards[0]);
    manifest.shards[0].digest = digest_file(shard);
    write_file_durably(set / Manifest::kFileName, manifest.to_json());
    const VerificationReport report = verify_dataset(set);
    EXPECT_EQ(report.problems.size(), 1u);
    if (report.problems.empty()) return {};
    EXPECT_NE(report.problems[0].find("train-00000.h5"), std::string::npos) << report.problems[0];
    EXPECT_EQ(report.problems[0].find('\n'), std::string::npos);
    return report.problems[0];
  }
  /// The shard again, with another mask dataset (or none).
  static void rewrite(const fs::path& shard, const std::vector<uint8_t>& mask, bool attribute = true) {
    Hdf5File file = Hdf5File::create(shard);
    std::vector<uint16_t> ids;
    std::vector<int64_t> offsets = {0};
    for (const Ids& document : kDocuments) {
      ids.insert(ids.end(), document.begin(), document.end());
      offsets.push_back(static_cast<int64_t>(ids.size()));
    }
    const auto tokens = static_cast<int64_t>(ids.size()), entries = static_cast<int64_t>(offsets.size()),
               length = static_cast<int64_t>(mask.size());
    file.write("/tokens", H5Type::u16, {&tokens, 1}, ids.data());
    file.write("/document_offsets", H5Type::i64, {&entries, 1}, offsets.data());
    if (!mask.empty()) file.write("/target_mask", H5Type::u8, {&length, 1}, mask.data());
    if (attribute) file.set_attribute("/", "targets", int64_t{6});
    file.set_attribute("/", "version", int64_t{1});
    file.set_attribute("/", "vocab_size", int64_t{257});
    file.set_attribute("/", "end_of_text", int64_t{kEnd});
    file.set_attribute("/", "tokenizer", ByteTokenizer().fingerprint());
    file.set_attribute("/", "split", std::string("train"));
    file.close();
  }
  int sets_ = 0;
};

TEST_F(BadTargetMask, IsOneClearLine) {
  const Mask good = {1, 0, 1, 1, 0, 1, 1, 0, 0, 0, 1};
  const auto with = [&](Mask mask, bool attribute = true) {
    return problem([&](const fs::path& shard, ShardEntry&) { rewrite(shard, mask, attribute); });
  };
  Mask shorter = good, longer = good, other = good, wrong = good;
  shorter.pop_back();
  longer.push_back(0);
  other[1] = 1;
  wrong[4] = 7;
  EXPECT_NE(with(shorter).find("a target mask of 10 entries of 1 bytes, expected 11"), std::string::npos);
  EXPECT_NE(with(longer).find("a target mask of 12 entries"), std::string::npos);
  EXPECT_NE(with(other).find("allows 7 targets, the manifest says 6"), std::string::npos);
  EXPECT_NE(with(wrong).find("the target mask of token 4 is 7, expected 0 or 1"), std::string::npos);
  EXPECT_NE(with({}, false).find("has no target mask, the manifest says one"), std::string::npos);
  EXPECT_NE(with({}).find("found one of them"), std::string::npos);
  EXPECT_NE(with(good, false).find("found one of them"), std::string::npos);
  EXPECT_NE(problem([](const fs::path&, ShardEntry& entry) { entry.targets.reset(); }).find("the manifest says none"),
            std::string::npos);
  EXPECT_NE(problem([](const fs::path&, ShardEntry& entry) { entry.targets = 5; }).find("targets is 6"),
            std::string::npos);
}

TEST_F(BadTargetMask, ManifestWithMoreTargetsThanTokensIsRefused) {
  Manifest manifest = write_dataset(directory_ / "set", kDocuments, ByteTokenizer(), 1000, "train", kMasks);
  manifest.shards[0].targets = 12;
  const auto message = user_error_of([&] { Manifest::from_json(manifest.to_json(), "m.json"); });
  EXPECT_NE(message.find("12 targets among 11 tokens"), std::string::npos) << message;
}

TEST_F(BadTargetMask, WriterInsistsOnOneEntryPerToken) {
  EXPECT_THROW(write_dataset(directory_ / "a", {{1, kEnd}}, ByteTokenizer(), 100, "train", {{1}}), Error);
  EXPECT_THROW(write_dataset(directory_ / "b", {{1, kEnd}}, ByteTokenizer(), 100, "train", {{1, 2}}), Error);
}

}  // namespace
}  // namespace longhaul
