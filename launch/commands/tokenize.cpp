#include "launch/commands/tokenize.h"

#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <thread>

#include "core/io/file.h"
#include "data/shards/dataset_builder.h"
#include "data/shards/writer_lock.h"
#include "data/text/training_lines.h"
#include "data/tokenizers/byte_pair_tokenizer.h"
#include "data/tokenizers/byte_tokenizer.h"
#include "data/tokenizers/sentencepiece_tokenizer.h"
#include "kernels/error.h"
#include "launch/arguments.h"
#include "launch/exit_codes.h"
#include "launch/metrics/progress.h"

namespace longhaul {
namespace {

constexpr const char* kUsage =
    "usage: longhaul tokenize --input FILE... --out DIR --tokenizer KIND [OPTION]...\n"
    "\n"
    "  --input FILE...             text, JSON lines (.jsonl), gzip (.gz) of both; read in this order\n"
    "  --valid-input FILE, --test-input FILE\n"
    "                              text of that split alone, may be repeated; --input is then train alone, unless "
    "--split "
    "says else\n"
    "  --out DIR                   new, empty, or left by a tokenize that did not end; a finished dataset is never "
    "replaced\n"
    "  --tokenizer gpt2            byte-level BPE; needs --encoder-json FILE --vocab-bpe FILE\n"
    "  --tokenizer sentencepiece   needs --model FILE, or --train-sentencepiece N (a vocabulary of N, from this text)\n"
    "  --tokenizer bytes           ids are bytes, 256 ends a document\n"
    "  --document-separator S      blank-lines (default), line or file: what stands between the documents of a text\n"
    "  --format F                  auto (default, by name), text or jsonl\n"
    "  --text-key KEY              JSON lines: which value is the text (default text)\n"
    "  --split A,B,C               shares of train, valid and test, by document (default 98,1,1); 0: no such split\n"
    "  --split-seed N              of the draw that puts each document into a split (default 0)\n"
    "  --shard-tokens N            a shard is closed by the document that fills it (default 67108864)\n"
    "  --workers N                 threads (default: cores); any number gives the same bytes\n"
    "\n"
    "  Bad text never stops the work: see docs/formats.md for what is kept, replaced or dropped; each class is "
    "counted.\n"
    "\n"
    "examples:\n"
    "  longhaul tokenize --input books/*.txt --out data/books --tokenizer bytes\n"
    "  longhaul tokenize --input web.jsonl.gz --out data/web --tokenizer gpt2 --encoder-json encoder.json --vocab-bpe "
    "vocab.bpe\n"
    "  longhaul tokenize --input corpus.txt --out data/corpus --tokenizer sentencepiece --train-sentencepiece 8000\n"
    "  longhaul tokenize --input wiki.train.raw --valid-input wiki.valid.raw --test-input wiki.test.raw --out "
    "data/wikitext2 \\\n"
    "      --document-separator line --tokenizer gpt2 --encoder-json encoder.json --vocab-bpe vocab.bpe\n";

/// The index of the value among the names; user_error that lists them.
size_t choice(const Arguments& arguments, const std::string& option, const std::vector<std::string>& names) {
  const std::string value = arguments.text(option, names.front());
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i] == value) return i;
  }
  throw user_error("--{} {}: expected one of {}", option, value, fmt::join(names, ", "));
}

void allow_only_for(const Arguments& arguments, const std::string& kind, const std::vector<std::string>& options) {
  for (const std::string& option : options) {
    if (arguments.has(option) && arguments.text("tokenizer") != kind) {
      throw user_error("--{} belongs to --tokenizer {}, found --tokenizer {}", option, kind,
                       arguments.text("tokenizer"));
    }
  }
}

std::unique_ptr<Tokenizer> train_tokenizer(const BuildOptions& options, int64_t vocab_size) {
  fmt::print(stderr, "training a SentencePiece vocabulary of {}\n", vocab_size);
  std::vector<std::filesystem::path> training;
  for (size_t i = 0; i < options.inputs.size(); ++i) {
    if (!options.input_splits[i]) training.push_back(options.inputs[i]);
  }
  TrainingLines lines(training, options.records);
  return std::make_unique<SentencePieceTokenizer>(
      train_sentencepiece([&](std::string& line) { return lines.next(line); }, vocab_size));
}

