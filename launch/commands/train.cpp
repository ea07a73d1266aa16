#include "launch/commands/train.h"

#include "core/comm/agreement.h"
#include "launch/arguments.h"
#include "launch/trainer.h"
#include "launch/world_frame.h"

namespace longhaul {
namespace {

constexpr const char* kUsage =
    "usage: [mpirun -n RANKS] longhaul train --config FILE [--set section.key=value]... [--resume auto|none|STEP]\n"
    "\n"
    "  --config FILE   configuration; `longhaul config --keys` lists the keys\n"
    "  --set K=V       overrides one key; may be repeated\n"
    "  --resume WHAT   auto (default): the newest complete checkpoint of train.run_dir, or step 0 in a new directory;\n"
    "                  none: step 0; STEP: exactly that one. none and STEP set later checkpoints aside\n"
    "\n"
    "SIGTERM, SIGINT and SIGUSR2 stop the run after the current step with a checkpoint and exit code 75; the same "
    "command\n"
    "continues it, on any number of ranks that divides train.slots, to the same bits. Under mpirun send SIGUSR2, which "
    "it\n"
    "passes on: after SIGTERM or SIGINT mpirun itself kills the ranks within a second.\n"
    "\n"
    "examples:\n"
    "  longhaul train --config configs/tiny.ini\n"
    "  mpirun -n 2 longhaul train --config configs/tiny.ini --set train.steps=200 --set train.run_dir=runs/a\n";

int run(const std::vector<std::string>& words) {
  return with_world([&](World& world) {
    ResolvedConfiguration configuration;
    std::string resume;
    agree(world.group(), "configuration", [&] {
      const Arguments arguments("train", words, {.options = {"config=", "set=", "resume="}, .repeatable = {"set"}});
      configuration = load_configuration(arguments.text("config"), arguments.all("set"));
      resume = arguments.text("resume", "auto");
    });
    Trainer trainer(world, configuration, resume);
    return trainer.run();
  });
}

}  // namespace

Command train_command() { return {"train", "start or continue a training run", kUsage, run}; }

}  // namespace longhaul
