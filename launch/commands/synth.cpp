#include "launch/commands/synth.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <future>
#include <thread>

#include "data/shards/dataset_writer.h"
#include "data/synthetic/retrieval_task.h"
#include "data/tokenizers/word_tokenizer.h"
#include "kernels/error.h"
#include "launch/arguments.h"
#include "launch/exit_codes.h"
#include "launch/metrics/progress.h"

namespace longhaul {
namespace {

constexpr int64_t kBlockDocuments = 1024;  // made by one thread at a time

constexpr const char* kUsage =
    "usage: longhaul synth retrieval --out DIR --documents N [OPTION]...\n"
    "\n"
    "  Documents that store pairs of key and value, pass some noise and ask for keys:\n"
    "      STORE key value ... STORE key value  noise ... noise  QUERY key value ... QUERY key value  <end> ... <end>\n"
    "  Ids: the symbols 0 to V - 1 (keys, values and noise alike), STORE = V, QUERY = V + 1, <end> = V + 2. A target "
    "mask\n"
    "  makes the values behind QUERY key the only targets, so `longhaul eval` reports the accuracy of the recall; "
    "chance\n"
    "  is 1 / V. Every document has --length tokens: train with data.context of that length, one document per row.\n"
    "\n"
    "  --out DIR             new, empty, or left by a synth that did not end; a finished dataset is never replaced\n"
    "  --documents N         over all splits\n"
    "  --seed S              document n follows from (S, n) and the options alone (default 0)\n"
    "  --vocabulary V        symbols (default 16)\n"
    "  --pairs A:B           pairs stored, uniform in A to B; keys differ, so at most V (default 2:5)\n"
    "  --noise A:B           noise tokens (default 50:150)\n"
    "  --queries A:B         keys asked for; none twice before all were asked once (default 3:8)\n"
    "  --length T            tokens of a document, filled up with <end> (default 256)\n"
    "  --noise-pattern P     random (default), or counting: each noise symbol is one more than that before it (modulo "
    "V),\n"
    "                        so that noise can be predicted\n"
    "  --train-targets W     of the train split: values (default); predictable: also counting noise but its first "
    "token\n"
    "                        and <end> behind <end>; all: no mask. valid and test always ask for the values alone\n"
    "  --split A,B,C         shares of train, valid and test, by document (default 98,1,1); 0: no such split\n"
    "  --shard-tokens N      a shard is closed by the document that fills it (default 67108864)\n"
    "  --workers N           threads (default: cores); any number gives the same bytes\n"
    "\n"
    "examples:\n"
    "  longhaul synth retrieval --out data/recall --documents 20000 --seed 1\n"
    "  longhaul synth retrieval --out data/hard --documents 20000 --vocabulary 64 --pairs 32 --queries 16 --length "
    "300\n";

/// "A:B" or "A", which is A:A.
CountRange range_of(const Arguments& arguments, const std::string& option, CountRange fallback) {
  if (!arguments.has(option)) return fallback;
  const std::string text = arguments.text(option);
  const size_t colon = std::min(text.find(':'), text.size());
  const auto number = [&](size_t from, size_t to, int64_t& value) {
    const auto parsed = std::from_chars(text.data() + from, text.data() + to, value);
    return parsed.ec == std::errc() && parsed.ptr == text.data() + to;
  };
  CountRange range;
  bool good = number(0, colon, range.least);
  range.most = range.least;
  if (colon < text.size()) good = number(colon + 1, text.size(), range.most) && good;
  if (!good) throw user_error("--{} {}: expected a count like 8 or a range like 2:5", option, text);
  return range;
}

/// The index of the value among the names, the first of which is the default.
size_t choice(const Arguments& arguments, const std::string& option, const std::vector<std::string>& names) {
  const std::string value = arguments.text(option, names.front());
  const auto found = std::find(names.begin(), names.end(), value);
  if (found == names.end()) throw user_error("--{} {}: expected {}", option, value, fmt::join(names, " or "));
  return static_cast<size_t>(found - names.begin());
}

/// What the train split is trained on.
enum class TrainTargets : uint8_t { kValues, kPredictable, kAll };

TrainTargets train_targets_of(const Arguments& arguments) {
  return static_cast<TrainTargets>(choice(arguments, "train-targets", {"values", "predictable", "all"}));
}

RetrievalOptions task_options(const Arguments& arguments) {
  RetrievalOptions task;
  task.vocabulary = arguments.integer("vocabulary", task.vocabulary, 2);
  task.pairs = range_of(arguments, "pairs", task.pairs);
  task.noise = range_of(arguments, "noise", task.noise);
  task.queries = range_of(arguments, "queries", task.queries);
  task.length = arguments.integer("length", task.length, 1);
  task.pattern = static_cast<NoisePattern>(choice(arguments, "noise-pattern", {"random", "counting"}));
  check_retrieval_options(task);
  return task;
}

DatasetWriterOptions writer_options(const Arguments& arguments, const RetrievalOptions& task, int64_t documents) {
  DatasetWriterOptions options;
  options.output = arguments.text("out");
  options.shares = parse_split_shares(arguments.text("split", "98,1,1"));
  options.split_seed = static_cast<uint64_t>(arguments.integer("seed", 0));
  options.shard_tokens = arguments.integer("shard-tokens", options.shard_tokens, 1);
  options.masked = {train_targets_of(arguments) != TrainTargets::kAll, true, true};
  options.notes = fmt::format(
      "synthetic retrieval: {} documents of {} tokens, vocabulary {}, pairs {}:{}, noise {}:{} ({}), queries {}:{}, "
      "seed "
      "{}, train targets {}, split {},{},{}",
      documents, task.length, task.vocabulary, task.pairs.least, task.pairs.most, task.noise.least, task.noise.most,
      task.pattern == NoisePattern::kCounting ? "counting" : "random", task.queries.least, task.queries.most,
      options.split_seed, arguments.text("train-targets", "values"), options.shares[0], options.shares[1],
      options.shares[2]);
  return options;
}

std::vector<RetrievalDocument> documents_between(const RetrievalOptions& task, uint64_t seed, int64_t begin,
                                                 int64_t end) {
  std::vector<RetrievalDocument> documents;
  for (int64_t number = begin; number < end; ++number) documents.push_back(retrieval_document(task, seed, number));
  return documents;
}

/// The validation and test splits always ask for the answers alone.
void write_document(DatasetWriter& writer, const RetrievalDocument& document, TrainTargets train_targets) {
  if (writer.next_split() != 0 || train_targets == TrainTargets::kValues) {
    writer.add_document(document.ids, document.answers);
  } else if (train_targets == TrainTargets::kPredictable) {
    writer.add_document(document.ids, document.predictable);
  } else {
    writer.add_document(document.ids);
  }
}

/// Blocks of documents are made side by side and written in their order.
void write_documents(DatasetWriter& writer, const RetrievalOptions& task, uint64_t seed, int64_t count, int64_t workers,
                     TrainTargets train_targets) {
  Progress progress("synth", count);
  for (int64_t first = 0; first < count; first += workers * kBlockDocuments) {
    std::vector<std::future<std::vector<RetrievalDocument>>> blocks;
    const int64_t last = std::min(count, first + workers * kBlockDocuments);
    for (int64_t begin = first; begin < last; begin += kBlockDocuments) {
      blocks.push_back(std::async(std::launch::async, documents_between, task, seed, begin,
                                  std::min(last, begin + kBlockDocuments)));
    }
    for (auto& block : blocks) {
      for (const RetrievalDocument& document : block.get()) write_document(writer, document, train_targets);
    }
    progress.show(last);
  }
}

int run(const std::vector<std::string>& words) {
  const Arguments arguments(
      "synth", words,
      {.options = {"out=", "documents=", "seed=", "vocabulary=", "pairs=", "noise=", "queries=", "length=",
                   "noise-pattern=", "train-targets=", "split=", "shard-tokens=", "workers="},
       .repeatable = {},
       .least_operands = 1,
       .most_operands = 1});
  if (arguments.operands().front() != "retrieval") {
    throw user_error("longhaul synth {}: no such task, expected retrieval", arguments.operands().front());
  }
  const RetrievalOptions task = task_options(arguments);
  arguments.text("documents");  // has no default
  const int64_t count = arguments.integer("documents", 0, 1);
  const auto seed = static_cast<uint64_t>(arguments.integer("seed", 0));
  const int64_t workers = arguments.integer("workers", std::max(1u, std::thread::hardware_concurrency()), 1);
  const DatasetWriterOptions options = writer_options(arguments, task, count);
  DatasetWriter writer(options, WordTokenizer(retrieval_words(task.vocabulary)));
  write_documents(writer, task, seed, count, workers, train_targets_of(arguments));
  const Manifest manifest = writer.finish();
  for (const ShardEntry& entry : manifest.shards) {
    fmt::print("{}  {} documents, {} tokens, {} targets\n", entry.name, entry.documents, entry.tokens,
               entry.targets.value_or(entry.tokens));
  }
  fmt::print("dataset {}\n", options.output.string());
  return kExitOk;
}

}  // namespace

Command synth_command() { return {"synth", "make a dataset of a synthetic task", kUsage, run}; }

}  // namespace longhaul
