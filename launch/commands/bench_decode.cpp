#include "launch/commands/bench_decode.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <sstream>
#include <vector>

#include "core/comm/communicator.h"
#include "core/models/amor_model.h"
#include "kernels/error.h"
#include "launch/config/load_configuration.h"
#include "launch/exit_codes.h"
#include "launch/metrics/stopwatch.h"
#include "launch/training/threads.h"

namespace longhaul {
namespace {

/// How the gated blocks are run.
enum class Way { exact, router, always, never };
constexpr std::array kWays{Way::exact, Way::router, Way::always, Way::never};
constexpr std::array kNames{"exact gate", "router", "always on", "never"};

std::vector<int64_t> read_lengths(const std::string& text) {
  std::vector<int64_t> lengths;
  std::istringstream stream(text);
  for (std::string word; std::getline(stream, word, ',');) {
    try {
      lengths.push_back(std::stoll(word));
    } catch (const std::exception&) {
      throw user_error("--lengths {}: expected whole numbers with commas between them, such as 512,4096", text);
    }
    if (lengths.back() < 1) throw user_error("--lengths {}: {} is no context length", text, lengths.back());
  }
  return lengths;
}

/// Attention without a gate: a router that costs nothing and a threshold that everything, or nothing, exceeds.
std::vector<GateRouter> routers_of(Way way, const ModelConfig& config) {
  if (way == Way::exact) return {};
  return std::vector<GateRouter>(static_cast<size_t>(config.gate.blocks),
                                 GateRouter(config.d_model, way == Way::router ? GateRouter::kHiddenUnits : 1));
}

/// Does token `index` fire? As `rate` of the tokens do, evenly spread.
bool fires(Way way, int64_t index, double rate) {
  if (way == Way::always || way == Way::never) return way == Way::always;
  const double before = static_cast<double>(index) * rate;
  return static_cast<int64_t>(before + rate) > static_cast<int64_t>(before);
}

/// Mean seconds per token of one sequence that has seen `length` tokens. What it saw is not computed: it is only
/// counted as seen, since the time does not depend on the values in the caches.
double seconds_per_token(AmorModel& model, int64_t length, int64_t tokens, Way way, double rate) {
  model.set_routers(routers_of(way, model.config()));
  const auto state = model.make_decode_state(1, length + tokens + 1);
  DecodeRows seen;
  seen.runs.push_back({0, 0, length});
  dynamic_cast<AmorState&>(*state).advance(seen);
  double seconds = 0;
  for (int64_t index = 0; index <= tokens; ++index) {
    for (EntropyGate& gate : model.gates()) gate.set_state({fires(way, index, rate) ? -1.0 : 2.0, 0});
    const Stopwatch watch;
    model.decode(*state, {{static_cast<int32_t>(index % model.config().vocab_size)}});
    if (index > 0) seconds += watch.seconds();  // the first one touches memory
  }
  return seconds / static_cast<double>(tokens);
}

/// Context length from which `way` costs less than always-on attention, on the lines through the first and last length.
std::string crossover(const std::vector<int64_t>& lengths, const std::vector<double>& way,
                      const std::vector<double>& always) {
  const double first = way.front() - always.front(), last = way.back() - always.back();
  if (first <= 0) return fmt::format("from {} tokens or fewer", lengths.front());
  if (first <= last) return "not within reach";
  const double span = static_cast<double>(lengths.back() - lengths.front());
  return fmt::format("from about {:.0f} tokens", static_cast<double>(lengths.front()) + span * first / (first - last));
}

}  // namespace

int bench_decode(const Arguments& arguments) {
  const std::vector<int64_t> lengths = read_lengths(arguments.text("lengths", "512,2048,8192,32768"));
  const int64_t tokens = arguments.integer("tokens", 20, 1);
  const double rate = arguments.number("rate", 0.22);
  if (!(rate >= 0 && rate <= 1)) throw user_error("--rate {}: expected a share from 0 to 1", rate);
  Configuration config = load_configuration(arguments.text("config"), arguments.all("set")).values;
  config.model.context_length = *std::max_element(lengths.begin(), lengths.end()) + tokens + 1;
  const int threads = set_threads(*make_single_communicator(), config.runtime.threads);
  const auto model = make_model(config.model, config.train.seed);
  auto* const amor = dynamic_cast<AmorModel*>(model.get());
  if (amor == nullptr) throw user_error("bench decode: family {} has no entropy gates", config.model.family);
  fmt::print("ms per token, one sequence, {} thread(s), {} blocks; the gates fire on {:.0f} % of the tokens\n", threads,
             config.model.gate.blocks, 100 * rate);
  fmt::print("{:>10}", "context");
  for (const char* name : kNames) fmt::print("{:>12}", name);
  fmt::print("\n");
  std::array<std::vector<double>, kWays.size()> times;
  for (const int64_t length : lengths) {
    fmt::print("{:>10}", length);
    for (size_t way = 0; way < kWays.size(); ++way) {
      times[way].push_back(seconds_per_token(*amor, length, tokens, kWays[way], rate));
      fmt::print("{:>12.3f}", 1e3 * times[way].back());
    }
    fmt::print("\n");
  }
  fmt::print("cheaper than always-on attention: exact gate {}, router {}\n", crossover(lengths, times[0], times[2]),
             crossover(lengths, times[1], times[2]));
  return kExitOk;
}

}  // namespace longhaul
