#include "launch/commands/study.h"

#include <fmt/format.h>

#include "core/comm/agreement.h"
#include "core/io/file.h"
#include "kernels/error.h"
#include "launch/arguments.h"
#include "launch/exit_codes.h"
#include "launch/study/ablation_report.h"
#include "launch/study/ablation_training.h"
#include "launch/world_frame.h"

namespace longhaul {
namespace {

constexpr const char* kUsage =
    R"help(usage: [mpirun -n RANKS] longhaul study ablation --config FILE [--set section.key=value]... [--seeds 1,2,3] [--out DIR]
                                         [--table-only]

Trains the four rungs of the ladder of length-aware training, each with every seed: the baseline; with the game of context
lengths and the aligned prior; with the Guardian and the schedules as well; with the selective mean of snapshots as well. The
configuration describes the highest rung, the others are it with parts switched off: the same parameters, tokens and seeds.

  --config FILE   configuration of the whole ladder, as for `longhaul train`
  --set K=V       overrides one key; may be repeated
  --seeds N,N,... of initial weights, dropout and order of the data (default 1,2,3)
  --out DIR       where the run directories RUNG-seedN and the results go (default: train.run_dir)
  --table-only    train nothing; tables and picture again from the runs that are there

Results: ablation.md and ablation.csv (mean and sample deviation over the seeds), curves.svg. A run that has ended is not
trained again and one that was interrupted goes on from its newest checkpoint, so the same command continues a study. Signals
stop it as they stop `longhaul train`, with exit code 75.

examples:
  longhaul study ablation --config configs/wikitext2-ladder-small.ini
  mpirun -n 2 longhaul study ablation --config configs/wikitext2-ladder.ini --out runs/ladder --seeds 1
)help";

void write_report(Communicator& group, const Ablation& ablation, const std::filesystem::path& out) {
  agree(group, "study", [&] {
    if (!group.is_root()) return;
    const AblationResults results = read_results(ablation);
    const std::string table = ablation_markdown(results);
    write_file_durably(out / "ablation.md", table);
    write_file_durably(out / "ablation.csv", ablation_csv(results));
    write_file_durably(out / "curves.svg", ablation_curves(results));
    fmt::print("{}\nresults in {}: ablation.md, ablation.csv, curves.svg\n", table, out.string());
  });
}

int run(const std::vector<std::string>& words) {
  return with_world([&](World& world) {
    Ablation ablation;
    std::filesystem::path out;
    bool train = true;
    agree(world.group(), "study", [&] {
      const Arguments arguments("study", words,
                                {.options = {"config=", "set=", "seeds=", "out=", "table-only"},
                                 .repeatable = {"set"},
                                 .least_operands = 1,
                                 .most_operands = 1});
      const std::string& kind = arguments.operands()[0];
      if (kind != "ablation") throw user_error("longhaul study: expected ablation, found '{}'", kind);
      const ResolvedConfiguration top = load_configuration(arguments.text("config"), arguments.all("set"));
      out = arguments.text("out", top.values.train.run_dir);
      ablation = plan_ablation(top, parse_seeds(arguments.text("seeds", "1,2,3")), out);
      train = !arguments.has("table-only");
    });
    const int code = train ? train_ablation(world, ablation) : kExitOk;
    if (code == kExitOk) write_report(world.group(), ablation, out);
    return code;
  });
}

}  // namespace

Command study_command() { return {"study", "compare the parts of length-aware training", kUsage, run}; }

}  // namespace longhaul
