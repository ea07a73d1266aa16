// More than 2^32 tokens: a sparse shard with real tokens only at its end.
#include "data/stream/token_stream.h"
#include "tests/core/io/hdf5_sparse_dataset.h"
#include "tests/data/data_test_support.h"

namespace longhaul {
namespace {

void write_sparse_shard(const fs::path& path, int64_t tokens, const std::vector<uint16_t>& tail,
                        const std::vector<int64_t>& offsets, const std::string& tokenizer) {
  Hdf5File file = Hdf5File::create(path);
  const auto entries = static_cast<int64_t>(offsets.size());
  file.write("/document_offsets", H5Type::i64, {&entries, 1}, offsets.data());
  file.set_attribute("/", "version", 1);
  file.set_attribute("/", "vocab_size", 257);
  file.set_attribute("/", "end_of_text", 256);
  file.set_attribute("/", "split", std::string("train"));
  file.set_attribute("/", "tokenizer", tokenizer);
  file.close();
  add_sparse_dataset(path, "/tokens", tokens, tail);
}

TEST(LargeOffsets, TheLastTokensOfAHugeShardComeBackExactly) {
  const TemporaryDirectory directory;
  const fs::path set = directory / "set";
  Manifest manifest = write_dataset(set, {{256}}, ByteTokenizer(), 10);
  const int64_t tokens = (int64_t{1} << 32) + 1003;
  write_sparse_shard(set / "train-00000.h5", tokens, {7, 8, 9, 256, 10, 11, 256}, {0, tokens - 3, tokens},
                     manifest.tokenizer.fingerprint);
  manifest.shards[0].digest = digest_file(set / "train-00000.h5");
  manifest.shards[0].documents = 2;
  manifest.shards[0].tokens = tokens;
  write_file_durably(set / Manifest::kFileName, manifest.to_json());
  DataConfig config;
  config.datasets = {{set, 1}};
  config.context = 10;
  config.shuffle = false;
  TokenStream stream(config);
  const int64_t rows = stream.rows_per_epoch(0);
  EXPECT_EQ(rows, (tokens + 9) / 10);
  const int64_t last = tokens - (rows - 1) * 10;  // real tokens of the last row
  const Batch batch = stream.rows(rows - 2, 2);
  std::vector<int32_t> ids = batch.ids.to_vector<int32_t>();
  ids.resize(static_cast<size_t>(10 + last));
  EXPECT_EQ(std::vector<int32_t>(ids.end() - 8, ids.end()), (std::vector<int32_t>{0, 7, 8, 9, 256, 10, 11, 256}));
  EXPECT_EQ(stream.rows(0, 1).ids.to_vector<int32_t>(), std::vector<int32_t>(10, 0));
}

}  // namespace
}  // namespace longhaul
