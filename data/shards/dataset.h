// A dataset directory opened for reading: the manifest at once, the shards lazily, few at a time, in this process only.
// Works on read-only directories and needs no locks.
#pragma once

#include <cstdint>
#include <filesystem>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "data/shards/manifest.h"
#include "data/shards/shard.h"
#include "data/shards/shard_verification.h"

namespace longhaul {

class Dataset {
 public:
  /// Checks the size of every shard. user_error names the file that is missing, truncated, a directory, a dangling
  /// link, ...
  Dataset(std::filesystem::path directory, ShardVerification verify, int64_t open_shards);

  const std::filesystem::path& directory() const { return directory_; }
  const Manifest& manifest() const { return manifest_; }
  std::vector<int64_t> shards_of(const std::string& split) const;  ///< indices of shards that have documents
  int64_t empty_shards(const std::string& split) const;
  std::string serialised_tokenizer() const;  ///< verified against the manifest
  /// The shard, opened (and verified, the first time) when needed. The reference holds until the next call.
  Shard& shard(int64_t index);
  int64_t open_count() const { return static_cast<int64_t>(open_.size()); }

 private:
  struct OpenShard {
    int64_t index;
    Shard shard;
  };
  std::filesystem::path directory_;
  Manifest manifest_;
  ShardVerification verify_;
  int64_t open_limit_;
  std::vector<bool> verified_;
  std::list<OpenShard> open_;  ///< most recently used first
  int64_t process_;            ///< the process that opened them
};

}  // namespace longhaul
