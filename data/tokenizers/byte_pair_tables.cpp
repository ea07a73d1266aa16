#include "data/tokenizers/byte_pair_tables.h"

#include <bit>
#include <charconv>
#include <nlohmann/json.hpp>
#include <string_view>
#include <unordered_map>

#include "core/io/file.h"
#include "kernels/error.h"

namespace longhaul {
namespace {

constexpr const char* kEndOfText = "<|endoftext|>";

// The visible character (as UTF-8) that stands for each byte in the GPT-2 files: 33-126, 161-172 and 174-255 are
// themselves, the other 68 bytes are U+0100, U+0101, ... in rising order.
std::array<std::string, 256> visible_bytes() {
  std::array<std::string, 256> visible;
  int next = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    const bool itself = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
    const int code_point = itself ? byte : next++;
    std::string& text = visible[static_cast<size_t>(byte)];
    if (code_point < 0x80) {
      text = static_cast<char>(code_point);
    } else {
      text = {static_cast<char>(0xC0 | code_point >> 6), static_cast<char>(0x80 | (code_point & 0x3F))};
    }
  }
  return visible;
}

// Visible form of a token -> its bytes.
class VisibleDecoder {
 public:
  VisibleDecoder() {
    const auto visible = visible_bytes();
    for (size_t byte = 0; byte < 256; ++byte) bytes_[visible[byte]] = static_cast<char>(byte);
  }
  std::string decode(std::string_view token) const {
    std::string result;
    for (size_t at = 0; at < token.size();) {
      const size_t length = static_cast<unsigned char>(token[at]) < 0x80 ? 1 : 2;
      const auto found = bytes_.find(std::string(token.substr(at, length)));
      if (found == bytes_.end()) {
        throw user_error("encoder.json: found token '{}', expected only the characters that stand for bytes", token);
      }
      result.push_back(found->second);
      at += length;
    }
    return result;
  }

 private:
  std::unordered_map<std::string, char> bytes_;
};

}  // namespace

std::shared_ptr<const BytePairTables> BytePairTables::from_files(const fs::path& encoder_json,
                                                                 const fs::path& vocab_bpe) {
  return std::shared_ptr<const BytePairTables>(new BytePairTables(read_file(encoder_json), read_file(vocab_bpe)));
}

std::shared_ptr<const BytePairTables> BytePairTables::from_bytes(const std::string& bytes) {
  size_t length = 0;
  const size_t line_end = bytes.find('\n');
  const char* end = bytes.data() + (line_end == std::string::npos ? 0 : line_end);
  const auto parsed = std::from_chars(bytes.data(), end, length);
  if (parsed.ec != std::errc() || parsed.ptr != end || length > bytes.size() - line_end - 1) {
    throw user_error("gpt2 tokenizer: found a damaged model, expected the length of encoder.json in its first line");
  }
  return std::shared_ptr<const BytePairTables>(
      new BytePairTables(bytes.substr(line_end + 1, length), bytes.substr(line_end + 1 + length)));
}

BytePairTables::BytePairTables(const std::string& encoder_json, const std::string& vocab_bpe)
    : bytes_(std::to_string(encoder_json.size()) + "\n" + encoder_json + vocab_bpe) {
  read_vocabulary(encoder_json);
  read_merges(vocab_bpe);
}

void BytePairTables::read_vocabulary(const std::string& encoder_json) {
  const auto json = nlohmann::json::parse(encoder_json, nullptr, false);
  if (!json.is_object()) throw user_error("encoder.json: found no JSON object, expected token texts with their ids");
  const VisibleDecoder decoder;
  std::vector<bool> seen(json.size(), false);
  token_bytes_.resize(json.size());
  byte_ids_.fill(-1);
  for (const auto& [token, value] : json.items()) {
    const int64_t id = value.is_number_unsigned() ? value.get<int64_t>() : -1;
    if (id < 0 || id >= vocab_size() || seen[static_cast<size_t>(id)]) {
      throw user_error("encoder.json: token '{}' has id {}, expected each id of [0, {}) once", token, value.dump(),
                       vocab_size());
    }
    seen[static_cast<size_t>(id)] = true;
    if (token == kEndOfText) {
      end_of_text_ = static_cast<int32_t>(id);
      token_bytes_[static_cast<size_t>(id)] = token;
      continue;
    }
    std::string bytes = decoder.decode(token);
    if (bytes.size() == 1) byte_ids_[static_cast<unsigned char>(bytes[0])] = static_cast<int32_t>(id);
    token_bytes_[static_cast<size_t>(id)] = std::move(bytes);
  }
  if (end_of_text_ < 0)
    throw user_error("encoder.json: found no token '{}', expected one to end documents", kEndOfText);
  for (int byte = 0; byte < 256; ++byte) {
    if (byte_ids_[static_cast<size_t>(byte)] < 0) {
      throw user_error("encoder.json: found no token for byte {}, expected one for each of the 256 bytes", byte);
    }
  }
}

void BytePairTables::read_merges(const std::string& vocab_bpe) {
  const VisibleDecoder decoder;
  std::unordered_map<std::string_view, int32_t> id_of;
  for (int32_t id = 0; id < vocab_size(); ++id) {
    if (id != end_of_text_) id_of.emplace(token_bytes_[static_cast<size_t>(id)], id);
  }
  pairs_.resize(std::bit_ceil(static_cast<uint64_t>(vocab_size()) * 2 + 16));
  mask_ = pairs_.size() - 1;
  const std::string_view text = vocab_bpe;
  uint32_t rank = 0;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    std::string_view line = text.substr(begin, end - begin);
    begin = end + 1;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty() || (rank == 0 && line.starts_with("#version"))) continue;
    const size_t blank = line.find(' ');
    if (blank == std::string_view::npos) throw user_error("vocab.bpe: found line '{}', expected two tokens", line);
    const std::string left = decoder.decode(line.substr(0, blank)), right = decoder.decode(line.substr(blank + 1));
    const auto left_id = id_of.find(left), right_id = id_of.find(right), id = id_of.find(left + right);
    if (left_id == id_of.end() || right_id == id_of.end() || id == id_of.end()) {
      throw user_error("vocab.bpe: merge '{}' is not in encoder.json; take both files from the same tokenizer", line);
    }
    if (rank >= vocab_size()) throw user_error("vocab.bpe: found more merges than the {} tokens", vocab_size());
    add_merge(left_id->second, right_id->second, {rank++, id->second});
  }
}

void BytePairTables::add_merge(int32_t left, int32_t right, Merge merge) {
  const uint64_t key = pair_key(left, right);
  uint64_t slot = slot_of(key);
  while (pairs_[slot].key != kEmpty && pairs_[slot].key != key) slot = (slot + 1) & mask_;
  if (pairs_[slot].key == kEmpty) pairs_[slot] = {key, merge};  // a repeated pair keeps its first, lowest rank
}

}  // namespace longhaul
