#include "data/text/text_policy.h"

#include <fmt/format.h>
#include <utf8proc.h>

#include "data/text/unicode.h"

namespace longhaul {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

struct Sequence {
  int64_t length;  // bytes
  bool valid;
  int32_t code_point;
};

// Allowed second bytes of a multi-byte character (table 3-7 of the Unicode standard); the others are 80..BF.
bool valid_second(unsigned char lead, unsigned char second) {
  unsigned char low = 0x80, high = 0xBF;
  if (lead == 0xE0) low = 0xA0;
  if (lead == 0xED) high = 0x9F;
  if (lead == 0xF0) low = 0x90;
  if (lead == 0xF4) high = 0x8F;
  return second >= low && second <= high;
}

// The character at the start of `text`, or the longest part that could have begun one.
Sequence next_sequence(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  const int64_t wanted = lead >= 0xC2 && lead <= 0xDF   ? 2
                         : lead >= 0xE0 && lead <= 0xEF ? 3
                         : lead >= 0xF0 && lead <= 0xF4 ? 4
                                                        : 0;
  if (wanted == 0) return {1, false, 0};
  int32_t code_point = lead & (0xFF >> (wanted + 1));
  for (int64_t i = 1; i < wanted; ++i) {
    const auto at = static_cast<size_t>(i);
    const bool good = at < text.size() && (i == 1 ? valid_second(lead, byte(at)) : (byte(at) & 0xC0) == 0x80);
    if (!good) return {i, false, 0};
    code_point = code_point << 6 | (byte(at) & 0x3F);
  }
  return {wanted, true, code_point};
}

}  // namespace

void TextCounts::add(const TextCounts& other) {
  records += other.records;
  kept += other.kept;
  empty += other.empty;
  blank += other.blank;
  byte_order_marks += other.byte_order_marks;
  nul_bytes += other.nul_bytes;
  crlf += other.crlf;
  invalid_parts += other.invalid_parts;
  line_separators += other.line_separators;
  bytes += other.bytes;
}

std::string TextCounts::report() const {
  std::string text;
  const auto line = [&](const char* what, int64_t count, const char* treatment) {
    text += fmt::format("  {:<34} {:>12}  {}\n", what, count, treatment);
  };
  line("records", records, "read");
  line("documents", kept, "kept");
  line("empty records", empty, "dropped");
  line("records of white space alone", blank, "dropped");
  line("byte order marks", byte_order_marks, "dropped");
  line("NUL bytes", nul_bytes, "dropped");
  line("CR LF inside records", crlf, "replaced by LF");
  line("invalid UTF-8 parts", invalid_parts, "replaced by U+FFFD");
  line("U+2028 and U+2029", line_separators, "kept");
  return text;
}

std::string clean_text(std::string_view raw, TextCounts& counts) {
  std::string text;
  text.reserve(raw.size());
  for (size_t at = 0; at < raw.size();) {
    const char c = raw[at];
    if (static_cast<unsigned char>(c) < 0x80) {
      if (c == '\0') {
        ++counts.nul_bytes;
      } else if (c == '\r' && at + 1 < raw.size() && raw[at + 1] == '\n') {
        ++counts.crlf;
      } else {
        text.push_back(c);
      }
      ++at;
      continue;
    }
    const Sequence sequence = next_sequence(raw.substr(at, 4));
    if (sequence.valid) {
      text.append(raw, at, static_cast<size_t>(sequence.length));
      counts.line_separators += sequence.code_point == 0x2028 || sequence.code_point == 0x2029;
    } else {
      text.append(kReplacement);
      ++counts.invalid_parts;
    }
    at += static_cast<size_t>(sequence.length);
  }
  return text;
}

bool is_blank(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    utf8proc_int32_t code_point = 0;
    const auto length = utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()) + at,
                                         static_cast<utf8proc_ssize_t>(text.size() - at), &code_point);
    if (length <= 0 || !is_white_space(code_point)) return false;
    at += static_cast<size_t>(length);
  }
  return true;
}

}  // namespace longhaul