std::unique_ptr<Tokenizer> make_tokenizer(const Arguments& arguments, const BuildOptions& options) {
  const std::string kind = arguments.text("tokenizer");
  allow_only_for(arguments, "gpt2", {"encoder-json", "vocab-bpe"});
  allow_only_for(arguments, "sentencepiece", {"model", "train-sentencepiece"});
  if (kind == "bytes") return std::make_unique<ByteTokenizer>();
  if (kind == "gpt2") {
    const std::string encoder_json = arguments.text("encoder-json"), vocab_bpe = arguments.text("vocab-bpe");
    return std::make_unique<BytePairTokenizer>(BytePairTables::from_files(encoder_json, vocab_bpe));
  }
  if (kind != "sentencepiece") throw user_error("--tokenizer {}: expected gpt2, sentencepiece or bytes", kind);
  if (arguments.has("model") == arguments.has("train-sentencepiece")) {
    throw user_error("--tokenizer sentencepiece needs either --model FILE or --train-sentencepiece N");
  }
  if (arguments.has("model")) return std::make_unique<SentencePieceTokenizer>(read_file(arguments.text("model")));
  return train_tokenizer(options, arguments.integer("train-sentencepiece", 0, 1));
}

BuildOptions build_options(const Arguments& arguments) {
  BuildOptions options;
  for (const std::string& file : arguments.all("input")) options.inputs.emplace_back(file);
  for (const std::string& file : arguments.operands()) options.inputs.emplace_back(file);
  if (options.inputs.empty()) throw user_error("longhaul tokenize needs --input; see `longhaul tokenize --help`");
  options.input_splits.resize(options.inputs.size());
  for (const auto& [name, split] : {std::pair{"valid-input", 1}, std::pair{"test-input", 2}}) {
    for (const std::string& file : arguments.all(name)) {
      options.inputs.emplace_back(file);
      options.input_splits.emplace_back(split);
    }
  }
  const bool placed = arguments.has("valid-input") || arguments.has("test-input");
  options.output = arguments.text("out");
  options.records.separator =
      static_cast<Separator>(choice(arguments, "document-separator", {"blank-lines", "line", "file"}));
  options.records.format = static_cast<TextFormat>(choice(arguments, "format", {"auto", "text", "jsonl"}));
  options.records.text_key = arguments.text("text-key", options.records.text_key);
  options.shares = parse_split_shares(arguments.text("split", placed ? "1,0,0" : "98,1,1"));
  options.split_seed = static_cast<uint64_t>(arguments.integer("split-seed", 0));
  options.shard_tokens = arguments.integer("shard-tokens", options.shard_tokens, 1);
  options.workers = arguments.integer("workers", std::max(1u, std::thread::hardware_concurrency()), 1);
  return options;
}

/// Bytes of all inputs; 0 (unknown) when one is packed.
int64_t input_bytes(const std::vector<std::filesystem::path>& inputs) {
  int64_t bytes = 0;
  for (const auto& input : inputs) {
    if (input.extension() == ".gz" || !std::filesystem::is_regular_file(input)) return 0;
    bytes += static_cast<int64_t>(std::filesystem::file_size(input));
  }
  return bytes;
}

void print_result(const BuildOptions& options, const BuildResult& result) {
  fmt::print("{}", result.counts.report());
  const TokenizerRecord& tokenizer = result.manifest.tokenizer;
  fmt::print("tokenizer {} with {} tokens, fingerprint {}\n", tokenizer.name, tokenizer.vocab_size,
             tokenizer.fingerprint);
  for (const char* split : kSplitNames) {
    int64_t shards = 0, documents = 0, tokens = 0;
    for (const ShardEntry& entry : result.manifest.shards) {
      if (entry.split != split) continue;
      ++shards;
      documents += entry.documents;
      tokens += entry.tokens;
    }
    if (shards > 0) fmt::print("{:<6} {:>12} tokens {:>10} documents {:>6} shards\n", split, tokens, documents, shards);
  }
  fmt::print("dataset {}\n", options.output.string());
}

int run(const std::vector<std::string>& words) {
  const Arguments arguments("tokenize", words,
                            {.options = {"input=", "valid-input=", "test-input=", "out=", "tokenizer=", "encoder-json=",
                                         "vocab-bpe=", "model=", "train-sentencepiece=", "document-separator=",
                                         "format=", "text-key=", "split=", "split-seed=", "shard-tokens=", "workers="},
                             .repeatable = {"input", "valid-input", "test-input"},
                             .most_operands = 1 << 30});
  BuildOptions options = build_options(arguments);
  WriterLock::require_free(options.output);  // before a vocabulary is trained
  const auto tokenizer = make_tokenizer(arguments, options);
  BuildResult result;
  {
    Progress progress("tokenize", input_bytes(options.inputs));
    options.progress = [&](const BuildProgress& now) { progress.show(now.bytes); };
    result = build_dataset(options, *tokenizer);
  }
  print_result(options, result);
  return kExitOk;
}

}  // namespace

Command tokenize_command() { return {"tokenize", "turn raw text into HDF5 token shards", kUsage, run}; }

}  // namespace longhaul
