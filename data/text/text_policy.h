// What happens to awkward text. Written down once, counted always, equal for any number of workers and any block size:
//   byte order mark at the start of a file   dropped
//   CR LF                                    replaced by LF, so both kinds of file give the same ids
//   NUL                                      dropped
//   invalid UTF-8                            each maximal invalid part replaced by U+FFFD (as Unicode recommends)
//   empty record, white space alone          dropped (the record)
//   U+2028, U+2029, lone CR                  kept: they end no line
//   no line end at the end of a file         the last record counts like any other
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace longhaul {

/// How often each rule was used.
struct TextCounts {
  int64_t records = 0;           ///< read
  int64_t kept = 0;              ///< became documents
  int64_t empty = 0;             ///< dropped: no bytes
  int64_t blank = 0;             ///< dropped: white space alone
  int64_t byte_order_marks = 0;  ///< dropped
  int64_t nul_bytes = 0;         ///< dropped
  int64_t crlf = 0;              ///< replaced; inside records, not in the blank lines that separate them
  int64_t invalid_parts = 0;     ///< replaced
  int64_t line_separators = 0;   ///< kept: U+2028 and U+2029
  int64_t bytes = 0;             ///< of the kept documents

  void add(const TextCounts& other);
  std::string report() const;  ///< several lines: class, count, kept | replaced | dropped
  bool operator==(const TextCounts&) const = default;
};

/// The text after the rules for characters; counts what was done.
std::string clean_text(std::string_view raw, TextCounts& counts);
/// True when the text holds nothing but white space.
bool is_blank(std::string_view text);

}  // namespace longhaul
