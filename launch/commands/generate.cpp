#include "launch/commands/generate.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "core/comm/communicator.h"
#include "core/io/file.h"
#include "launch/arguments.h"
#include "launch/exit_codes.h"
#include "launch/generation.h"
#include "launch/router_file.h"
#include "launch/trained_model.h"
#include "launch/training/threads.h"

namespace longhaul {
namespace {

constexpr const char* kUsage =
    R"help(usage: longhaul generate --run DIR | --checkpoint DIR | --hf DIR  (--prompt TEXT)... | --prompt-file FILE | --ids FILE

Continues one or several prompts, all in one batch with a key-value cache. The result depends on the seed, the prompts'
places and the options alone, not on what else is in the batch.

  --run DIR           a run directory: its newest complete checkpoint
  --checkpoint DIR    one checkpoint directory
  --hf DIR            a Hugging Face directory, as import reads it
  --weights KIND      raw (default), ema (running average), swa (mean of snapshots), or best: as the last validation found
  --router            decide entropy gates by the routers of `longhaul fit-router` instead of exactly
  --prompt TEXT       may be repeated
  --prompt-file FILE  one prompt: the whole file
  --ids FILE          prompts as token ids: a JSON array of arrays; prints new ids in the same form
  --tokens N          new tokens per prompt (default 128); a sequence also ends at the end-of-text token
  --temperature X     default 1; 0 always takes the most probable token
  --top-k K           draw from the K most probable tokens (default 0: all)
  --top-p P           draw from the most probable tokens that hold the mass P (default 1)
  --seed N            default 0
  --threads N         default 0: all cores

For models with entropy-gated attention, what the gates executed and skipped goes to standard error.
Of a prompt longer than the model's context the last part is read. When the context is full, its last half is kept and read
again, so that generation goes on.

examples:
  longhaul generate --run runs/shakespeare --prompt "ROMEO:" --tokens 200 --temperature 0.8 --top-k 50
  longhaul generate --hf gpt2 --prompt "Once upon a time" --temperature 0
  echo '[[464, 3290]]' > ids.json && longhaul generate --hf gpt2 --ids ids.json --tokens 8
)help";

TrainedModel load_model(const Arguments& arguments) {
  const int sources = arguments.has("run") + arguments.has("checkpoint") + arguments.has("hf");
  if (sources != 1) throw user_error("longhaul generate: name the model by one of --run, --checkpoint and --hf");
  if (!arguments.has("hf")) {
    TrainedModel trained = load_trained_model(arguments.text(arguments.has("run") ? "run" : "checkpoint"),
                                              arguments.text("weights", "raw"));
    if (arguments.has("router")) use_routers(*trained.model, trained.origin, trained.weights);
    return trained;
  }
  if (arguments.has("router")) throw user_error("longhaul generate: --router has no meaning with --hf");
  if (arguments.has("weights")) throw user_error("longhaul generate: --weights has no meaning with --hf");
  return load_huggingface_model(arguments.text("hf"));
}

std::vector<std::vector<int32_t>> read_ids(const std::filesystem::path& path) {
  try {
    return nlohmann::json::parse(read_file(path)).get<std::vector<std::vector<int32_t>>>();
  } catch (const nlohmann::json::exception&) {
    throw user_error("{}: expected a JSON array of arrays of token ids, such as [[1, 2], [3]]", path.string());
  }
}

std::vector<std::string> read_prompts(const Arguments& arguments) {
  std::vector<std::string> prompts = arguments.all("prompt");
  if (const auto file = arguments.find("prompt-file")) prompts.push_back(read_file(*file));
  if (prompts.empty()) throw user_error("longhaul generate: give --prompt, --prompt-file or --ids");
  return prompts;
}

/// Tokens of the prompts. An empty prompt starts after an end-of-text token, as documents do.
std::vector<std::vector<int32_t>> encode(const std::vector<std::string>& prompts, Tokenizer& tokenizer) {
  std::vector<std::vector<int32_t>> ids;
  for (const std::string& prompt : prompts) {
    ids.push_back(tokenizer.encode(prompt));
    if (ids.back().empty()) ids.back().push_back(tokenizer.end_of_text());
  }
  return ids;
}

GenerationOptions read_options(const Arguments& arguments) {
  GenerationOptions options;
  options.max_new_tokens = arguments.integer("tokens", options.max_new_tokens, 1);
  options.sampling.temperature = arguments.number("temperature", options.sampling.temperature);
  options.sampling.top_k = arguments.integer("top-k", options.sampling.top_k);
  options.sampling.top_p = arguments.number("top-p", options.sampling.top_p);
  options.sampling.seed = static_cast<uint64_t>(arguments.integer("seed", 0));
  check(options.sampling);
  return options;
}

void print_texts(const std::vector<std::string>& prompts, const std::vector<std::vector<int32_t>>& outputs,
                 const Tokenizer& tokenizer) {
  for (size_t i = 0; i < prompts.size(); ++i) {
    if (prompts.size() > 1) fmt::print("=== prompt {}\n", i + 1);
    fmt::print("{}{}\n", prompts[i], tokenizer.decode(outputs[i]));
  }
}

int run_generate(const std::vector<std::string>& words) {
  const Arguments arguments("generate", words,
                            {{"run=", "checkpoint=", "hf=", "weights=", "prompt=", "prompt-file=", "ids=", "tokens=",
                              "temperature=", "top-k=", "top-p=", "seed=", "threads=", "router"},
                             {"prompt"}});
  GenerationOptions options = read_options(arguments);
  const bool with_ids = arguments.has("ids");
  if (with_ids && (arguments.has("prompt") || arguments.has("prompt-file"))) {
    throw user_error("longhaul generate: give either --ids or text prompts, not both");
  }
  const std::vector<std::string> prompts = with_ids ? std::vector<std::string>() : read_prompts(arguments);
  set_threads(*make_single_communicator(), arguments.integer("threads", 0));
  const TrainedModel trained = load_model(arguments);
  if (trained.tokenizer) options.stop_id = trained.tokenizer->end_of_text();
  if (!with_ids && !trained.tokenizer) {
    throw user_error("{}: has no tokenizer; give token ids with --ids", trained.origin.string());
  }
  std::vector<GateWork> work;
  const auto ids = with_ids ? read_ids(arguments.text("ids")) : encode(prompts, *trained.tokenizer);
  const std::vector<std::vector<int32_t>> outputs = generate(*trained.model, ids, options, &work);
  if (with_ids) {
    fmt::print("{}\n", nlohmann::json(outputs).dump());
  } else {
    print_texts(prompts, outputs, *trained.tokenizer);
  }
  fmt::print(stderr, "{}", gate_work_text(work, trained.model->config()));
  return kExitOk;
}

}  // namespace

Command generate_command() { return {"generate", "continue prompts with a trained model", kUsage, run_generate}; }

}  // namespace longhaul
