// What a recurrent mixer costs beside its two projections, at the shapes of Mamba2 130M and of the Gated DeltaNet
// hybrid, forward and backward together: `rest` is everything between the projections over the time of the
// projections, `us_token` the microseconds of the whole mixer per token. The fastest of a few calls counts.
//
//   OMP_NUM_THREADS=2 build/release/tests/mixers_benchmark
#include <benchmark/benchmark.h>
#include <omp.h>

#include <algorithm>
#include <ctime>
#include <functional>

#include "core/models/mixers/gated_delta_mixer.h"
#include "core/models/mixers/mamba2_mixer.h"
#include "core/ops/linear.h"

namespace longhaul {
namespace {

ModelConfig shape_of(bool delta) {
  ModelConfig config;
  config.d_model = 768;
  if (delta) {
    config.delta_heads = 6;
    config.delta_key_size = 96;
    config.delta_value_size = 192;
  }
  return config;
}

/// Processor seconds of this process per thread: what other programs take is not in it.
double processor_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return (static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec)) / omp_get_max_threads();
}

/// Seconds of the fastest of four calls of forward and backward.
double fastest(const Tensor& input, const std::function<Variable(Tape&, const Variable&)>& forward) {
  double best = 1e30;
  for (int call = 0; call < 4; ++call) {
    const double begin = processor_seconds();
    Tape tape;
    const Variable x(input, true);
    const Variable y = forward(tape, x);
    tape.backward_from(y, y.value());
    best = std::min(best, processor_seconds() - begin);
  }
  return best;
}

Tensor some_values(Shape shape) {
  const Tensor tensor = Tensor::empty(shape, DType::f32);
  for (int64_t i = 0; i < tensor.count(); ++i)
    tensor.data<float>()[i] = static_cast<float>(i * 7919 % 2003 - 1001) / 1e3f;
  return tensor;
}

template <typename MixerType>
void mixer(benchmark::State& state, bool delta, const char* output) {
  const int64_t length = state.range(0);
  ParameterStore store(DType::f32);
  const MixerType mixer(store, "m", shape_of(delta), DType::f32);
  store.finalize();
  store.initialize(1);
  const std::vector<int32_t> ids(static_cast<size_t>(length), 0);
  const Batch batch = make_batch(1, length, ids, ids, {}, {0});
  const Variable in = store.find("m.in_proj.weight").variable, out = store.find(output).variable;
  const Tensor x = some_values({length, 768}), middle = some_values({length, out.value().size(1)});
  for (auto run : state) {
    static_cast<void>(run);
    const double whole =
        fastest(x, [&](Tape& tape, const Variable& v) { return mixer.forward(tape, v, batch, nullptr); });
    const double projections =
        fastest(x, [&](Tape& tape, const Variable& v) { return ops::linear(tape, v, in); }) +
        fastest(middle, [&](Tape& tape, const Variable& v) { return ops::linear(tape, v, out); });
    state.counters["rest"] = whole / projections - 1;
    state.counters["us_token"] = 1e6 * whole / static_cast<double>(length);
    for (const Parameter& parameter : store.parameters()) parameter.variable.clear_gradient();
  }
}

void mamba2(benchmark::State& state) { mixer<Mamba2Mixer>(state, false, "m.out_proj.weight"); }
void gated_delta_net(benchmark::State& state) { mixer<GatedDeltaMixer>(state, true, "m.o_proj.weight"); }
BENCHMARK(mamba2)->ArgName("T")->Arg(512)->Arg(8192)->Iterations(1);
BENCHMARK(gated_delta_net)->ArgName("T")->Arg(512)->Arg(8192)->Iterations(1);

}  // namespace
}  // namespace longhaul

BENCHMARK_MAIN();
