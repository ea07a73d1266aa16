#include "launch/commands/eval.h"

#include <memory>

#include "core/comm/agreement.h"
#include "data/shards/manifest.h"
#include "data/stream/token_stream.h"
#include "kernels/error.h"
#include "launch/arguments.h"
#include "launch/evaluation_dump.h"
#include "launch/metrics/progress.h"
#include "launch/router_file.h"
#include "launch/trained_model.h"
#include "launch/training/threads.h"
#include "launch/training/validation.h"
#include "launch/world_frame.h"

namespace longhaul {
namespace {

constexpr const char* kUsage =
    "usage: longhaul eval MODEL [--data DIR] [--split valid] [--rows N] [--max-tokens N] [--context N] [--threads N]\n"
    "       longhaul eval MODEL --ids FILE --dump FILE [--gradients]\n"
    "\n"
    "  MODEL is one of  --run DIR (newest checkpoint)   --checkpoint DIR   --hf DIR (Hugging Face)\n"
    "  --weights KIND      raw (default), ema, swa, or best: which of these the last validation found best\n"
    "  --router            decide entropy gates by the routers of `longhaul fit-router` instead of exactly\n"
    "  --data DIR          dataset made by `longhaul tokenize` or `synth` (default: the datasets of the run)\n"
    "  --split NAME        train, valid (default) or test\n"
    "  --rows N            rows scored at a time (default 1); the result does not depend on it\n"
    "  --max-tokens N      read at most about N tokens (default: all)\n"
    "  --context N         tokens per row (default: that of the run)\n"
    "  --ids FILE          JSON array of rows of token ids; a row is [1, 2, 3] or packed documents [[1, 2], [3]]\n"
    "  --dump FILE         safetensors: 'logits.R' of each row R, 'cross_entropy' (sum) and 'valid_targets'; of "
    "entropy\n"
    "                      gates 'entropy.R.K' and 'fired.R.K' of each block K; with --gradients\n"
    "                      also 'gradient.NAME' of the mean cross-entropy, in the names and layouts of `longhaul "
    "export`\n"
    "\n"
    "prints the mean cross-entropy in nats per token, the perplexity and the accuracy (the share of targets that are "
    "the\n"
    "most probable token), every target counted once; data with target masks counts only what they allow; for entropy "
    "gates\n"
    "the share of tokens on which they fired\n"
    "\n"
    "examples:\n"
    "  longhaul eval --run runs/tiny --split valid\n"
    "  mpirun -n 2 longhaul eval --run runs/tiny --data data/other\n"
    "  longhaul eval --hf exported/gpt2 --ids ids.json --dump logits.safetensors --gradients\n";

TrainedModel load_model(const Arguments& arguments) {
  const int sources = arguments.has("run") + arguments.has("checkpoint") + arguments.has("hf");
  if (sources != 1)
    throw user_error("longhaul eval needs exactly one of --run, --checkpoint and --hf, found {}", sources);
  if (arguments.has("hf")) {
    if (arguments.has("router")) throw user_error("longhaul eval: --router has no meaning with --hf");
    return load_huggingface_model(arguments.text("hf"));
  }
  const std::string path = arguments.has("run") ? arguments.text("run") : arguments.text("checkpoint");
  TrainedModel trained = load_trained_model(path, arguments.text("weights", "raw"));
  if (arguments.has("router")) use_routers(*trained.model, trained.origin, trained.weights);
  return trained;
}

/// Refuses data whose ids mean something else to the model.
void check_data(const TrainedModel& trained, const DataConfig& data) {
  for (const DatasetChoice& choice : data.datasets) {
    const TokenizerRecord record = read_manifest(choice.directory).tokenizer;
    if (record.vocab_size > trained.model->config().vocab_size) {
      throw user_error("{}: its tokenizer '{}' has {} ids but the model of {} has a vocabulary of {}",
                       choice.directory.string(), record.name, record.vocab_size, trained.origin.string(),
                       trained.model->config().vocab_size);
    }
    if (trained.tokenizer && trained.tokenizer->fingerprint() != record.fingerprint) {
      throw user_error(
          "{}: made with another tokenizer ('{}') than the model of {} ('{}'); tokenize the text again with that",
          choice.directory.string(), record.name, trained.origin.string(), trained.tokenizer->name());
    }
  }
}

DataConfig data_of(const Arguments& arguments, const TrainedModel& trained) {
  DataConfig data = trained.configuration.values.data;
  if (arguments.has("data")) data.datasets = parse_dataset_choices(arguments.text("data"));
  if (data.datasets.empty()) throw user_error("longhaul eval needs --data with a model from --hf");
  data.context = arguments.integer("context", data.context, 1);
  if (data.context > trained.model->config().context_length) {
    throw user_error("--context {}: the model reads at most {} tokens", data.context,
                     trained.model->config().context_length);
  }
  return data;
}

double share(int64_t part, int64_t whole) { return 100 * static_cast<double>(part) / static_cast<double>(whole); }

int score_split(World& world, const Arguments& arguments) {
  TrainedModel trained;
  std::unique_ptr<ValidationSet> set;
  DataConfig data;
  const std::string split = arguments.text("split", "valid");
  agree(world.group(), "model and data", [&] {
    trained = load_model(arguments);
    data = data_of(arguments, trained);
    check_data(trained, data);
    set = std::make_unique<ValidationSet>(data, split);
  });
  const int64_t rows = validation_rows(set->rows_total(), data.context, arguments.integer("max-tokens", 0));
  Progress progress("eval", world.group().is_root() ? rows : 0);
  const ValidationScore score = score_rows(
      world.group(), *trained.model, rows, arguments.integer("rows", 1, 1),
      [&](int64_t first, int64_t count) { return set->rows(first, count); },
      [&](int64_t done) { progress.show(done); });
  if (world.group().is_root()) {
    fmt::print("model {} (step {}, {} weights), split {}: {} rows of {} tokens\n", trained.origin.string(),
               trained.step, trained.weights, split, score.rows, data.context);
    fmt::print("CE {:.6f}  perplexity {:.4f}  accuracy {:.6f}  over {} targets\n", score.mean(), score.perplexity(),
               score.accuracy(), score.valid_targets);
    for (size_t gate = 0; gate < score.gates.size(); ++gate) {
      fmt::print("gate {} fired on {:.3f} % of {} tokens, {:.3f} % of those with a target\n", gate,
                 share(score.gates[gate].fired, score.tokens), score.tokens,
                 share(score.gates[gate].fired_on_targets, score.valid_targets));
    }
  }
  return 0;
}

int run(const std::vector<std::string>& words) {
  return with_world([&](World& world) {
    std::unique_ptr<Arguments> arguments;
    agree(world.group(), "command line", [&] {
      arguments = std::make_unique<Arguments>(
          "eval", words,
          ArgumentSpec{.options = {"run=", "checkpoint=", "hf=", "weights=", "data=", "split=", "rows=", "max-tokens=",
                                   "context=", "threads=", "ids=", "dump=", "gradients", "router"}});
      if (arguments->has("ids") != arguments->has("dump"))
        throw user_error("longhaul eval: --ids and --dump go together");
    });
    set_threads(world.group(), arguments->integer("threads", 0));
    if (!arguments->has("ids")) return score_split(world, *arguments);
    agree(world.group(), "dump", [&] {
      if (!world.group().is_root()) return;
      const TrainedModel trained = load_model(*arguments);
      write_evaluation_dump(*trained.model, read_dump_rows(arguments->text("ids")), arguments->has("gradients"),
                            arguments->text("dump"));
      fmt::print("dumped to {}\n", arguments->text("dump"));
    });
    return 0;
  });
}

}  // namespace

Command eval_command() {
  return {"eval", "cross-entropy and accuracy of a model on a split; dumps logits and gradients", kUsage, run};
}

}  // namespace longhaul
