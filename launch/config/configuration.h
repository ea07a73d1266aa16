// The typed configuration of a run. Defaults stand here; names, help and parsing of the keys in config/key_table.cpp.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/control/selective_average.h"
#include "core/models/model_config.h"
#include "data/stream/data_config.h"

namespace longhaul {

/// Section [train].
struct TrainConfig {
  int64_t steps = 1000;       ///< optimizer steps of the whole run
  int64_t slots = 8;          ///< micro-batch slots of a global batch; the rank count must divide it
  int64_t rows_per_slot = 1;  ///< sequences of one slot
  uint64_t seed = 1;          ///< of initial weights and dropout; the data order has its own, data.seed
  double ema_decay = 0;       ///< 0: no average of the weights
  std::string dtype = "f32";  ///< f32 | bf16: type of the weights the model computes with
  std::string run_dir = "runs/run";
  int64_t stop_after = 0;  ///< > 0: stop at this step with a checkpoint and exit code 75
};

/// Section [optimizer]: AdamW.
struct OptimizerConfig {
  double beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8, weight_decay = 0.1;
  double clip_norm = 1.0;    ///< 0: no clipping
  double spike_factor = 0;   ///< skip a step whose gradient norm exceeds this many times its running mean; 0: never
  int64_t max_skipped = 20;  ///< consecutive skipped steps before the run stops
};

/// Section [schedule]: linear warm-up, flat part, cosine to a floor; all times the factor of the chaotic warm-in.
struct ScheduleConfig {
  double learning_rate = 3e-4;  ///< peak
  int64_t warmup_steps = 100;
  int64_t flat_steps = 0;
  double floor = 0.1;                              ///< last rate as a fraction of the peak; in (0, 1]
  int64_t decay_steps = 0;                         ///< length of the cosine; 0: until train.steps
  double chaos_amplitude = 0, chaos_decay = 5e-4;  ///< as ChaosWarmIn::Options; amplitude 0: the factor is 1
};

/// Section [checkpoint].
struct CheckpointConfig {
  int64_t every = 500;  ///< steps; 0: only at the end and when stopped
  int64_t keep_last = 2;
  int64_t keep_every = 0;         ///< keep checkpoints of steps divisible by this for ever; 0: none
  bool background = true;         ///< write from a snapshot while training goes on
  std::string on_error = "stop";  ///< stop | continue: what a failed save does to the run
  std::string init_from;          ///< checkpoint directory whose weights start a new run
};

/// Section [validation].
struct ValidationConfig {
  int64_t every = 0;       ///< steps; 0: never
  int64_t max_tokens = 0;  ///< scores at most about this many targets; 0: the whole split
};

/// Section [swa]: a mean of the weights after selected validations.
struct SwaConfig : SelectiveAverage::Options {
  bool enabled = false;
};

/// Section [game]: the game of context lengths.
struct GameConfig {
  std::vector<int64_t> lengths;  ///< empty: no game, every row has data.context tokens
  int64_t every = 50;            ///< steps between updates of the probabilities
  double eta = 0.1, floor = 0.05;
  std::string assignment = "global";  ///< global | per_rank
  double saturation_weight = 0.1, free_saturation = 0.5, entropy_weight = 0.05;
};

/// Section [guardian]: models with memberships. Its start values are rpa.temperature and the defaults of Guardian.
struct GuardianConfig {
  bool enabled = false;
  double beta = 1, time_scale = 20, power = 0.7;
  double gain_weight = 1, low_gain_weight = 1, zone = 5.6;
  double least_temperature = 0.3, most_temperature = 1.6;
  std::string baseline = "unchanged";  ///< none | mean | unchanged
};

/// Section [temperature]: the scripted temperature of the prior; `reached` of TemperatureSchedule is rpa.temperature.
struct TemperatureConfig {
  bool enabled = false;
  double first = 1.6, last = 0.6;
  int64_t warm_in_steps = 1200, cosine_steps = 0;  ///< cosine_steps 0: until train.steps
  double zone = 5.6, least_gain = 0.002, nudge = 0.02;
};

/// Section [parallel].
struct ParallelConfig {
  bool overlap = true;  ///< reduce gradients while backward runs
  int64_t bucket_bytes = 16ll << 20;
  bool unordered = false;  ///< faster sums whose bits depend on the rank count
};

/// Section [runtime].
struct RuntimeConfig {
  int64_t threads = 0;            ///< per rank; 0: cores of the machine / ranks on it
  double watchdog_seconds = 600;  ///< a phase without progress for this long ends the job; 0: off
};

/// Section [metrics].
struct MetricsConfig {
  int64_t every = 10;  ///< steps between console and metrics lines
  bool jsonl = true;
  bool tensorboard = true;
  double peak_gflops = 0;  ///< per rank, for MFU; 0: measured at start
};

struct Configuration {
  Configuration() { data.context = 0; }  // 0: model.context_length
  ModelConfig model;
  DataConfig data;
  TrainConfig train;
  OptimizerConfig optimizer;
  ScheduleConfig schedule;
  CheckpointConfig checkpoint;
  ValidationConfig validation;
  SwaConfig swa;
  GameConfig game;
  GuardianConfig guardian;
  TemperatureConfig temperature;
  ParallelConfig parallel;
  RuntimeConfig runtime;
  MetricsConfig metrics;
};

}  // namespace longhaul
