#include "launch/commands/hash.h"

#include <fmt/format.h>

#include "launch/arguments.h"
#include "launch/exit_codes.h"
#include "parallel/checkpoint_reader.h"
#include "parallel/checkpoint_resume.h"
#include "parallel/state_hash.h"

namespace longhaul {
namespace {

constexpr const char* kUsage =
    "usage: longhaul hash DIR [--tensors]\n"
    "\n"
    "  Prints the state hash of a checkpoint, or of the newest one of a run directory: 32 hexadecimal digits over "
    "every\n"
    "  tensor (parameters, optimizer moments, averages), step, data position and controller state. It does not depend "
    "on\n"
    "  the number of ranks that wrote the checkpoint. Every file is verified first.\n"
    "  --tensors   before it one line per tensor: checksum and name\n"
    "\n"
    "examples:\n"
    "  longhaul hash runs/tiny\n"
    "  diff <(longhaul hash a --tensors) <(longhaul hash b --tensors)\n";

int run(const std::vector<std::string>& words) {
  const Arguments arguments("hash", words,
                            {.options = {"tensors"}, .repeatable = {}, .least_operands = 1, .most_operands = 1});
  const auto checkpoint = CheckpointReader::open(resolve_checkpoint(arguments.operands()[0]));
  const StateHash hash = hash_state(checkpoint);
  if (arguments.has("tensors")) {
    for (const auto& [name, checksum] : hash.tensors) fmt::print("{}  {}\n", checksum, name);
  }
  fmt::print("{}\n", hash.total);
  return kExitOk;
}

}  // namespace

Command hash_command() { return {"hash", "print the state hash of a checkpoint or run", kUsage, run}; }

}  // namespace longhaul
