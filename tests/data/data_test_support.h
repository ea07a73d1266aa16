// What tests of the data floor share: directories that vanish, small datasets, messages of errors.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "core/io/file.h"
#include "data/shards/dataset_builder.h"
#include "data/shards/shard_writer.h"
#include "data/tokenizers/byte_tokenizer.h"
#include "kernels/error.h"
#include "tests/support/source_tree.h"

namespace longhaul {

class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string pattern = (fs::temp_directory_path() / "longhaul-data-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) throw system_error("mkdtemp {} failed", pattern);
    path_ = pattern;
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  fs::path operator/(const std::string& name) const { return path_ / name; }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

inline void write_text(const fs::path& path, const std::string& text) { std::ofstream(path, std::ios::binary) << text; }

/// The committed golden files of this folder.
inline fs::path golden(const std::string& name) { return source_root() / "tests/data/golden" / name; }

/// The text of the user error that `action` throws; fails the test when it throws none.
inline std::string user_error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::kUser) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return {};
}

/// A dataset of the given documents (ids with their end-of-text), all in `split`, made without reading text;
/// with a target mask per document when some are given.
inline Manifest write_dataset(const fs::path& directory, const std::vector<std::vector<int32_t>>& documents,
                              const Tokenizer& tokenizer, int64_t shard_tokens, const std::string& split = "train",
                              const std::vector<std::vector<uint8_t>>& target_masks = {}) {
  fs::create_directories(directory);
  write_file_durably(directory / "tokenizer.bin", serialise_tokenizer(tokenizer));
  Manifest manifest;
  manifest.tokenizer = {tokenizer.name(),        tokenizer.vocab_size(), tokenizer.end_of_text(),
                        tokenizer.fingerprint(), "tokenizer.bin",        digest_file(directory / "tokenizer.bin")};
  manifest.token_type = token_type_for(tokenizer.vocab_size());
  ShardWriter writer(directory, split, manifest.tokenizer, shard_tokens, !target_masks.empty());
  for (size_t i = 0; i < documents.size(); ++i) {
    writer.add_document(documents[i], target_masks.empty() ? std::vector<uint8_t>() : target_masks.at(i));
  }
  manifest.shards = writer.finish();
  write_file_durably(directory / Manifest::kFileName, manifest.to_json());
  return manifest;
}

/// `count` documents of ids that follow from document and place, lengths 1, 2, ... `longest`, 1, 2, ...; byte
/// vocabulary.
inline std::vector<std::vector<int32_t>> numbered_documents(int64_t count, int64_t longest) {
  std::vector<std::vector<int32_t>> documents;
  for (int64_t d = 0; d < count; ++d) {
    std::vector<int32_t> ids;
    for (int64_t t = 0; t < d % longest; ++t) ids.push_back(static_cast<int32_t>((d * 7 + t * 3) % 256));
    ids.push_back(ByteTokenizer::kEndOfText);
    documents.push_back(ids);
  }
  return documents;
}

}  // namespace longhaul
