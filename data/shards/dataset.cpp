#include "data/shards/dataset.h"

#include <unistd.h>

#include "core/io/file.h"
#include "core/io/file_lock.h"
#include "kernels/error.h"

namespace longhaul {

Dataset::Dataset(std::filesystem::path directory, ShardVerification verify, int64_t open_shards)
    : directory_(std::move(directory)),
      manifest_(read_manifest(directory_)),
      verify_(verify),
      open_limit_(open_shards),
      verified_(manifest_.shards.size(), false),
      process_(getpid()) {
  if (open_shards < 1)
    throw user_error("dataset {}: {} open shards, expected at least 1", directory_.string(), open_shards);
  for (const ShardEntry& entry : manifest_.shards) check_shard_file(directory_ / entry.name, entry);
}

std::vector<int64_t> Dataset::shards_of(const std::string& split) const {
  std::vector<int64_t> indices;
  for (size_t i = 0; i < manifest_.shards.size(); ++i) {
    if (manifest_.shards[i].split == split && manifest_.shards[i].documents > 0) {
      indices.push_back(static_cast<int64_t>(i));
    }
  }
  return indices;
}

int64_t Dataset::empty_shards(const std::string& split) const {
  int64_t count = 0;
  for (const ShardEntry& entry : manifest_.shards) count += entry.split == split && entry.documents == 0;
  return count;
}

std::string Dataset::serialised_tokenizer() const {
  const TokenizerRecord& record = manifest_.tokenizer;
  const fs::path path = directory_ / record.file;
  if (!fs::is_regular_file(path)) {
    throw user_error("{}: missing, the manifest lists it as the tokenizer; restore it or tokenize again",
                     path.string());
  }
  if (digest_file(path) != record.digest) {
    throw user_error("{}: the tokenizer is damaged (size or checksum differ from the manifest); restore it",
                     path.string());
  }
  return read_file(path);
}

Shard& Dataset::shard(int64_t index) {
  if (process_ != getpid()) {  // forked: handles of the parent are not ours to use
    open_.clear();
    process_ = getpid();
  }
  for (auto open = open_.begin(); open != open_.end(); ++open) {
    if (open->index == index) {
      open_.splice(open_.begin(), open_, open);
      return open_.front().shard;
    }
  }
  const ShardEntry& entry = manifest_.shards.at(static_cast<size_t>(index));
  const fs::path path = directory_ / entry.name;
  check_shard_file(path, entry);
  if (locked_for_writing(path)) {
    throw user_error("shard {}: the shard is being written by another process; wait for it to end", path.string());
  }
  if (verify_ == ShardVerification::kChecksum && !verified_[static_cast<size_t>(index)]) {
    check_shard_checksum(path, entry);
    verified_[static_cast<size_t>(index)] = true;
  }
  while (static_cast<int64_t>(open_.size()) >= open_limit_) open_.pop_back();
  open_.push_front({index, Shard(path, entry, manifest_.tokenizer)});
  return open_.front().shard;
}

}  // namespace longhaul
