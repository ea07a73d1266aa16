#include "launch/study/ablation.h"

#include <algorithm>

#include "core/models/language_model.h"
#include "data/shards/manifest.h"
#include "data/stream/token_stream.h"
#include "kernels/error.h"
#include "launch/config/value_parser.h"

namespace longhaul {
namespace {

void take_out_prior_and_game(Configuration& configuration) {
  configuration.game.lengths.clear();
  configuration.model.rpa.prior = "off";
}

void take_out_control(Configuration& configuration) {
  configuration.guardian.enabled = false;
  configuration.temperature.enabled = false;
  configuration.schedule.chaos_amplitude = 0;
}

void take_out_selective_average(Configuration& configuration) { configuration.swa.enabled = false; }

/// user_error naming the directory that is no dataset and how to make one.
void require_datasets(const DataConfig& data) {
  if (data.datasets.empty()) throw user_error("data.datasets is empty; name directories made by `longhaul tokenize`");
  for (const DatasetChoice& choice : data.datasets) {
    if (std::filesystem::exists(choice.directory / Manifest::kFileName)) continue;
    throw user_error(
        "data.datasets: {} holds no dataset; make it with `longhaul tokenize --input wiki.train.raw --valid-input "
        "wiki.valid.raw --out {} --document-separator line --tokenizer KIND` (see docs/tutorial.md) or name another "
        "with --set data.datasets=DIR",
        choice.directory.string(), choice.directory.string());
  }
}

void require_results(const Configuration& configuration) {
  if (configuration.validation.every == 0) {
    throw user_error("validation.every is 0; the study compares validations: set the steps between them");
  }
  if (!configuration.metrics.jsonl)
    throw user_error("metrics.jsonl is false; the study reads metrics.jsonl: set it to true");
}

/// `top` with what the rungs above `rung` add taken out, and a model of all its sizes.
ResolvedConfiguration of_rung(const ResolvedConfiguration& top, size_t rung) {
  const std::vector<Rung>& rungs = ablation_rungs();
  ResolvedConfiguration configuration = top;
  for (size_t above = rung + 1; above < rungs.size(); ++above) rungs[above].take_out(configuration.values);
  configuration.values.model = resolved(configuration.values.model);
  configuration.refresh_text();
  for (const ConfigurationDifference& difference : differences(configuration.text, top.text)) {
    if (!difference.key.starts_with("model.")) configuration.origin[difference.key] = "study";
  }
  return configuration;
}

ResolvedConfiguration of_run(const ResolvedConfiguration& rung, uint64_t seed, const std::filesystem::path& directory) {
  ResolvedConfiguration configuration = rung;
  configuration.values.train.seed = configuration.values.data.seed = seed;
  configuration.values.train.run_dir = directory.string();
  configuration.refresh_text();
  for (const char* key : {"train.seed", "data.seed", "train.run_dir"}) configuration.origin[key] = "study";
  return configuration;
}

/// One configuration per rung, comparable with one another.
std::vector<ResolvedConfiguration> configurations_of(const ResolvedConfiguration& top) {
  const std::vector<Rung>& rungs = ablation_rungs();
  std::vector<ResolvedConfiguration> configurations;
  for (size_t rung = 0; rung < rungs.size(); ++rung) {
    configurations.push_back(of_rung(top, rung));
    if (rung == 0) continue;
    const ResolvedConfiguration& below = configurations[rung - 1];
    if (differences(configurations[rung].text, below.text).empty()) {
      throw user_error(
          "study ablation: rung '{}' adds nothing to '{}'; the configuration describes the whole ladder: {}",
          rungs[rung].name, rungs[rung - 1].name,
          "rpa.prior, game.lengths, guardian.enabled or schedule.chaos_amplitude, and swa.enabled");
    }
    const int64_t ours = count_parameters(configurations[rung].values.model);
    const int64_t theirs = count_parameters(below.values.model);
    if (ours != theirs) {
      throw user_error(
          "study ablation: rung '{}' has {} parameters, '{}' has {}; expected equal ones: model.family = "
          "fuzzy_transformer keeps them without the prior",
          rungs[rung].name, ours, rungs[rung - 1].name, theirs);
    }
  }
  return configurations;
}

}  // namespace

const std::vector<Rung>& ablation_rungs() {
  static const std::vector<Rung> rungs = {
      {"baseline", "baseline", nullptr},
      {"game", "+ game and alignment", take_out_prior_and_game},
      {"guardian", "+ Guardian and schedules", take_out_control},
      {"swa", "+ selective SWA", take_out_selective_average},
  };
  return rungs;
}

Ablation plan_ablation(const ResolvedConfiguration& top, const std::vector<uint64_t>& seeds,
                       const std::filesystem::path& out) {
  require_datasets(top.values.data);
  require_results(top.values);
  ResolvedConfiguration sized = top;
  if (sized.values.model.vocab_size == 0) {
    sized.values.model.vocab_size = TokenStream(sized.values.data).vocab_size();
    sized.origin["model.vocab_size"] = "tokenizer of data.datasets";
  }
  const std::vector<ResolvedConfiguration> rungs = configurations_of(sized);
  Ablation ablation;
  ablation.parameters = count_parameters(rungs.front().values.model);
  for (const uint64_t seed : seeds) {
    for (size_t rung = 0; rung < rungs.size(); ++rung) {
      const std::filesystem::path directory = out / fmt::format("{}-seed{}", ablation_rungs()[rung].name, seed);
      ablation.runs.push_back({rung, seed, of_run(rungs[rung], seed, directory), directory});
    }
  }
  return ablation;
}

std::vector<uint64_t> parse_seeds(const std::string& text) {
  std::vector<uint64_t> seeds;
  for (size_t begin = 0, end; begin <= text.size(); begin = end + 1) {
    end = std::min(text.find(',', begin), text.size());
    seeds.push_back(static_cast<uint64_t>(parse_integer("--seeds", text.substr(begin, end - begin), 0)));
    if (std::count(seeds.begin(), seeds.end(), seeds.back()) > 1) {
      throw user_error("--seeds {}: {} stands there twice", text, seeds.back());
    }
  }
  return seeds;
}

}  // namespace longhaul
