#include "launch/command_list.h"

#include "launch/commands/bench.h"
#include "launch/commands/config.h"
#include "launch/commands/eval.h"
#include "launch/commands/export.h"
#include "launch/commands/fit_router.h"
#include "launch/commands/generate.h"
#include "launch/commands/hash.h"
#include "launch/commands/import.h"
#include "launch/commands/inspect.h"
#include "launch/commands/stream.h"
#include "launch/commands/study.h"
#include "launch/commands/synth.h"
#include "launch/commands/tokenize.h"
#include "launch/commands/train.h"
#include "launch/commands/verify.h"
#include "launch/commands/version.h"

// One line per subcommand here and one below; nothing else needs touching.

namespace longhaul {

std::vector<Command> command_list() {
  return {
      tokenize_command(),    //
      synth_command(),       //
      verify_command(),      //
      inspect_command(),     //
      stream_command(),      //
      train_command(),       //
      eval_command(),        //
      generate_command(),    //
      fit_router_command(),  //
      export_command(),      //
      import_command(),      //
      hash_command(),        //
      bench_command(),       //
      study_command(),       //
      config_command(),      //
      version_command(),
  };
}

}  // namespace longhaul
