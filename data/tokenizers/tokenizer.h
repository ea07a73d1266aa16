// Text to token ids and back. Four kinds: GPT-2 byte-level BPE, SentencePiece, raw bytes, a fixed list of
// words.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace longhaul {

/// One instance serves one thread at a time (encoding fills a cache); clone() shares the tables and is cheap.
/// encode(a + b) is in general not encode(a) followed by encode(b): whoever needs a boundary encodes the whole and cuts
/// ids.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  virtual std::string name() const = 0;     ///< "gpt2", "sentencepiece", "bytes", "words"
  virtual int64_t vocab_size() const = 0;   ///< every id is in [0, vocab_size)
  virtual int32_t end_of_text() const = 0;  ///< the id that closes a document; never made by encode()
  virtual void encode(std::string_view text, std::vector<int32_t>& ids) = 0;  ///< appends the ids of UTF-8 text
  virtual std::string decode(std::span<const int32_t> ids) const = 0;  ///< user_error for an id outside the vocabulary
  virtual std::string model_bytes() const = 0;                         ///< all that is needed to build it again
  virtual std::unique_ptr<Tokenizer> clone() const = 0;

  std::vector<int32_t> encode(std::string_view text);
  /// 32 hexadecimal digits over name and model: equal fingerprints give equal ids.
  std::string fingerprint() const;
};

/// The self-contained form kept in a dataset or checkpoint, so that no external file is needed later.
std::string serialise_tokenizer(const Tokenizer& tokenizer);
/// The reverse; user_error when the bytes are not a tokenizer of a known kind. `origin` names them in messages.
std::unique_ptr<Tokenizer> restore_tokenizer(const std::string& bytes, const std::string& origin);

}  // namespace longhaul
