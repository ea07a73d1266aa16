// Ids of recently seen short words: a direct-mapped cache of fixed size, so that memory stays bounded on any text.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

namespace longhaul {

class WordCache {
 public:
  static constexpr size_t kMaxBytes = 15, kMaxIds = 7;

  WordCache() : slots_(kSlots) {}

  /// A word of 1 to kMaxBytes bytes, packed; the sixteenth byte is its length.
  struct Key {
    uint64_t low = 0, high = 0;
    bool operator==(const Key&) const = default;
  };
  static Key key_of(std::string_view word) {
    std::array<char, 16> bytes{};
    std::memcpy(bytes.data(), word.data(), word.size());
    bytes[15] = static_cast<char>(word.size());
    Key key;
    std::memcpy(&key.low, bytes.data(), 8);
    std::memcpy(&key.high, bytes.data() + 8, 8);
    return key;
  }

  /// Appends the ids of the word to `ids`; false when it is not there.
  bool find(const Key& key, std::vector<int32_t>& ids) const {
    const Slot& slot = slots_[index_of(key)];
    if (slot.key != key) return false;
    ids.insert(ids.end(), slot.ids.begin(), slot.ids.begin() + slot.count);
    return true;
  }
  void store(const Key& key, const std::vector<int32_t>& word_ids) {
    if (word_ids.size() > kMaxIds) return;
    Slot& slot = slots_[index_of(key)];
    slot.key = key;
    slot.count = static_cast<int32_t>(word_ids.size());
    std::copy(word_ids.begin(), word_ids.end(), slot.ids.begin());
  }

 private:
  static constexpr size_t kSlots = size_t{1} << 16;
  struct Slot {
    Key key;
    int32_t count = 0;
    std::array<int32_t, kMaxIds> ids{};
  };
  static size_t index_of(const Key& key) {
    const uint64_t mixed = (key.low ^ (key.high * 0x9E3779B97F4A7C15ull)) * 0xD6E8FEB86659FD93ull;
    return static_cast<size_t>(mixed >> 48);
  }
  std::vector<Slot> slots_;
};

}  // namespace longhaul
