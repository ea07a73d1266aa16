#include "launch/commands/bench.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <optional>

#include "core/comm/agreement.h"
#include "core/tensor/allocator.h"
#include "kernels/cpu_isa.h"
#include "kernels/error.h"
#include "kernels/philox.h"
#include "launch/arguments.h"
#include "launch/commands/bench_decode.h"
#include "launch/config/load_configuration.h"
#include "launch/metrics/stopwatch.h"
#include "launch/metrics/throughput.h"
#include "launch/training/threads.h"
#include "launch/training/training_engine.h"
#include "launch/world_frame.h"

namespace longhaul {
namespace {

constexpr const char* kUsage =
    "usage: [mpirun -n RANKS] longhaul bench step --config FILE [--set K=V]... [--rows B] [--length T] [--steps N]\n"
    "       longhaul bench decode --config FILE [--set K=V]... [--lengths L,L,...] [--tokens N] [--rate X]\n"
    "\n"
    "times whole training steps (forward, backward, clipping, AdamW) on random tokens, one slot per rank, and prints "
    "the\n"
    "median with its parts, tokens/s, GFLOP/s, MFU and the peak memory. model.vocab_size must be set.\n"
    "\n"
    "  --rows B     rows of a step and rank (default train.rows_per_slot)\n"
    "  --length T   tokens of a row (default data.context)\n"
    "  --steps N    timed steps after one that is not (default 5)\n"
    "\n"
    "bench decode times single tokens of one sequence of a gated model (family amor) at several context lengths, with "
    "the\n"
    "exact gate, with a router, with attention always on and never, and tells from which length a gate pays\n"
    "\n"
    "  --lengths L,...  tokens seen before (default 512,2048,8192,32768)\n"
    "  --tokens N       timed at each length (default 20)\n"
    "  --rate X         share of tokens on which the gates fire (default 0.22)\n"
    "\n"
    "examples:\n"
    "  longhaul bench step --config configs/gpt2-124m.ini --rows 1 --length 512\n"
    "  mpirun -n 2 longhaul bench step --config configs/tiny.ini --steps 20\n";

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : 0.5 * (values[half - 1] + values[half]);
}

double median_of(const std::vector<PhaseSeconds>& phases, double PhaseSeconds::*field) {
  std::vector<double> values;
  for (const PhaseSeconds& phase : phases) values.push_back(phase.*field);
  return median(values);
}

Batch random_batch(int64_t rows, int64_t length, int64_t vocabulary, int64_t sample) {
  std::vector<int32_t> ids, targets;
  for (int64_t i = 0; i < 2 * rows * length; ++i) {
    uint32_t bits[4];
    kernels::random_bits4({.seed = 1, .step = 0, .layer = 0}, static_cast<uint64_t>(sample), static_cast<uint64_t>(i),
                          bits);
    (i % 2 == 0 ? ids : targets).push_back(static_cast<int32_t>(bits[0] % static_cast<uint64_t>(vocabulary)));
  }
  std::vector<int64_t> sample_ids(static_cast<size_t>(rows), sample);
  return make_batch(rows, length, std::move(ids), std::move(targets), {}, std::move(sample_ids));
}

double resident_mib() {
  rusage usage{};
  if (getrusage(RUSAGE_SELF, &usage) != 0) throw system_error("getrusage failed");
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

Configuration bench_configuration(const Arguments& arguments, int ranks) {
  Configuration config = load_configuration(arguments.text("config"), arguments.all("set")).values;
  config.train.slots = ranks;
  config.train.rows_per_slot = arguments.integer("rows", config.train.rows_per_slot, 1);
  config.data.context = arguments.integer("length", config.data.context, 1);
  if (config.model.vocab_size == 0)
    throw user_error("model.vocab_size is 0 (taken from the data); give it: --set model.vocab_size=50257");
  if (config.data.context > config.model.context_length) {
    throw user_error("--length {}: model.context_length is {}", config.data.context, config.model.context_length);
  }
  config.model = resolved(config.model);
  return config;
}

void print_report(const Configuration& config, const std::vector<double>& times,
                  const std::vector<PhaseSeconds>& phases, const std::vector<LayerFlops>& layers, double peak_flops,
                  int ranks, int threads) {
  const double seconds = median(times);
  double flops_per_token = 0;
  for (const LayerFlops& layer : layers) flops_per_token += training_flops(layer);
  const auto tokens = static_cast<double>(config.train.slots * config.train.rows_per_slot * config.data.context);
  const double flops = flops_per_token * tokens / seconds;
  fmt::print("{} rank(s) x {} thread(s), CPU kernels {}, {} rows of {} tokens per rank\n", ranks, threads,
             kernels::cpu_isa_name(), config.train.rows_per_slot, config.data.context);
  fmt::print("step        {:10.2f} ms  median of {} (best {:.2f}, worst {:.2f})\n", 1e3 * seconds, times.size(),
             1e3 * *std::min_element(times.begin(), times.end()), 1e3 * *std::max_element(times.begin(), times.end()));
  const std::pair<const char*, double PhaseSeconds::*> parts[] = {
      {"data", &PhaseSeconds::data},         {"forward", &PhaseSeconds::forward},
      {"backward", &PhaseSeconds::backward}, {"reduction", &PhaseSeconds::reduction},
      {"norm", &PhaseSeconds::norm},         {"update", &PhaseSeconds::update}};
  for (const auto& [name, field] : parts) {
    const double part = median_of(phases, field);
    fmt::print("  {:<9} {:10.2f} ms  {:5.1f} %\n", name, 1e3 * part, 100 * part / seconds);
  }
  fmt::print(
      "speed       {:10.1f} tokens/s  {:.2f} GFLOP/s  MFU {:.1f} % of {:.1f} GFLOP/s (measured matrix product)\n",
      tokens / seconds, flops / 1e9, 100 * flops / peak_flops, peak_flops / 1e9);
  fmt::print("FLOPs per token, training\n");
  for (const LayerFlops& layer : layers) {
    const double count = training_flops(layer);
    fmt::print("  {:<28} {:12.3f} M  {:5.1f} %\n", layer.layer, count / 1e6, 100 * count / flops_per_token);
  }
  fmt::print("peak memory {:10.1f} MiB resident  {:.1f} MiB in tensors (this rank)\n", resident_mib(),
             static_cast<double>(allocator::use(Device{}).peak_bytes) / (1 << 20));
}

/// Of the last step, by entropy gate: what the times above hold of attention depends on it.
void print_gates(const std::vector<GateMeasurement>& gates) {
  if (gates.empty()) return;
  std::string rates;
  for (const GateMeasurement& gate : gates) rates += fmt::format(" {:.1f} %", 100 * gate.fire_rate());
  fmt::print("gates       fired on{} of the tokens\n", rates);
}

int bench_step(World& world, const Arguments& arguments) {
  Communicator& group = world.group();
  std::optional<Configuration> config;
  agree(group, "configuration", [&] { config = bench_configuration(arguments, group.size()); });
  const int threads = set_threads(group, config->runtime.threads);
  std::unique_ptr<TrainingEngine> engine;
  agree(group, "model", [&] { engine = std::make_unique<TrainingEngine>(group, *config); });
  Watchdog watchdog(group, {.timeout_seconds = 0, .waiting_for_peers = {}, .orphaned = {}, .terminate = {}});
  SpikeGuard guard({});
  std::vector<double> times;
  std::vector<PhaseSeconds> phases;
  std::vector<GateMeasurement> gates;
  const int64_t steps = arguments.integer("steps", 5, 1);
  for (int64_t step = 1; step <= steps + 1; ++step) {
    const auto batch_of = [&](int64_t slot) {
      return random_batch(config->train.rows_per_slot, config->data.context, config->model.vocab_size,
                          step * config->train.slots + slot);
    };
    group.barrier();
    const Stopwatch watch;
    const StepResult result = engine->step(step, 1e-4, guard, batch_of, watchdog);
    if (step == 1) continue;  // allocates and touches memory
    times.push_back(watch.seconds());
    phases.push_back(result.seconds);
    gates = result.gates;
  }
  const std::vector<LayerFlops> layers = engine->model().flops(config->data.context);
  const double peak = measured_peak_flops(group);
  if (group.is_root()) {
    print_report(*config, times, phases, layers, peak, group.size(), threads);
    print_gates(gates);
  }
  return 0;
}

int run(const std::vector<std::string>& words) {
  return with_world([&](World& world) {
    std::unique_ptr<Arguments> arguments;
    agree(world.group(), "command line", [&] {
      arguments = std::make_unique<Arguments>(
          "bench", words,
          ArgumentSpec{.options = {"config=", "set=", "rows=", "length=", "steps=", "lengths=", "tokens=", "rate="},
                       .repeatable = {"set"},
                       .least_operands = 1,
                       .most_operands = 1});
      const std::string& what = arguments->operands()[0];
      if (what != "step" && what != "decode")
        throw user_error("longhaul bench: '{}' is unknown; there are `bench step` and `bench decode`", what);
    });
    if (arguments->operands()[0] == "decode") return bench_decode(*arguments);
    return bench_step(world, *arguments);
  });
}

}  // namespace

Command bench_command() { return {"bench", "time whole training steps on random tokens", kUsage, run}; }

}  // namespace longhaul
