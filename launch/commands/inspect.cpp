#include "launch/commands/inspect.h"

#include <fmt/format.h>

#include <filesystem>

#include "data/shards/description.h"
#include "kernels/error.h"
#include "launch/arguments.h"
#include "launch/exit_codes.h"
#include "launch/pictures/prior_pictures.h"
#include "launch/trained_model.h"
#include "parallel/checkpoint_description.h"

namespace longhaul {
namespace {

constexpr const char* kUsage =
    "usage: longhaul inspect PATH...\n"
    "       longhaul inspect RUN --prior DIR [--length T] [--weights KIND]\n"
    "\n"
    "  A dataset directory: tokenizer, splits, how it was made, the beginning of each split. A shard file: its "
    "content.\n"
    "  A checkpoint: step, files, tensors. A run directory: its checkpoints.\n"
    "\n"
    "  --prior DIR     pictures (SVG) of the length-aware prior and the mean memberships of a run or checkpoint, as "
    "inference\n"
    "                  uses them: one per layer and trained length\n"
    "  --length T      of rows of T tokens instead\n"
    "  --weights KIND  raw (default), ema, swa or best, for the slope of the distance penalty\n"
    "\n"
    "example:\n"
    "  longhaul inspect data/corpus\n"
    "  longhaul inspect runs/tiny\n"
    "  longhaul inspect runs/aware --prior pictures --length 1024\n";

/// The trained lengths, or the longest row when nothing was trained.
std::vector<int64_t> lengths_of(const LanguageModel& model) {
  std::vector<int64_t> lengths;
  if (model.prior_memory() != nullptr) {
    for (const auto& [length, entry] : model.prior_memory()->entries()) lengths.push_back(length);
  }
  if (lengths.empty()) lengths.push_back(model.config().context_length);
  return lengths;
}

void draw_prior_of(const Arguments& arguments) {
  if (arguments.operands().size() != 1) throw user_error("longhaul inspect --prior: expected one run or checkpoint");
  const std::string& path = arguments.operands()[0];
  if (!is_checkpoint_path(path)) throw user_error("{}: neither a run nor a checkpoint; --prior draws those", path);
  const TrainedModel trained = load_trained_model(path, arguments.text("weights", "raw"));
  std::vector<int64_t> lengths = lengths_of(*trained.model);
  if (arguments.has("length")) lengths = {arguments.integer("length", 0, 1)};
  const auto files = write_prior_pictures(*trained.model, lengths, arguments.text("prior"));
  for (const auto& file : files) fmt::print("{}\n", file.string());
}

void inspect(const std::string& path) {
  if (!std::filesystem::exists(path)) throw user_error("{}: no such file or directory", path);
  if (is_checkpoint_path(path)) {
    fmt::print("{}", describe_checkpoint(path));
    return;
  }
  if (!is_dataset_path(path)) {
    throw user_error("{}: found neither a dataset (made by `longhaul tokenize`), a shard, a checkpoint nor a run",
                     path);
  }
  fmt::print("{}", describe_dataset(path));
}

int run(const std::vector<std::string>& words) {
  const Arguments arguments(
      "inspect", words,
      {.options = {"prior=", "length=", "weights="}, .repeatable = {}, .least_operands = 1, .most_operands = 1 << 20});
  if (arguments.has("prior")) {
    draw_prior_of(arguments);
    return kExitOk;
  }
  for (const char* option : {"length", "weights"}) {
    if (arguments.has(option)) throw user_error("longhaul inspect: --{} belongs to --prior", option);
  }
  for (const std::string& path : arguments.operands()) inspect(path);
  return kExitOk;
}

}  // namespace

Command inspect_command() {
  return {"inspect", "describe a dataset, shard, checkpoint or run; draw a prior", kUsage, run};
}

}  // namespace longhaul
