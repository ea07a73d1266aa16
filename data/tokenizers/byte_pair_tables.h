// Vocabulary and merges of a byte-level BPE (GPT-2 files encoder.json and vocab.bpe), read once and shared by threads.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace longhaul {

/// One merge: the pair becomes `id`; lower ranks are applied first.
struct Merge {
  static constexpr uint32_t kNone = 0xFFFFFFFFu;
  uint32_t rank = kNone;
  int32_t id = -1;
};

class BytePairTables {
 public:
  /// user_error when a file is missing or does not have the form of docs/formats.md.
  static std::shared_ptr<const BytePairTables> from_files(const std::filesystem::path& encoder_json,
                                                          const std::filesystem::path& vocab_bpe);
  /// From bytes(): "LENGTH\n", LENGTH bytes of encoder.json, then vocab.bpe.
  static std::shared_ptr<const BytePairTables> from_bytes(const std::string& bytes);

  int64_t vocab_size() const { return static_cast<int64_t>(token_bytes_.size()); }
  int32_t end_of_text() const { return end_of_text_; }
  int32_t byte_id(unsigned char byte) const { return byte_ids_[byte]; }
  const std::string& token_bytes(int32_t id) const { return token_bytes_[static_cast<size_t>(id)]; }
  const std::string& bytes() const { return bytes_; }

  /// The merge of (left, right), rank kNone when there is none.
  Merge merge(int32_t left, int32_t right) const {
    const uint64_t key = pair_key(left, right);
    for (uint64_t slot = slot_of(key);; slot = (slot + 1) & mask_) {
      if (pairs_[slot].key == key) return pairs_[slot].merge;
      if (pairs_[slot].key == kEmpty) return {};
    }
  }

 private:
  static constexpr uint64_t kEmpty = ~uint64_t{0};
  struct PairSlot {
    uint64_t key = kEmpty;
    Merge merge;
  };
  static uint64_t pair_key(int32_t left, int32_t right) {
    return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
  }
  uint64_t slot_of(uint64_t key) const { return (key * 0x9E3779B97F4A7C15ull >> 32) & mask_; }
  BytePairTables(const std::string& encoder_json, const std::string& vocab_bpe);
  void read_vocabulary(const std::string& encoder_json);
  void read_merges(const std::string& vocab_bpe);
  void add_merge(int32_t left, int32_t right, Merge merge);

  std::string bytes_;
  std::vector<std::string> token_bytes_;
  std::array<int32_t, 256> byte_ids_{};
  int32_t end_of_text_ = -1;
  std::vector<PairSlot> pairs_;  // open addressing, at most half full
  uint64_t mask_ = 0;
};

}  // namespace longhaul
