#include "data/tokenizers/sentencepiece_tokenizer.h"

#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>

#include "kernels/error.h"

namespace longhaul {
namespace {

// Feeds the trainer; the empty line is left out because it would end nothing and teach nothing.
class LineIterator final : public sentencepiece::SentenceIterator {
 public:
  explicit LineIterator(const std::function<bool(std::string&)>& next_line) : next_line_(next_line) { Next(); }
  bool done() const override { return done_; }
  void Next() override {
    do {
      done_ = !next_line_(line_);
    } while (!done_ && line_.empty());
  }
  const std::string& value() const override { return line_; }
  sentencepiece::util::Status status() const override { return {}; }

 private:
  const std::function<bool(std::string&)>& next_line_;
  std::string line_;
  bool done_ = false;
};

}  // namespace

SentencePieceTokenizer::SentencePieceTokenizer(std::string model)
    : model_(std::make_shared<const std::string>(std::move(model))) {
  auto processor = std::make_shared<sentencepiece::SentencePieceProcessor>();
  const auto status = processor->LoadFromSerializedProto(*model_);
  if (!status.ok()) throw user_error("sentencepiece: found no model ({}), expected a .model file", status.message());
  if (processor->eos_id() < 0) {
    throw user_error("sentencepiece: found a model without end-of-sentence piece, expected one to end documents with");
  }
  processor_ = std::move(processor);
}

SentencePieceTokenizer::SentencePieceTokenizer(Shared, const SentencePieceTokenizer& other)
    : model_(other.model_), processor_(other.processor_) {}

std::unique_ptr<Tokenizer> SentencePieceTokenizer::clone() const {
  return std::unique_ptr<Tokenizer>(new SentencePieceTokenizer(Shared{}, *this));
}

int64_t SentencePieceTokenizer::vocab_size() const { return processor_->GetPieceSize(); }

int32_t SentencePieceTokenizer::end_of_text() const { return processor_->eos_id(); }

void SentencePieceTokenizer::encode(std::string_view text, std::vector<int32_t>& ids) {
  std::vector<int> pieces;
  const auto status = processor_->Encode({text.data(), text.size()}, &pieces);
  if (!status.ok()) throw internal_error("sentencepiece: encoding failed: {}", status.message());
  ids.insert(ids.end(), pieces.begin(), pieces.end());
}

std::string SentencePieceTokenizer::decode(std::span<const int32_t> ids) const {
  std::vector<int> pieces;
  for (const int32_t id : ids) {
    if (id < 0 || id >= vocab_size()) {
      throw user_error("sentencepiece tokenizer: found id {}, expected ids in [0, {})", id, vocab_size());
    }
    pieces.push_back(id);
  }
  std::string text;
  const auto status = processor_->Decode(pieces, &text);
  if (!status.ok()) throw internal_error("sentencepiece: decoding failed: {}", status.message());
  return text;
}

std::string train_sentencepiece(const std::function<bool(std::string&)>& next_line, int64_t vocab_size) {
  LineIterator lines(next_line);
  if (lines.done()) throw user_error("sentencepiece training: found no text, expected lines to train on");
  std::string model;
  const auto status = sentencepiece::SentencePieceTrainer::Train({{"model_type", "bpe"},
                                                                  {"vocab_size", std::to_string(vocab_size)},
                                                                  {"character_coverage", "0.9995"},
                                                                  {"byte_fallback", "true"},
                                                                  {"normalization_rule_name", "identity"},
                                                                  {"remove_extra_whitespaces", "false"},
                                                                  {"add_dummy_prefix", "false"},
                                                                  {"split_digits", "true"},
                                                                  {"user_defined_symbols", "\n"},
                                                                  {"max_sentence_length", "1000000"},
                                                                  {"num_threads", "1"},
                                                                  {"minloglevel", "2"}},
                                                                 &lines, &model);
  if (!status.ok()) {
    std::string reason = status.message();
    for (char& c : reason) c = c == '\n' ? ' ' : c;
    throw user_error(
        "sentencepiece training: a vocabulary of {} does not fit this text; choose another size or more text: {}",
        vocab_size, reason);
  }
  return model;
}

}  // namespace longhaul
