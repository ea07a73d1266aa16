#include "data/shards/shard_writer.h"

#include <algorithm>

#include "core/io/file.h"
#include "data/shards/shard.h"
#include "kernels/error.h"

namespace longhaul {
namespace {

constexpr size_t kPendingTokens = size_t{1} << 20;

template <typename Id>
void append_as(Hdf5File& file, H5Type type, std::span<const uint32_t> ids) {
  const std::vector<Id> narrow(ids.begin(), ids.end());
  file.append(ShardLayout::kTokens, type, narrow.data(), static_cast<int64_t>(narrow.size()));
}

}  // namespace

ShardWriter::ShardWriter(fs::path directory, std::string split, TokenizerRecord tokenizer, int64_t shard_tokens,
                         bool masked)
    : directory_(std::move(directory)),
      split_(std::move(split)),
      tokenizer_(std::move(tokenizer)),
      type_(token_type_for(tokenizer_.vocab_size)),
      shard_tokens_(shard_tokens),
      masked_(masked) {
  if (shard_tokens < 1) throw user_error("shards of {} tokens, expected at least 1", shard_tokens);
}

fs::path ShardWriter::temporary() const { return directory_ / fmt::format("{}-{:05}.h5.tmp", split_, shards_.size()); }

void ShardWriter::open() {
  file_ = Hdf5File::create(temporary());
  file_->create_growing(ShardLayout::kTokens, type_, ShardLayout::kChunkTokens);
  if (masked_) file_->create_growing(ShardLayout::kTargetMask, H5Type::u8, ShardLayout::kChunkTokens);
  offsets_.assign(1, 0);
  targets_ = 0;
}

void ShardWriter::add_document(std::span<const int32_t> ids, std::span<const uint8_t> target_mask) {
  if (ids.empty()) throw internal_error("shard writer: document {} of {} has no tokens", documents_, split_);
  if (target_mask.size() != (masked_ ? ids.size() : 0)) {
    throw internal_error("shard writer: document {} of {} has {} tokens and a target mask of {}, expected {}",
                         documents_, split_, ids.size(), target_mask.size(), masked_ ? "one entry per token" : "none");
  }
  if (!file_) open();
  for (const int32_t id : ids) {
    if (id < 0 || id >= tokenizer_.vocab_size) {
      throw user_error("document {} of split {}: id {} is outside the vocabulary of {}", documents_, split_, id,
                       tokenizer_.vocab_size);
    }
    pending_.push_back(static_cast<uint32_t>(id));
  }
  for (const uint8_t is_target : target_mask) {
    if (is_target > 1) throw internal_error("shard writer: target mask {}, expected 0 or 1", is_target);
    targets_ += is_target;
    pending_mask_.push_back(is_target);
  }
  offsets_.push_back(offsets_.back() + static_cast<int64_t>(ids.size()));
  tokens_ += static_cast<int64_t>(ids.size());
  ++documents_;
  if (pending_.size() >= kPendingTokens) flush();
  if (offsets_.back() >= shard_tokens_) close();
}

void ShardWriter::flush() {
  switch (type_) {
    case H5Type::u8:
      append_as<uint8_t>(*file_, type_, pending_);
      break;
    case H5Type::u16:
      append_as<uint16_t>(*file_, type_, pending_);
      break;
    default:
      append_as<uint32_t>(*file_, type_, pending_);
  }
  pending_.clear();
  if (!masked_) return;
  file_->append(ShardLayout::kTargetMask, H5Type::u8, pending_mask_.data(), static_cast<int64_t>(pending_mask_.size()));
  pending_mask_.clear();
}

void ShardWriter::close() {
  flush();
  const auto entries = static_cast<int64_t>(offsets_.size());
  file_->write(ShardLayout::kOffsets, H5Type::i64, {&entries, 1}, offsets_.data());
  file_->set_attribute("/", "format", std::string("longhaul-shard"));
  file_->set_attribute("/", "version", ShardLayout::kVersion);
  file_->set_attribute("/", "vocab_size", tokenizer_.vocab_size);
  file_->set_attribute("/", "end_of_text", int64_t{tokenizer_.end_of_text});
  file_->set_attribute("/", "tokenizer", tokenizer_.fingerprint);
  file_->set_attribute("/", "split", split_);
  if (masked_) file_->set_attribute("/", "targets", targets_);
  file_->close();
  file_.reset();
  const fs::path written = temporary();
  ShardEntry entry;
  entry.name = written.stem().string();
  entry.split = split_;
  entry.documents = entries - 1;
  entry.tokens = offsets_.back();
  if (masked_) entry.targets = targets_;
  sync_file(written);
  entry.digest = digest_file(written);
  rename_durably(written, directory_ / entry.name);
  shards_.push_back(std::move(entry));
}

std::vector<ShardEntry> ShardWriter::finish() {
  if (file_) close();
  return shards_;
}

}  // namespace longhaul
