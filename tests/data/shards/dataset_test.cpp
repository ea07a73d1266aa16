#include "data/shards/dataset.h"

#include <sys/wait.h>

#include <cstdio>
#include <ctime>
#include <iterator>

#include "tests/data/data_test_support.h"

namespace longhaul {
namespace {

Manifest many_shards(const fs::path& directory, int64_t count) {
  Manifest manifest = write_dataset(directory, numbered_documents(8, 5), ByteTokenizer(), 1000);
  const ShardEntry first = manifest.shards.front();
  for (int64_t i = 1; i < count; ++i) {
    ShardEntry entry = first;
    entry.name = fmt::format("train-{:05}.h5", i);
    fs::create_hard_link(directory / first.name, directory / entry.name);
    manifest.shards.push_back(entry);
  }
  write_file_durably(directory / Manifest::kFileName, manifest.to_json());
  return manifest;
}

TEST(Dataset, KeepsFewFilesOpen) {
  const TemporaryDirectory directory;
  many_shards(directory / "set", 9);
  Dataset dataset(directory / "set", ShardVerification::kChecksum, 3);
  EXPECT_EQ(dataset.open_count(), 0);
  for (int64_t i = 0; i < 18; ++i) {
    EXPECT_EQ(dataset.shard(i * 5 % 9).documents(), 8);
    EXPECT_LE(dataset.open_count(), 3);
  }
}

int64_t open_files() {
  const fs::directory_iterator entries("/proc/self/fd");
  return std::distance(begin(entries), end(entries));
}

// The time it takes is shown, not asserted: it must stay under a second on an idle machine.
TEST(Dataset, TenThousandShardsOpenFromTheManifestAlone) {
  const TemporaryDirectory directory;
  many_shards(directory / "set", 10000);
  const int64_t before = open_files();
  const std::clock_t start = std::clock();
  Dataset dataset(directory / "set", ShardVerification::kChecksum, 4);
  std::printf("10,000 shards: %.3f s of processor time\n", static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC);
  EXPECT_EQ(open_files(), before);
  EXPECT_EQ(dataset.shards_of("train").size(), 10000u);
  EXPECT_EQ(dataset.shard(9999).documents(), 8);
}

TEST(Dataset, ChecksTheChecksumOncePerProcess) {
  const TemporaryDirectory directory;
  many_shards(directory / "set", 3);
  Dataset dataset(directory / "set", ShardVerification::kChecksum, 1);
  dataset.shard(0);
  std::string damaged = read_file(directory / "set/train-00000.h5");
  char& unused = damaged[damaged.size() / 2];  // in the chunk of tokens, behind the few that are there
  unused = static_cast<char>(unused ^ 1);
  dataset.shard(1);  // closes shard 0
  fs::remove(directory / "set/train-00000.h5");
  write_text(directory / "set/train-00000.h5", damaged);
  dataset.shard(0);  // seen before in this process
  Dataset fresh(directory / "set", ShardVerification::kChecksum, 1);
  EXPECT_NE(user_error_of([&] { fresh.shard(0); }).find("checksum"), std::string::npos);
  Dataset trusting(directory / "set", ShardVerification::kSize, 1);
  trusting.shard(0);
}

TEST(Dataset, WorksOnReadOnlyDirectories) {
  const TemporaryDirectory directory;
  many_shards(directory / "set", 2);
  fs::permissions(directory / "set/train-00000.h5", fs::perms::owner_read);
  fs::permissions(directory / "set", fs::perms::owner_read | fs::perms::owner_exec);
  {
    Dataset dataset(directory / "set", ShardVerification::kChecksum, 1);
    EXPECT_EQ(dataset.shard(1).documents(), 8);
  }
  fs::permissions(directory / "set", fs::perms::owner_all);
}

TEST(Dataset, OpenedBeforeAForkReadsTheSameInBothProcesses) {
  const TemporaryDirectory directory;
  const auto documents = numbered_documents(500, 60);
  write_dataset(directory / "set", documents, ByteTokenizer(), 3000);
  std::vector<int32_t> all;
  for (const auto& document : documents) all.insert(all.end(), document.begin(), document.end());
  Dataset dataset(directory / "set", ShardVerification::kChecksum, 2);
  const auto good = [&](uint32_t seed) {
    for (int i = 0; i < 200; ++i) {
      seed = seed * 1664525u + 1013904223u;
      const auto index = static_cast<int64_t>(seed >> 8) % static_cast<int64_t>(dataset.manifest().shards.size());
      int64_t begin = 0;
      for (int64_t s = 0; s < index; ++s) begin += dataset.manifest().shards[static_cast<size_t>(s)].tokens;
      std::vector<int32_t> ids(3);
      const int64_t at = static_cast<int64_t>(seed >> 4) % (dataset.shard(index).tokens() - 2);
      dataset.shard(index).read(at, ids);
      if (!std::equal(ids.begin(), ids.end(), all.begin() + begin + at)) return false;
    }
    return true;
  };
  dataset.shard(0);
  std::vector<pid_t> children;
  for (uint32_t child = 1; child <= 2; ++child) {
    const pid_t pid = fork();
    ASSERT_GE(pid, 0);
    if (pid == 0) {
      bool fine = false;
      try {
        fine = good(child);
      } catch (...) {
      }
      _exit(fine ? 0 : 1);
    }
    children.push_back(pid);
  }
  EXPECT_TRUE(good(7));
  for (const pid_t pid : children) {
    int status = 0;
    ASSERT_EQ(waitpid(pid, &status, 0), pid);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
}

TEST(Dataset, GivesItsTokenizerVerified) {
  const TemporaryDirectory directory;
  many_shards(directory / "set", 1);
  const Dataset dataset(directory / "set", ShardVerification::kChecksum, 1);
  EXPECT_EQ(restore_tokenizer(dataset.serialised_tokenizer(), "x")->name(), "bytes");
  write_text(directory / "set/tokenizer.bin", "longhaul-tokenizer 1 bytez\n");
  EXPECT_NE(user_error_of([&] { dataset.serialised_tokenizer(); }).find("damaged"), std::string::npos);
  fs::remove(directory / "set/tokenizer.bin");
  EXPECT_NE(user_error_of([&] { dataset.serialised_tokenizer(); }).find("missing"), std::string::npos);
}

TEST(Manifest, RefusesDamageByName) {
  const TemporaryDirectory directory;
  const std::string good = many_shards(directory / "set", 2).to_json();
  const auto message_for = [&](const std::string& text) {
    write_text(directory / "set/manifest.json", text);
    const auto message = user_error_of([&] { read_manifest(directory / "set"); });
    EXPECT_NE(message.find("manifest.json"), std::string::npos) << message;
    return message;
  };
  message_for("");
  message_for("{}");
  message_for(good.substr(0, good.size() / 2));
  std::string changed = good;
  changed.replace(changed.find("\"documents\": 8"), 14, "\"documents\": 9");
  EXPECT_NE(message_for(changed).find("checksum differs"), std::string::npos);
  changed = good;
  changed.replace(changed.find("\"version\": 1"), 12, "\"version\": 3");
  EXPECT_NE(message_for(changed).find("of version 3"), std::string::npos);
}

TEST(Manifest, SaysWhyADirectoryIsNoDataset) {
  const TemporaryDirectory directory;
  const auto message = [&] { return user_error_of([&] { read_manifest(directory / "set"); }); };
  EXPECT_NE(message().find("no directory"), std::string::npos);
  fs::create_directory(directory / "set");
  EXPECT_NE(message().find("found no manifest.json"), std::string::npos);
  write_text(directory / "set/train-00000.h5.tmp", "part");
  EXPECT_NE(message().find("shard is being written"), std::string::npos);
}

TEST(Manifest, SurvivesARoundTrip) {
  const TemporaryDirectory directory;
  const Manifest manifest = many_shards(directory / "set", 3);
  const Manifest read = read_manifest(directory / "set");
  EXPECT_EQ(read.to_json(), manifest.to_json());
  EXPECT_EQ(read.checksum(), manifest.checksum());
}

}  // namespace
}  // namespace longhaul
