// What the length-aware prior costs attention: forming its factors, adding it to the scores, and the gradients of its
// memberships, alignment and pos_beta.
//
//   OMP_NUM_THREADS=1 build/release/tests/prior_benchmark
//
// time: processor time with the prior over that without, T 2048, width 768, by heads of D; `backward` 0: the forward
// pass alone, 1: forward and backward. memory: the most memory that forward and backward hold at once beside their
// inputs, one head of 64, for rows of T tokens. decode: p50 of the processor time of single tokens of one sequence
// behind T others, tokens with and without the prior alternating, 12 layers, width 516, 6 heads.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <functional>

#include "core/models/language_model.h"
#include "core/ops/alignment.h"
#include "core/ops/attention.h"
#include "core/tensor/allocator.h"

namespace longhaul {
namespace {

constexpr int64_t kRegimes = 4;

/// Processor seconds of this process: what other programs take is not in it.
double processor_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// Processor time of `with` over that of `without`: the median over groups of without, with, with, without, so that
/// other load, which comes and goes, falls on both.
double time_ratio(int64_t groups, const std::function<void()>& with, const std::function<void()>& without) {
  const auto seconds = [](const std::function<void()>& call) {
    const double begin = processor_seconds();
    call();
    return processor_seconds() - begin;
  };
  std::vector<double> ratios;
  for (int64_t i = 0; i < groups; ++i) {
    const double before = seconds(without), between = seconds(with) + seconds(with);
    ratios.push_back(between / (before + seconds(without)));
  }
  return median(ratios);
}

Tensor some_values(Shape shape, float centre = 0, float scale = 1) {
  const Tensor tensor = Tensor::empty(shape, DType::f32);
  for (int64_t i = 0; i < tensor.count(); ++i)
    tensor.data<float>()[i] = centre + scale * std::sin(static_cast<float>(i % 1000003) * 0.37f);
  return tensor;
}

/// One row of `length` tokens.
class Attention {
 public:
  Attention(int64_t length, int64_t heads, int64_t size)
      : options_{.query_heads = heads, .key_heads = heads, .head_size = size, .rope_table = {}},
        qkv_(some_values({length, 3 * heads * size}), true),
        gradient_(some_values({length, heads * size})) {
    const std::vector<int32_t> zeros(static_cast<size_t>(length), 0);
    batch_ = make_batch(1, length, zeros, zeros, {}, {0});
    const Tensor projection = some_values({kRegimes, kRegimes}, 0.1f, 0.02f);
    for (int64_t r = 0; r < kRegimes; ++r) projection.data<float>()[r * (kRegimes + 1)] += 0.6f;
    prior_ = {.mean_memberships = Variable(some_values({length, kRegimes}, 0.25f, 0.2f), true),
              .alignment = Variable(projection, true),
              .pos_beta = Variable(Tensor::from<float>({1}, {0.2f}), true),
              .basis = ops::rpa_basis(length, kRegimes, DType::f32),
              .settings = {}};
  }

  /// Drops the gradients of the last call.
  void forget() {
    for (Variable* variable : {&qkv_, &prior_.mean_memberships, &prior_.alignment, &prior_.pos_beta})
      *variable = Variable(variable->value(), true);
  }

  void run(bool with_prior, bool backward) {
    forget();
    Tape tape(backward ? Tape::Mode::record : Tape::Mode::off);
    const Variable y = ops::attention(tape, qkv_, batch_, options_, with_prior ? &prior_ : nullptr);
    if (backward) tape.backward_from(y, gradient_);
  }

 private:
  Batch batch_;
  ops::AttentionOptions options_;
  Variable qkv_;
  Tensor gradient_;
  ops::LengthPrior prior_;
};

void time(benchmark::State& state) {
  const bool backward = state.range(0) != 0;
  Attention attention(2048, 768 / state.range(1), state.range(1));
  for (auto _ : state)
    state.counters["with/without"] = time_ratio(
        15, [&] { attention.run(true, backward); }, [&] { attention.run(false, backward); });
}

void memory(benchmark::State& state) {
  const int64_t length = state.range(0);
  Attention attention(length, 1, 64);
  const auto bytes = [&](bool with_prior) {
    attention.forget();
    allocator::reset_peak({});
    const int64_t before = allocator::use({}).live_bytes;
    attention.run(with_prior, true);
    return static_cast<double>(allocator::use({}).peak_bytes - before) / static_cast<double>(length);
  };
  for (auto _ : state) {
    state.counters["bytes/token without"] = bytes(false);
    state.counters["bytes/token with"] = bytes(true);
  }
}

/// Models alike but for the prior differ by several percent by where their weights lie in memory. So one model decodes
/// both sequences: a prior whose warm-in has not begun is no part of a decode state.
void decode(benchmark::State& state, const std::string& family) {
  constexpr int64_t kTokens = 200;
  const int64_t length = state.range(0);
  ModelConfig config;
  config.family = family;
  config.vocab_size = 50257;
  config.context_length = length + kTokens;
  config.d_model = 516;
  config.n_head = 6;
  config.rpa.prior = "on";
  const std::unique_ptr<LanguageModel> model = make_model(config, 1);
  const auto decoder = [&](double warm) {
    model->prior_memory()->set_control({.temperature = 1, .warm = warm});
    std::unique_ptr<DecodeState> decoding = model->make_decode_state(1, length + kTokens);
    model->decode(*decoding, {std::vector<int32_t>(static_cast<size_t>(length), 3)});
    return decoding;
  };
  const std::unique_ptr<DecodeState> with = decoder(1), without = decoder(0);
  const auto seconds = [&](DecodeState& decoding) {
    const double begin = processor_seconds();
    benchmark::DoNotOptimize(model->decode(decoding, {{5}}));
    return processor_seconds() - begin;
  };
  for (auto _ : state) {
    std::vector<double> times, plain_times;
    for (int64_t token = 0; token < kTokens; ++token) {
      times.push_back(seconds(*with));
      plain_times.push_back(seconds(*without));
    }
    state.counters["ms"] = 1e3 * median(times);
    state.counters["with/without"] = median(times) / median(plain_times);
  }
}
void decode_fuzzy_transformer(benchmark::State& state) { decode(state, "fuzzy_transformer"); }
void decode_transformer(benchmark::State& state) { decode(state, "transformer"); }

BENCHMARK(time)->ArgNames({"backward", "D"})->ArgsProduct({{0, 1}, {64, 128}})->Iterations(1);
BENCHMARK(memory)->ArgName("T")->RangeMultiplier(2)->Range(2048, 32768)->Iterations(1);
BENCHMARK(decode_fuzzy_transformer)->ArgName("T")->Arg(512)->Arg(2048)->Iterations(1);
BENCHMARK(decode_transformer)->ArgName("T")->Arg(512)->Arg(2048)->Iterations(1);

}  // namespace
}  // namespace longhaul

BENCHMARK_MAIN();
