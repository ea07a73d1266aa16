// Bad shards of every kind: each refused with its name and the reason, never a wrong token.
#include "data/shards/shard.h"

#include <sys/file.h>

#include "data/shards/dataset.h"
#include "tests/data/data_test_support.h"

namespace longhaul {
namespace {

/// A tokenizer with as many ids as a test wants.
class WideTokenizer final : public Tokenizer {
 public:
  explicit WideTokenizer(int64_t size) : size_(size) {}
  std::string name() const override { return "bytes"; }
  int64_t vocab_size() const override { return size_; }
  int32_t end_of_text() const override { return 0; }
  void encode(std::string_view, std::vector<int32_t>&) override {}
  std::string decode(std::span<const int32_t>) const override { return {}; }
  std::string model_bytes() const override { return {}; }
  std::unique_ptr<Tokenizer> clone() const override { return std::make_unique<WideTokenizer>(size_); }

 private:
  int64_t size_;
};

/// What a hand-made shard says of itself; the manifest made beside it always has the right size and checksum.
struct Forgery {
  H5Type type = H5Type::u16;
  std::vector<int32_t> ids = {1, 2, 3, 0, 4, 0};
  std::vector<int64_t> offsets = {0, 4, 6};
  int64_t vocab_size = 1000, version = 1;
  std::string split = "train", tokenizer = "f";
  bool has_offsets = true;
};

Shard open_forgery(const fs::path& path, const Forgery& forged) {
  Hdf5File file = Hdf5File::create(path);
  const std::vector<uint8_t> small(forged.ids.begin(), forged.ids.end());
  const std::vector<uint16_t> medium(forged.ids.begin(), forged.ids.end());
  const std::vector<int32_t>& large = forged.ids;
  const void* data = forged.type == H5Type::u8    ? static_cast<const void*>(small.data())
                     : forged.type == H5Type::u16 ? static_cast<const void*>(medium.data())
                                                  : large.data();
  const auto tokens = static_cast<int64_t>(forged.ids.size()), entries = static_cast<int64_t>(forged.offsets.size());
  file.write("/tokens", forged.type, {&tokens, 1}, data);
  if (forged.has_offsets) file.write("/document_offsets", H5Type::i64, {&entries, 1}, forged.offsets.data());
  file.set_attribute("/", "version", forged.version);
  file.set_attribute("/", "vocab_size", forged.vocab_size);
  file.set_attribute("/", "end_of_text", int64_t{0});
  file.set_attribute("/", "split", forged.split);
  file.set_attribute("/", "tokenizer", forged.tokenizer);
  file.close();
  const ShardEntry entry{path.filename().string(), "train", digest_file(path), 2, 6};
  TokenizerRecord record;
  record.vocab_size = 1000;
  record.fingerprint = "f";
  check_shard_file(path, entry);
  check_shard_checksum(path, entry);
  return Shard(path, entry, record);
}

TEST(Shard, WriterTakesTheSmallestTypeAndReadsBackExactly) {
  struct Case {
    int64_t vocab_size;
    H5Type type;
    std::vector<int32_t> ids;
  };
  for (const Case& c :
       {Case{256, H5Type::u8, {0, 255}}, Case{257, H5Type::u16, {256, 0}}, Case{65536, H5Type::u16, {65535, 0}},
        Case{65537, H5Type::u32, {65536, 0}}, Case{128256, H5Type::u32, {0, 65535, 65536, 128255}}}) {
    const TemporaryDirectory directory;
    write_dataset(directory / "set", {c.ids}, WideTokenizer(c.vocab_size), 100);
    EXPECT_EQ(Hdf5File::open_read(directory / "set/train-00000.h5").type("/tokens"), c.type) << c.vocab_size;
    Dataset dataset(directory / "set", ShardVerification::kChecksum, 1);
    std::vector<int32_t> read(c.ids.size());
    dataset.shard(0).read(0, read);
    EXPECT_EQ(read, c.ids);
  }
  EXPECT_THROW(token_type_for((int64_t{1} << 31) + 1), Error);
}

TEST(Shard, WriterRefusesIdsOutsideTheVocabulary) {
  const TemporaryDirectory directory;
  for (const int32_t id : {-1, 300}) {
    const auto message = user_error_of([&] { write_dataset(directory / "set", {{5, id}}, WideTokenizer(300), 100); });
    EXPECT_NE(message.find(std::to_string(id)), std::string::npos) << message;
  }
}

TEST(Shard, ReaderRefusesIdsOutsideTheVocabularyNamingShardAndOffset) {
  const TemporaryDirectory directory;
  for (const int32_t id : {1000, 0xFFFF}) {
    Forgery forged;
    forged.ids[4] = id;
    const Shard shard = open_forgery(directory / "s.h5", forged);
    std::vector<int32_t> ids(4);
    shard.read(0, ids);  // the good part is readable
    const auto message = user_error_of([&] { shard.read(2, ids); });
    EXPECT_NE(message.find("s.h5"), std::string::npos) << message;
    EXPECT_NE(message.find("token 4"), std::string::npos) << message;
    EXPECT_NE(message.find(std::to_string(id)), std::string::npos) << message;
  }
}

TEST(Shard, RefusesWhatContradictsTheManifest) {
  const TemporaryDirectory directory;
  const auto refuse = [&](const std::string& reason, const std::function<void(Forgery&)>& change) {
    Forgery forged;
    change(forged);
    const auto message = user_error_of([&] { open_forgery(directory / "s.h5", forged); });
    EXPECT_NE(message.find("s.h5"), std::string::npos) << message;
    EXPECT_NE(message.find(reason), std::string::npos) << message;
  };
  refuse("too small", [](Forgery& f) { f.type = H5Type::u8; });
  refuse("signed", [](Forgery& f) { f.type = H5Type::i32; });
  refuse("vocab_size", [](Forgery& f) { f.vocab_size = 50257; });
  refuse("version", [](Forgery& f) { f.version = 2; });
  refuse("split", [](Forgery& f) { f.split = "valid"; });
  refuse("tokenizer", [](Forgery& f) { f.tokenizer = "other"; });
  refuse("no token shard", [](Forgery& f) { f.has_offsets = false; });
  refuse("tokens", [](Forgery& f) { f.ids.push_back(1); });
  refuse("documents", [](Forgery& f) { f.offsets = {0, 2, 4, 6}; });
  refuse("does not rise", [](Forgery& f) { f.offsets = {0, 6, 6}; });
  refuse("does not rise", [](Forgery& f) { f.offsets = {0, 7, 6}; });
  refuse("document offsets run", [](Forgery& f) { f.offsets = {1, 4, 6}; });
  refuse("document offsets run", [](Forgery& f) { f.offsets = {0, 4, 5}; });
}

TEST(Shard, FindsTheDocumentOfAToken) {
  const TemporaryDirectory directory;
  const Shard shard = open_forgery(directory / "s.h5", {});
  EXPECT_EQ(shard.documents(), 2);
  EXPECT_EQ(shard.document_of(0), 0);
  EXPECT_EQ(shard.document_of(3), 0);
  EXPECT_EQ(shard.document_of(4), 1);
  EXPECT_EQ(shard.document_of(5), 1);
}

class BadShardFile : public testing::Test {
 protected:
  void SetUp() override {
    write_dataset(set(), numbered_documents(300, 40), ByteTokenizer(), 2000);
    content_ = read_file(shard());
  }
  fs::path set() const { return directory_ / "set"; }
  fs::path shard() const { return set() / "train-00001.h5"; }
  void replace(const std::string& content) {
    fs::remove_all(shard());
    write_text(shard(), content);
  }
  /// Opens the dataset and its second shard; the message of the refusal must name the shard.
  std::string refusal() {
    const auto message = user_error_of([&] {
      Dataset dataset(set(), ShardVerification::kChecksum, 2);
      dataset.shard(1);
    });
    EXPECT_NE(message.find("train-00001.h5"), std::string::npos) << message;
    return message;
  }

