// The ladder of models.md 7 as training runs: a baseline, and one after the other what length-aware training adds to
// it. All rungs have the same parameters, tokens and seeds.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "launch/config/load_configuration.h"

namespace longhaul {

struct Rung {
  std::string name;   ///< of its run directories: "game"
  std::string title;  ///< in tables: "+ game and alignment"
  /// Takes out of a configuration what this rung adds to the one below it; nothing for the lowest.
  void (*take_out)(Configuration&) = nullptr;
};

/// From the baseline up. The configuration of a study describes the highest.
const std::vector<Rung>& ablation_rungs();

struct AblationRun {
  size_t rung = 0;  ///< index into ablation_rungs()
  uint64_t seed = 0;
  ResolvedConfiguration configuration;  ///< its train.run_dir is `directory`
  std::filesystem::path directory;      ///< OUT/<rung>-seed<seed>
};

struct Ablation {
  std::vector<AblationRun> runs;  ///< rung by rung for the first seed, then for the next
  int64_t parameters = 0;         ///< of each run
};

/// The runs of a study: of `top` and every seed, as train.seed and data.seed. Reads the manifests of the datasets.
/// user_error naming the key when a run could not be compared: no dataset, no validation, no metrics.jsonl, a rung that
/// adds nothing, numbers of parameters that differ.
Ablation plan_ablation(const ResolvedConfiguration& top, const std::vector<uint64_t>& seeds,
                       const std::filesystem::path& out);

/// "1,2,3"; user_error unless whole numbers >= 0, none twice.
std::vector<uint64_t> parse_seeds(const std::string& text);

}  // namespace longhaul
