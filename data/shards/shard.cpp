#include "data/shards/shard.h"

#include <algorithm>

#include "core/io/file.h"
#include "core/io/file_lock.h"
#include "kernels/error.h"

namespace longhaul {
namespace {

template <typename Value>
void require_attribute(const std::string& shard, const char* key, const Value& found, const Value& expected) {
  if (found == expected) return;
  throw user_error("shard {}: {} is {}, the manifest says {}; the file belongs to another dataset", shard, key, found,
                   expected);
}

int64_t length_of(const Hdf5File& file, const std::string& shard, const char* dataset) {
  const std::vector<int64_t> extents = file.extents(dataset);
  if (extents.size() == 1) return extents[0];
  throw user_error("shard {}: dataset {} has {} dimensions, expected one", shard, dataset, extents.size());
}

void check_attributes(const Hdf5File& file, const std::string& shard, const ShardEntry& entry,
                      const TokenizerRecord& tokenizer) {
  if (!file.has_attribute("/", "version") || !file.contains(ShardLayout::kTokens) ||
      !file.contains(ShardLayout::kOffsets)) {
    throw user_error("shard {}: an HDF5 file, but no token shard; expected one written by `longhaul tokenize`", shard);
  }
  require_attribute(shard, "version", file.int_attribute("/", "version"), ShardLayout::kVersion);
  require_attribute(shard, "vocab_size", file.int_attribute("/", "vocab_size"), tokenizer.vocab_size);
  require_attribute(shard, "end_of_text", file.int_attribute("/", "end_of_text"), int64_t{tokenizer.end_of_text});
  require_attribute(shard, "tokenizer", file.text_attribute("/", "tokenizer"), tokenizer.fingerprint);
  require_attribute(shard, "split", file.text_attribute("/", "split"), entry.split);
  const H5Type type = file.type(ShardLayout::kTokens), least = token_type_for(tokenizer.vocab_size);
  const bool is_unsigned = type == H5Type::u8 || type == H5Type::u16 || type == H5Type::u32;
  if (!is_unsigned || size_of(type) < size_of(least)) {
    throw user_error(
        "shard {}: its integers of {} bytes are too small (or signed) for a vocabulary of {}, expected unsigned of {} "
        "bytes; tokenize again",
        shard, size_of(type), tokenizer.vocab_size, size_of(least));
  }
  require_attribute(shard, "tokens", length_of(file, shard, ShardLayout::kTokens), entry.tokens);
  require_attribute(shard, "documents + 1", length_of(file, shard, ShardLayout::kOffsets), entry.documents + 1);
}

void check_target_mask(const Hdf5File& file, const std::string& shard, const ShardEntry& entry) {
  const bool masked = file.contains(ShardLayout::kTargetMask) || file.has_attribute("/", "targets");
  if (masked != entry.targets.has_value()) {
    throw user_error("shard {}: the file has {} target mask, the manifest says {}; the file belongs to another dataset",
                     shard, masked ? "a" : "no", masked ? "none" : "one");
  }
  if (!masked) return;
  if (!file.contains(ShardLayout::kTargetMask) || !file.has_attribute("/", "targets")) {
    throw user_error("shard {}: expected both the dataset {} and the attribute 'targets', found one of them", shard,
                     ShardLayout::kTargetMask);
  }
  require_attribute(shard, "targets", file.int_attribute("/", "targets"), *entry.targets);
  const int64_t length = length_of(file, shard, ShardLayout::kTargetMask);
  if (file.type(ShardLayout::kTargetMask) != H5Type::u8 || length != entry.tokens) {
    throw user_error("shard {}: a target mask of {} entries of {} bytes, expected {} of 1 byte, one per token", shard,
                     length, size_of(file.type(ShardLayout::kTargetMask)), entry.tokens);
  }
}

void check_offsets(const std::string& shard, std::span<const int64_t> offsets, int64_t tokens) {
  if (offsets.front() != 0 || offsets.back() != tokens) {
    throw user_error("shard {}: document offsets run from {} to {}, expected 0 to {}", shard, offsets.front(),
                     offsets.back(), tokens);
  }
  for (size_t i = 1; i < offsets.size(); ++i) {
    if (offsets[i] <= offsets[i - 1]) {
      throw user_error("shard {}: document offset {} at {} does not rise above {}", shard, offsets[i], i,
                       offsets[i - 1]);
    }
  }
}

}  // namespace

void check_shard_file(const fs::path& path, const ShardEntry& entry) {
  const std::string shard = path.string();
  std::error_code failure;
  const fs::file_status link = fs::symlink_status(path, failure);
  if (link.type() == fs::file_type::not_found) {
    if (fs::exists(path.string() + ".tmp", failure)) {
      throw user_error("shard {}: the shard is being written (only its .tmp file exists); wait or tokenize again",
                       shard);
    }
    throw user_error("shard {}: missing, the manifest lists it; restore it or tokenize again", shard);
  }
  const fs::file_status status = fs::status(path, failure);
  if (status.type() == fs::file_type::not_found) throw user_error("shard {}: a dangling link, expected a file", shard);
  if (status.type() != fs::file_type::regular) {
    throw user_error("shard {}: found a {}, expected a regular file", shard,
                     status.type() == fs::file_type::directory ? "directory" : "special file");
  }
  const auto bytes = static_cast<int64_t>(fs::file_size(path, failure));
  if (bytes != entry.digest.bytes) {
    throw user_error("shard {}: {} bytes, the manifest says {}: truncated or replaced; restore it or tokenize again",
                     shard, bytes, entry.digest.bytes);
  }
}

void check_shard_checksum(const fs::path& path, const ShardEntry& entry) {
  const std::string found = digest_file(path).checksum;
  if (found == entry.digest.checksum) return;
  throw user_error("shard {}: checksum {}, the manifest says {}: damaged or replaced; restore it or tokenize again",
                   path.string(), found, entry.digest.checksum);
}

Shard::Shard(const fs::path& path, const ShardEntry& entry, const TokenizerRecord& tokenizer)
    : name_(path.string()),
      vocab_size_(tokenizer.vocab_size),
      masked_(entry.targets.has_value()),
      file_(Hdf5File::open_read(path)) {
  check_attributes(file_, name_, entry, tokenizer);
  check_target_mask(file_, name_, entry);
  offsets_.resize(static_cast<size_t>(entry.documents) + 1);
  file_.read(ShardLayout::kOffsets, H5Type::i64, offsets_.data());
  check_offsets(name_, offsets_, entry.tokens);
}

int64_t Shard::document_of(int64_t token) const {
  return std::upper_bound(offsets_.begin(), offsets_.end(), token) - offsets_.begin() - 1;
}

void Shard::read(int64_t begin, std::span<int32_t> out) const {
  std::vector<uint32_t> ids(out.size());
  file_.read_range(ShardLayout::kTokens, H5Type::u32, begin, static_cast<int64_t>(out.size()), ids.data());
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] >= vocab_size_) {
      throw user_error("shard {}: token {} is id {}, outside the vocabulary of {}; tokenize again", name_,
                       begin + static_cast<int64_t>(i), ids[i], vocab_size_);
    }
    out[i] = static_cast<int32_t>(ids[i]);
  }
}

void Shard::read_target_mask(int64_t begin, std::span<uint8_t> out) const {
  if (!masked_) {
    std::fill(out.begin(), out.end(), uint8_t{1});
    return;
  }
  file_.read_range(ShardLayout::kTargetMask, H5Type::u8, begin, static_cast<int64_t>(out.size()), out.data());
  for (size_t i = 0; i < out.size(); ++i) {
    if (out[i] > 1) {
      throw user_error("shard {}: the target mask of token {} is {}, expected 0 or 1; make the dataset again", name_,
                       begin + static_cast<int64_t>(i), out[i]);
    }
  }
}

}  // namespace longhaul
