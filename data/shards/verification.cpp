#include "data/shards/verification.h"

#include <algorithm>

#include "core/io/file.h"
#include "data/shards/manifest.h"
#include "data/shards/shard.h"
#include "data/tokenizers/tokenizer.h"
#include "kernels/error.h"

namespace longhaul {
namespace {

constexpr int64_t kReadTokens = int64_t{1} << 20;

void verify_ids(const Shard& shard, const std::string& name, int32_t end_of_text) {
  std::vector<int32_t> ids;
  size_t document = 0;
  for (int64_t begin = 0; begin < shard.tokens(); begin += kReadTokens) {
    const int64_t end = std::min(begin + kReadTokens, shard.tokens());
    ids.resize(static_cast<size_t>(end - begin));
    shard.read(begin, ids);
    for (; document + 1 < shard.offsets().size() && shard.offsets()[document + 1] <= end; ++document) {
      const int64_t last = shard.offsets()[document + 1] - 1;
      if (ids[static_cast<size_t>(last - begin)] != end_of_text) {
        throw user_error("shard {}: document {} ends in id {}, expected the end-of-text id {}; tokenize again", name,
                         document, ids[static_cast<size_t>(last - begin)], end_of_text);
      }
    }
  }
}

void verify_target_mask(const Shard& shard, const std::string& name, int64_t expected) {
  std::vector<uint8_t> mask;
  int64_t targets = 0;
  for (int64_t begin = 0; begin < shard.tokens(); begin += kReadTokens) {
    mask.resize(static_cast<size_t>(std::min(kReadTokens, shard.tokens() - begin)));
    shard.read_target_mask(begin, mask);
    targets += std::count(mask.begin(), mask.end(), uint8_t{1});
  }
  if (targets != expected) {
    throw user_error("shard {}: its target mask allows {} targets, the manifest says {}; make the dataset again", name,
                     targets, expected);
  }
}

void verify_shard(const fs::path& path, const ShardEntry& entry, const TokenizerRecord& tokenizer) {
  const Shard shard(path, entry, tokenizer);
  verify_ids(shard, path.string(), tokenizer.end_of_text);
  if (entry.targets) verify_target_mask(shard, path.string(), *entry.targets);
}

void verify_tokenizer(const fs::path& directory, const TokenizerRecord& record) {
  const fs::path path = directory / record.file;
  if (!fs::is_regular_file(path) || digest_file(path) != record.digest) {
    throw user_error("{}: the tokenizer is missing or differs from the manifest; restore it", path.string());
  }
  if (restore_tokenizer(read_file(path), path.string())->fingerprint() != record.fingerprint) {
    throw user_error("{}: another tokenizer than the manifest names; restore it", path.string());
  }
}

}  // namespace

VerificationReport verify_dataset(const fs::path& directory,
                                  const std::function<void(int64_t done, int64_t total)>& progress) {
  const Manifest manifest = read_manifest(directory);
  VerificationReport report;
  const auto check = [&](const auto& action) {
    try {
      action();
      return true;
    } catch (const Error& error) {
      report.problems.emplace_back(error.what());
      return false;
    }
  };
  check([&] { verify_tokenizer(directory, manifest.tokenizer); });
  const auto total = static_cast<int64_t>(manifest.shards.size());
  for (int64_t i = 0; i < total; ++i) {
    const ShardEntry& entry = manifest.shards[static_cast<size_t>(i)];
    const fs::path path = directory / entry.name;
    const bool good = check([&] {
      check_shard_file(path, entry);
      check_shard_checksum(path, entry);
      if (entry.documents > 0) verify_shard(path, entry, manifest.tokenizer);
    });
    if (good) {
      ++report.shards;
      report.empty_shards += entry.documents == 0;
      report.documents += entry.documents;
      report.tokens += entry.tokens;
      report.bytes += entry.digest.bytes;
    }
    if (progress) progress(i + 1, total);
  }
  return report;
}

}  // namespace longhaul