  TemporaryDirectory directory_;
  std::string content_;
};

TEST_F(BadShardFile, TruncatedAnywhere) {
  for (const size_t size : {size_t{0}, size_t{96}, size_t{2048}, content_.size() - 1}) {
    replace(content_.substr(0, size));
    EXPECT_NE(refusal().find("truncated"), std::string::npos);
  }
}

TEST_F(BadShardFile, OneBitFlippedAnywhere) {
  for (size_t at = 0; at < content_.size(); at += content_.size() / 37) {
    std::string damaged = content_;
    damaged[at] = static_cast<char>(damaged[at] ^ 1 << at % 8);
    replace(damaged);
    EXPECT_NE(refusal().find("checksum"), std::string::npos) << "byte " << at;
  }
}

TEST_F(BadShardFile, ForeignContent) {
  replace("just text");
  refusal();
  replace(std::string(content_.size(), 'x'));
  EXPECT_NE(refusal().find("checksum"), std::string::npos);
  fs::remove(shard());
  fs::create_directory(shard());
  EXPECT_NE(refusal().find("directory"), std::string::npos);
  fs::remove(shard());
  fs::create_symlink("nowhere.h5", shard());
  EXPECT_NE(refusal().find("dangling link"), std::string::npos);
  fs::remove(shard());
  EXPECT_NE(refusal().find("missing"), std::string::npos);
  write_text(shard().string() + ".tmp", "part");
  EXPECT_NE(refusal().find("shard is being written"), std::string::npos);
}

TEST_F(BadShardFile, AnotherShardUnderItsName) {
  fs::copy_file(set() / "train-00000.h5", shard(), fs::copy_options::overwrite_existing);
  refusal();
}

TEST_F(BadShardFile, HeldByAWriter) {
  const File writer = File::open_append(shard());
  ASSERT_EQ(::flock(writer.descriptor(), LOCK_EX | LOCK_NB), 0);
  EXPECT_NE(refusal().find("shard is being written"), std::string::npos);
}

}  // namespace
}  // namespace longhaul
