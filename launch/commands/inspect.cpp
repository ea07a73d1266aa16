#include "launch/commands/inspect.h"

#include <fmt/format.h>

#include <filesystem>

#include "data/shards/description.h"
#include "kernels/error.h"
#include "launch/arguments.h"
#include "launch/exit_codes.h"
#include "parallel/checkpoint_description.h"

namespace longhaul {
namespace {

constexpr const char* kUsage =
    "usage: longhaul inspect PATH...\n"
    "\n"
    "  A dataset directory: tokenizer, splits, how it was made, the beginning of each split. A shard file: its "
    "content.\n"
    "  A checkpoint: step, files, tensors. A run directory: its checkpoints.\n"
    "\n"
    "example:\n"
    "  longhaul inspect data/corpus\n"
    "  longhaul inspect runs/tiny\n";

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
  const Arguments arguments("inspect", words,
                            {.options = {}, .repeatable = {}, .least_operands = 1, .most_operands = 1 << 20});
  for (const std::string& path : arguments.operands()) inspect(path);
  return kExitOk;
}

}  // namespace

Command inspect_command() { return {"inspect", "describe a dataset, shard, checkpoint or run", kUsage, run}; }

}  // namespace longhaul
