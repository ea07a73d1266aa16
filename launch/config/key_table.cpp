#include "launch/config/key_table.h"

#include <algorithm>

#include "kernels/error.h"
#include "launch/config/key_makers.h"

namespace longhaul {
namespace {

std::string dataset_text(const Configuration& c) {
  std::string result;
  for (const DatasetChoice& choice : c.data.datasets) {
    result += (result.empty() ? "" : ",") + choice.directory.string();
    if (choice.weight != 1) result += "=" + number_text(choice.weight);
  }
  return result;
}

ConfigKey datasets_key() {
  return {"data",
          "datasets",
          "DIR[=WEIGHT],...",
          "directories made by `longhaul tokenize`, with their share of the rows",
          false,
          [](Configuration& c, const std::string& value) {
            try {
              c.data.datasets = parse_dataset_choices(value);
            } catch (const Error& error) {
              throw error.within("data.datasets");
            }
          },
          dataset_text};
}

ConfigKey verify_key() {
  return {"data",
          "verify",
          "checksum or size",
          "what is checked before a shard is opened; size: trust a recent `longhaul verify`",
          false,
          [](Configuration& c, const std::string& value) {
            const bool checksum = parse_choice("data.verify", value, {"checksum", "size"}) == "checksum";
            c.data.verify = checksum ? ShardVerification::kChecksum : ShardVerification::kSize;
          },
          [](const Configuration& c) {
            return std::string(c.data.verify == ShardVerification::kChecksum ? "checksum" : "size");
          }};
}

std::vector<ConfigKey> data_keys() {
  constexpr auto S = &Configuration::data;
  using D = DataConfig;
  return {
      datasets_key(),
      integer<S, &D::context>("context", 0, "tokens per row; 0: model.context_length"),
      boolean<S, &D::document_mask>("document_mask", "documents packed in one row never see each other"),
      boolean<S, &D::shuffle>("shuffle", "false: rows in the order in which they lie"),
      seed_key<S, &D::seed>("order of the rows"),
      verify_key(),
      integer<S, &D::open_shards>("open_shards", 1, "open files per dataset and rank at most"),
  };
}

std::vector<ConfigKey> train_keys() {
  constexpr auto S = &Configuration::train;
  using T = TrainConfig;
  return {
      integer<S, &T::steps>("steps", 1, "optimizer steps of the whole run"),
      integer<S, &T::slots>("slots", 1, "micro-batch slots of a global batch; the number of ranks must divide it"),
      integer<S, &T::rows_per_slot>("rows_per_slot", 1,
                                    "rows of one slot; a global batch is slots x rows_per_slot x data.context tokens"),
      seed_key<S, &T::seed>("initial weights and dropout"),
      choice<S, &T::dtype>("dtype", {"f32", "bf16"},
                           "weights as the model computes with them; bf16 keeps an f32 master copy in the optimizer"),
      number<S, &T::ema_decay>("ema_decay", {0, 0.999999999},
                               "decay per step of the running average of the weights; 0: no average"),
      text<S, &T::run_dir>("run_dir", "checkpoints, metrics and the resolved configuration of the run"),
      integer<S, &T::stop_after>("stop_after", 0, "stop at this step with a checkpoint and exit code 75; 0: never"),
  };
}

std::vector<ConfigKey> optimizer_keys() {
  constexpr auto S = &Configuration::optimizer;
  using O = OptimizerConfig;
  return {
      number<S, &O::beta1>("beta1", {0, 0.999999}, "AdamW: decay of the first moment"),
      number<S, &O::beta2>("beta2", {0, 0.99999999}, "AdamW: decay of the second moment"),
      number<S, &O::epsilon>("epsilon", {1e-30, 1}, "AdamW: added to the root of the second moment"),
      number<S, &O::weight_decay>("weight_decay", {0, 10},
                                  "of the matrices, embeddings included; norm gains and biases are never decayed"),
      number<S, &O::clip_norm>("clip_norm", {0, kMostNumber}, "largest global gradient norm; 0: no clipping"),
      number<S, &O::spike_factor>(
          "spike_factor", {0, kMostNumber},
          "skip a step whose gradient norm exceeds this many running means; 0: only steps that are not finite"),
      integer<S, &O::max_skipped>("max_skipped", 1, "stop after so many skipped steps in a row"),
  };
}

std::vector<ConfigKey> schedule_keys() {
  constexpr auto S = &Configuration::schedule;
  using C = ScheduleConfig;
  return {
      number<S, &C::learning_rate>("learning_rate", {0, 100}, "peak rate"),
      integer<S, &C::warmup_steps>("warmup_steps", 0, "linear warm-up: step s has peak * s / warmup_steps"),
      integer<S, &C::flat_steps>("flat_steps", 0, "steps at the peak after the warm-up"),
      integer<S, &C::decay_steps>("decay_steps", 0, "length of the cosine after that; 0: until train.steps"),
      number<S, &C::floor>("floor", {1e-6, 1}, "last rate as a fraction of the peak; never zero"),
      number<S, &C::chaos_amplitude>("chaos_amplitude", {0, 1},
                                     "the rate of step s is multiplied by 1 - a + a x_s, a = chaos_amplitude "
                                     "exp(-chaos_decay s), x_s in (0, 1) the s-th value of a logistic map; 0: off"),
      number<S, &C::chaos_decay>("chaos_decay", {0, kMostNumber}, "per step, of the amplitude"),
  };
}

std::vector<ConfigKey> checkpoint_keys() {
  constexpr auto S = &Configuration::checkpoint;
  using C = CheckpointConfig;
  return {
      integer<S, &C::every>("every", 0, "steps between checkpoints; 0: only at the end and when stopped"),
      integer<S, &C::keep_last>("keep_last", 1, "newest complete checkpoints to keep"),
      integer<S, &C::keep_every>("keep_every", 0, "checkpoints of steps divisible by this are kept for ever; 0: none"),
      boolean<S, &C::background>("background", "write from a snapshot while training goes on"),
      choice<S, &C::on_error>("on_error", {"stop", "continue"}, "what a failed save does to the run"),
      text<S, &C::init_from>("init_from", "checkpoint directory whose weights start a new run"),
  };
}

std::vector<ConfigKey> validation_keys() {
  constexpr auto S = &Configuration::validation;
  using V = ValidationConfig;
  return {
      integer<S, &V::every>("every", 0, "steps between validations; 0: never"),
      integer<S, &V::max_tokens>("max_tokens", 0, "read at most about so many tokens; 0: the whole split"),
  };
}

std::vector<ConfigKey> swa_keys() {
  constexpr auto S = &Configuration::swa;
  using A = SwaConfig;
  return {
      boolean<S, &A::enabled>("enabled", "keep a mean of snapshots taken after selected validations"),
      number<S, &A::zone>("zone", {0, kMostNumber}, "a snapshot needs a validation cross-entropy of at most this"),
      number<S, &A::least_gain>("least_gain", {0, 1}, "and more than this relative gain over the first one in there"),
      integer<S, &A::start_step>("start_step", 0, "no snapshot at earlier steps"),
  };
}

ConfigKey lengths_key() {
  const auto read = [](Configuration& c, const std::string& value) {
    c.game.lengths.clear();
    for (size_t begin = 0, end; begin <= value.size(); begin = end + 1) {
      end = std::min(value.find(',', begin), value.size());
      c.game.lengths.push_back(parse_integer("game.lengths", value.substr(begin, end - begin), 1));
    }
  };
  const auto text = [](const Configuration& c) {
    std::string result;
    for (const int64_t length : c.game.lengths) result += (result.empty() ? "" : ",") + std::to_string(length);
    return result;
  };
  return {"game",    "lengths",
          "N,N,...", "context lengths played, ascending; each divides data.context and the last is it; empty: no game",
          false,     read,
          text};
}

std::vector<ConfigKey> game_keys() {
  constexpr auto S = &Configuration::game;
  using G = GameConfig;
  return {
      lengths_key(),
      integer<S, &G::every>("every", 1, "steps between updates of the lengths' probabilities"),
      number<S, &G::eta>("eta", {0, 1000}, "speed: q <- q exp(eta u) / Z, u the utility of a length"),
      number<S, &G::floor>("floor", {0, 1}, "least probability of a length; 0: the pure replicator"),
      choice<S, &G::assignment>("assignment", {"global", "per_rank"},
                                "global: all slots of a step play one length; per_rank: every slot draws its own"),
      number<S, &G::saturation_weight>("saturation_weight", {0, kMostNumber},
                                       "cost of saturated memberships in u (models with memberships)"),
      number<S, &G::free_saturation>("free_saturation", {0, 1}, "share of saturated memberships that costs nothing"),
      number<S, &G::entropy_weight>("entropy_weight", {0, kMostNumber},
                                    "worth of membership entropy in u (models with memberships)"),
  };
}

std::vector<ConfigKey> guardian_keys() {
  constexpr auto S = &Configuration::guardian;
  using G = GuardianConfig;
  return {
      boolean<S, &G::enabled>("enabled", "a policy moves the prior's temperature at each validation"),
      number<S, &G::beta>("beta", {0, 1e6}, "first step size of the controller"),
      number<S, &G::time_scale>("time_scale", {1e-6, 1e9}, "action t has step size beta / (1 + t / time_scale)^power"),
      number<S, &G::power>("power", {0, 1}, "in (1/2, 1]; 0: constant steps"),
      number<S, &G::gain_weight>("gain_weight", {0, 1e6}, "worth of a gain in validation cross-entropy"),
      number<S, &G::low_gain_weight>("low_gain_weight", {0, 1e6}, "extra worth of a gain below `zone`"),
      number<S, &G::zone>("zone", {0, 1e6}, "cross-entropy below which gains count as late"),
      number<S, &G::least_temperature>("least_temperature", {1e-6, 1e6}, "it moves the temperature within these"),
      number<S, &G::most_temperature>("most_temperature", {1e-6, 1e6}, "limits"),
      choice<S, &G::baseline>("baseline", {"none", "mean", "unchanged"}, "what the reward is compared with"),
  };
}

std::vector<ConfigKey> temperature_keys() {
  constexpr auto S = &Configuration::temperature;
  using T = TemperatureConfig;
  return {
      boolean<S, &T::enabled>("enabled", "a schedule moves the prior's temperature; excludes [guardian]"),
      number<S, &T::first>("first", {1e-6, 1e6}, "temperature at step 0"),
      integer<S, &T::warm_in_steps>("warm_in_steps", 0, "steps from there to rpa.temperature, linearly"),
      number<S, &T::last>("last", {1e-6, 1e6}, "end of the cosine that follows"),
      integer<S, &T::cosine_steps>("cosine_steps", 0, "its length; 0: until train.steps"),
      number<S, &T::zone>("zone", {0, 1e6}, "validation cross-entropy at or below which the nudge may come"),
      number<S, &T::least_gain>("least_gain", {0, 1e6}, "a smaller gain between two validations brings the nudge"),
      number<S, &T::nudge>("nudge", {0, 1e6}, "added to the temperature for good"),
  };
}

std::vector<ConfigKey> remaining_keys() {
  using P = ParallelConfig;
  using R = RuntimeConfig;
  using M = MetricsConfig;
  constexpr auto parallel = &Configuration::parallel;
  constexpr auto runtime = &Configuration::runtime;
  constexpr auto metrics = &Configuration::metrics;
  return {
      boolean<parallel, &P::overlap>("overlap", "reduce gradients while backward runs; same bits either way"),
      integer<parallel, &P::bucket_bytes>("bucket_bytes", 4096, "size of one reduction"),
      boolean<parallel, &P::unordered>("unordered", "faster sums whose last bits depend on the number of ranks"),
      integer<runtime, &R::threads>(
          "threads", 0, "threads per rank; 0: cores / ranks of the machine; any number gives the same bits", 4096),
      number<runtime, &R::watchdog_seconds>("watchdog_seconds", {0, kMostNumber},
                                            "end the job when a phase makes no progress for so long; 0: never"),
      integer<metrics, &M::every>("every", 1, "steps between lines on the console and in the metrics"),
      boolean<metrics, &M::jsonl>("jsonl", "write metrics.jsonl into the run directory"),
      boolean<metrics, &M::tensorboard>("tensorboard", "write TensorBoard event files into the run directory"),
      number<metrics, &M::peak_gflops>("peak_gflops", {0, kMostNumber},
                                       "speed of one rank that counts as 100 % MFU; 0: measured at start"),
  };
}

/// Keys that decide shapes, the order of the data, or what the optimizer's state means.
bool is_fixed(const ConfigKey& key) {
  static const std::vector<std::string> more = {"train.slots",  "train.rows_per_slot", "train.seed", "train.dtype",
                                                "gate.blocks",  "gate.mode",           "rpa.prior",  "rpa.regimes",
                                                "game.lengths", "game.assignment"};
  static const std::vector<std::string> free = {"model.recompute",  "model.loss_chunk_bytes", "data.verify",
                                                "data.open_shards", "model.dropout",          "model.label_smoothing",
                                                "model.z_loss"};
  const std::string name = key.key();
  if (std::find(more.begin(), more.end(), name) != more.end()) return true;
  const bool shapes = key.section == "model" || key.section == "data";
  return shapes && std::find(free.begin(), free.end(), name) == free.end();
}

std::vector<ConfigKey> build_table() {
  std::vector<ConfigKey> table;
  for (auto part : {keys_of_the_model, data_keys, train_keys, optimizer_keys, schedule_keys, checkpoint_keys,
                    validation_keys, swa_keys, game_keys, guardian_keys, temperature_keys, remaining_keys}) {
    for (ConfigKey& key : part()) table.push_back(std::move(key));
  }
  for (ConfigKey& key : table) key.fixed = is_fixed(key);
  return table;
}

}  // namespace

const std::vector<ConfigKey>& key_table() {
  static const std::vector<ConfigKey> table = build_table();
  return table;
}

std::vector<std::string> section_names() {
  std::vector<std::string> names;
  for (const ConfigKey& key : key_table()) {
    if (names.empty() || names.back() != key.section) names.push_back(key.section);
  }
  return names;
}

std::string key_table_markdown() {
  std::string result;
  for (const std::string& section : section_names()) {
    result +=
        fmt::format("## [{}]\n\n| key | type | default | meaning | on resume |\n|---|---|---|---|---|\n", section);
    for (const ConfigKey& key : key_table()) {
      if (key.section != section) continue;
      const std::string value = key.default_value();
      result +=
          fmt::format("| `{}` | {} | {} | {} | {} |\n", key.name, key.type,
                      value.empty() ? "(empty)" : "`" + value + "`", key.help, key.fixed ? "must match" : "may change");
    }
    result += "\n";
  }
  return result;
}

}  // namespace longhaul
