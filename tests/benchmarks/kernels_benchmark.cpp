// Every CPU kernel against its limit, both measured in the same run: GFLOP/s against the SGEMM of the BLAS library for
// the products of attention, GB/s (bytes the kernel must move at least) against a triad a = b + s c over the same
// number of bytes for all others. The fastest of many calls counts on both sides, so that other load on the machine
// disturbs little.
//
//   OMP_NUM_THREADS=2 build/release/tests/kernels_benchmark [--benchmark_filter=attention]
#include <benchmark/benchmark.h>
#include <omp.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <functional>
#include <string>
#include <vector>

#include "kernels/activation.h"
#include "kernels/adamw.h"
#include "kernels/attention.h"
#include "kernels/cpu_isa.h"
#include "kernels/cross_entropy.h"
#include "kernels/embedding.h"
#include "kernels/entropy.h"
#include "kernels/int16_matmul.h"
#include "kernels/layer_norm.h"
#include "kernels/matmul.h"
#include "kernels/matvec.h"
#include "kernels/pointwise.h"
#include "kernels/rms_norm.h"
#include "kernels/rope.h"

namespace longhaul::kernels {
namespace {

using Floats = std::vector<float>;
constexpr int64_t kRows = 512, kWidth = 768, kHidden = 3072, kVocabulary = 50257;  // gpt2-124M at 512 tokens

Floats values(int64_t count) {
  Floats x(static_cast<size_t>(count));
  for (size_t i = 0; i < x.size(); ++i) x[i] = std::sin(static_cast<float>(i % 1000003) * 0.37f);
  return x;
}

/// Processor seconds of this process per thread: what other programs take is not in it.
double processor_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return (static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec)) / omp_get_max_threads();
}

/// Seconds of the fastest of the calls made within a tenth of a second.
double fastest(const std::function<void()>& call) {
  double best = 1e30;
  const double stop = processor_seconds() + 0.1;
  for (double begin = processor_seconds(); begin < stop;) {
    call();
    const double end = processor_seconds();
    best = std::min(best, end - begin);
    begin = end;
  }
  return best;
}

/// Bytes per second of a triad that touches `bytes` in all.
double triad_rate(int64_t bytes) {
  const int64_t count = bytes / 12;
  Floats a(static_cast<size_t>(count), 0), b = values(count), c = values(count);
  return static_cast<double>(bytes) / fastest([&] {
           float* const target = a.data();
           const float *const left = b.data(), *const right = c.data();
#pragma omp parallel for simd schedule(static)
           for (int64_t i = 0; i < count; ++i) target[i] = left[i] + 3.0f * right[i];
         });
}

/// FLOP per second of a product of the size of the first feed-forward layer.
double sgemm_rate() {
  const Floats a = values(kRows * kWidth), b = values(kHidden * kWidth);
  Floats c(static_cast<size_t>(kRows * kHidden));
  const double seconds = fastest([&] {
    matmul<float>(Cpu{}, c.data(), kHidden, {a.data(), kWidth}, {b.data(), kWidth, true}, kRows, kHidden, kWidth, 1.0f,
                  0.0f);
  });
  return 2.0 * kRows * kHidden * kWidth / seconds;
}

/// Runs `call` and reports its best rate beside its limit.
void measure(benchmark::State& state, const std::string& unit, double amount, double limit,
             const std::function<void()>& call) {
  double best = 1e30;
  for (auto _ : state) best = std::min(best, fastest(call));
  state.counters[unit] = amount / best * 1e-9;
  state.counters["limit"] = limit * 1e-9;
  state.counters["share"] = amount / best / limit;
  state.counters["ms"] = best * 1e3;
}
void measure_bytes(benchmark::State& state, int64_t bytes, const std::function<void()>& call) {
  measure(state, "GB/s", static_cast<double>(bytes), triad_rate(bytes), call);
}

void layer_norm(benchmark::State& state) {
  const bool backward = state.range(0) != 0;
  const Floats x = values(kRows * kWidth), weight = values(kWidth), bias = values(kWidth), dy = values(kRows * kWidth);
  Floats y(x.size()), mean(kRows), rstd(kRows), dx(x.size()), dweight(kWidth), dbias(kWidth);
  const auto forward = [&] {
    layer_norm_forward<float>(Cpu{}, y.data(), mean.data(), rstd.data(), x.data(), weight.data(), bias.data(), kRows,
                              kWidth, 1e-5);
  };
  forward();
  if (!backward) return measure_bytes(state, 2 * kRows * kWidth * 4, forward);
  measure_bytes(state, 4 * kRows * kWidth * 4, [&] {
    layer_norm_backward<float>(Cpu{}, dx.data(), true, dweight.data(), dbias.data(), false, dy.data(), x.data(),
                               weight.data(), mean.data(), rstd.data(), kRows, kWidth);
  });
}

void rms_norm(benchmark::State& state) {
  const bool backward = state.range(0) != 0;
  const Floats x = values(kRows * kWidth), weight = values(kWidth), dy = values(kRows * kWidth);
  Floats y(x.size()), rstd(kRows), dx(x.size()), dweight(kWidth);
  const auto forward = [&] {
    rms_norm_forward<float>(Cpu{}, y.data(), rstd.data(), x.data(), weight.data(), kRows, kWidth, 1e-6);
  };
  forward();
  if (!backward) return measure_bytes(state, 2 * kRows * kWidth * 4, forward);
  measure_bytes(state, 4 * kRows * kWidth * 4, [&] {
    rms_norm_backward<float>(Cpu{}, dx.data(), true, dweight.data(), false, dy.data(), x.data(), weight.data(),
                             rstd.data(), kRows, kWidth);
  });
}

void bias_gelu(benchmark::State& state) {
  const Floats x = values(kRows * kHidden), bias = values(kHidden), dy = values(kRows * kHidden);
  Floats y(x.size());
  if (state.range(0) == 0)
    return measure_bytes(state, 2 * kRows * kHidden * 4,
                         [&] { bias_gelu_forward<float>(Cpu{}, y.data(), x.data(), bias.data(), kRows, kHidden); });
  measure_bytes(state, 3 * kRows * kHidden * 4,
                [&] { bias_gelu_backward<float>(Cpu{}, y.data(), dy.data(), x.data(), bias.data(), kRows, kHidden); });
}

void swiglu(benchmark::State& state) {
  constexpr int64_t kColumns = 2048;
  const Floats gate_up = values(2 * kRows * kColumns), dy = values(kRows * kColumns);
  Floats y(static_cast<size_t>(kRows * kColumns)), gradient(gate_up.size());
  if (state.range(0) == 0)
    return measure_bytes(state, 3 * kRows * kColumns * 4,
                         [&] { swiglu_forward<float>(Cpu{}, y.data(), gate_up.data(), kRows, kColumns); });
  measure_bytes(state, 5 * kRows * kColumns * 4,
                [&] { swiglu_backward<float>(Cpu{}, gradient.data(), dy.data(), gate_up.data(), kRows, kColumns); });
}

/// Arguments: backward, batch, tokens, head size; 768 / head size heads in packed q|k|v rows.
void attention(benchmark::State& state) {
  const bool backward = state.range(0) != 0;
  const int64_t batch = state.range(1), length = state.range(2), size = state.range(3), heads = kWidth / size;
  const AttentionShape shape{.batch = batch,
                             .query_length = length,
                             .key_length = length,
                             .query_heads = heads,
                             .key_heads = heads,
                             .head_size = size,
                             .q_stride = 3 * kWidth,
                             .kv_stride = 3 * kWidth,
                             .out_stride = kWidth,
                             .scale = 1 / std::sqrt(static_cast<double>(size))};
  const int64_t rows = batch * length;
  const Floats qkv = values(rows * 3 * kWidth), dout = values(rows * kWidth);
  Floats out(dout.size()), lse(static_cast<size_t>(rows * heads)), delta(lse.size()), dqkv(qkv.size());
  const auto forward = [&] {
    attention_forward<float>(Cpu{}, out.data(), lse.data(), qkv.data(), qkv.data() + kWidth, qkv.data() + 2 * kWidth,
                             nullptr, shape);
  };
  forward();
  const double product = 2.0 * static_cast<double>(batch * heads * length * (length + 1) / 2 * size);
  if (!backward) return measure(state, "GFLOP/s", 2 * product, sgemm_rate(), forward);
  measure(state, "GFLOP/s", 5 * product, sgemm_rate(), [&] {
    attention_backward<float>(Cpu{}, dqkv.data(), dqkv.data() + kWidth, dqkv.data() + 2 * kWidth, delta.data(),
                              dout.data(), out.data(), lse.data(), qkv.data(), qkv.data() + kWidth,
                              qkv.data() + 2 * kWidth, nullptr, shape);
  });
}

/// Every token, or the `percent` of them that fire: what compacting saves. Arguments: backward, percent. GFLOP/s count
/// the pairs of a fired query and a key it sees.
void attention_rows(benchmark::State& state) {
  constexpr int64_t kTokens = 4096, kSize = 64, kHeads = kWidth / kSize;
  const bool backward = state.range(0) != 0;
  const AttentionShape shape{.batch = 1,
                             .query_length = kTokens,
                             .key_length = kTokens,
                             .query_heads = kHeads,
                             .key_heads = kHeads,
                             .head_size = kSize,
                             .q_stride = kWidth,
                             .kv_stride = 2 * kWidth,
                             .out_stride = kWidth,
                             .scale = 0.125};
  std::vector<int32_t> rows;
  double pairs = 0;
  for (int32_t token = 0; token < kTokens; ++token)
    if (token * 7919LL % 100 < state.range(1)) {
      rows.push_back(token);
      pairs += token + 1;
    }
  const int64_t count = static_cast<int64_t>(rows.size());
  const Floats q = values(count * kWidth), kv = values(kTokens * 2 * kWidth), dout = values(count * kWidth);
  Floats out(q.size()), lse(static_cast<size_t>(count * kHeads)), delta(lse.size()), dq(q.size()), dkv(kv.size());
  const auto forward = [&] {
    attention_rows_forward<float>(Cpu{}, out.data(), lse.data(), q.data(), kv.data(), kv.data() + kWidth, rows.data(),
                                  count, nullptr, shape);
  };
  forward();
  const double product = 2 * pairs * kWidth;
  if (!backward) return measure(state, "GFLOP/s", 2 * product, sgemm_rate(), forward);
  measure(state, "GFLOP/s", 5 * product, sgemm_rate(), [&] {
    attention_rows_backward<float>(Cpu{}, dq.data(), dkv.data(), dkv.data() + kWidth, delta.data(), dout.data(),
                                   out.data(), lse.data(), q.data(), kv.data(), kv.data() + kWidth, rows.data(), count,
                                   nullptr, shape);
  });
}

void cross_entropy(benchmark::State& state) {
  constexpr int64_t kTokens = 256;
  const Floats start = values(kTokens * kVocabulary);
  Floats logits = start;
  std::vector<int32_t> targets(kTokens, 7);
  std::vector<double> loss(kTokens), objective(kTokens);
  measure_bytes(state, 2 * kTokens * kVocabulary * 4, [&] {
    softmax_cross_entropy<float>(Cpu{}, loss.data(), objective.data(), logits.data(), logits.data(), targets.data(),
                                 kTokens, kVocabulary, {});
  });
}

/// The scores of a gate: 512 rows against 1024 rows of the output matrix, quantised before each product or once.
void int16_product(benchmark::State& state) {
  constexpr int64_t kColumns = 1024;
  const Floats x = values(kRows * kWidth), weight = values(kColumns * kWidth);
  std::vector<int16_t> left(static_cast<size_t>(int16_left_count(kRows, kWidth)));
  std::vector<int16_t> right(static_cast<size_t>(int16_right_count(kColumns, kWidth)));
  Floats left_scales(kRows), right_scales(kColumns), c(static_cast<size_t>(kRows * kColumns));
  const auto quantize = [&] {
    int16_quantize_left(Cpu{}, left.data(), left_scales.data(), x.data(), kRows, kWidth);
    int16_quantize_right(Cpu{}, right.data(), right_scales.data(), weight.data(), kColumns, kWidth);
  };
  quantize();
  measure(state, "GFLOP/s", 2.0 * kRows * kColumns * kWidth, sgemm_rate(), [&] {
    if (state.range(0) != 0) quantize();
    int16_matmul(Cpu{}, c.data(), kColumns, left.data(), left_scales.data(), right.data(), right_scales.data(), kRows,
                 kColumns, kWidth);
  });
}

/// Argument: rows. The output matrix of gpt2-124M is read once.
void row_products(benchmark::State& state) {
  const Floats x = values(state.range(0) * kWidth), weight = values(kVocabulary * kWidth);
  Floats y(static_cast<size_t>(state.range(0) * kVocabulary));
  measure_bytes(state, kVocabulary * kWidth * 4,
                [&] { matvec<float>(Cpu{}, y.data(), x.data(), weight.data(), state.range(0), kVocabulary, kWidth); });
}

void entropy(benchmark::State& state) {
  constexpr int64_t kColumns = 1024;
  const Floats scores = values(kRows * kColumns);
  measure_bytes(state, kRows * kColumns * 4, [&] {
    std::vector<RunningEntropy> running(kRows);
    entropy_update<float>(Cpu{}, running.data(), scores.data(), kColumns, kRows, kColumns);
    benchmark::DoNotOptimize(running.data());
  });
}

void adamw(benchmark::State& state) {
  constexpr int64_t kCount = 1 << 24;
  Floats p = values(kCount), m(p.size(), 0), v(p.size(), 0);
  const Floats gradient = values(kCount);
  const AdamWStep step{1e-4, 0.9, 0.95, 1e-8, 0.1, 1e-3, 0.1, 0.05};
  measure_bytes(state, 7 * kCount * 4,
                [&] { adamw_update<float>(Cpu{}, p.data(), m.data(), v.data(), gradient.data(), kCount, step); });
}

void embedding(benchmark::State& state) {
  Floats table = values(kVocabulary * kWidth), y(static_cast<size_t>(kRows * kWidth));
  const Floats positions = values(kRows * kWidth);
  std::vector<int32_t> ids(kRows), position_ids(kRows);
  for (int32_t row = 0; row < kRows; ++row) {
    ids[static_cast<size_t>(row)] = row * 7919 % static_cast<int32_t>(kVocabulary);
    position_ids[static_cast<size_t>(row)] = row;
  }
  if (state.range(0) == 0)
    return measure_bytes(state, 3 * kRows * kWidth * 4, [&] {
      embedding_forward<float>(Cpu{}, y.data(), ids.data(), position_ids.data(), table.data(), positions.data(), kRows,
                               kWidth);
    });
  measure_bytes(state, 3 * kRows * kWidth * 4,
                [&] { embedding_backward<float>(Cpu{}, table.data(), ids.data(), y.data(), kRows, kWidth); });
}

void rope(benchmark::State& state) {
  Floats x = values(kRows * kWidth), table(static_cast<size_t>(kRows * 64));
  rope_table<float>(Cpu{}, table.data(), kRows, 64, 10000);
  std::vector<int32_t> positions(kRows);
  for (int32_t row = 0; row < kRows; ++row) positions[static_cast<size_t>(row)] = row;
  measure_bytes(state, 2 * kRows * kWidth * 4, [&] {
    rope_rotate<float>(Cpu{}, x.data(), positions.data(), table.data(), kRows, kWidth / 64, 64, kWidth, false);
  });
}

void add_arrays(benchmark::State& state) {
  const Floats a = values(kRows * kWidth), b = values(kRows * kWidth);
  Floats y(a.size());
  measure_bytes(state, 3 * kRows * kWidth * 4,
                [&] { add<float>(Cpu{}, y.data(), a.data(), b.data(), kRows * kWidth); });
}

void column_sums(benchmark::State& state) {
  const Floats dy = values(kRows * kHidden);
  Floats dbias(kHidden);
  measure_bytes(state, kRows * kHidden * 4,
                [&] { column_sum<float>(Cpu{}, dbias.data(), false, dy.data(), kRows, kHidden); });
}

void squares(benchmark::State& state) {
  const Floats x = values(1 << 24);
  double total = 0;
  measure_bytes(state, 4 << 24, [&] { total += sum_of_squares<float>(Cpu{}, x.data(), 1 << 24); });
  benchmark::DoNotOptimize(total);
}

void dropout_mask(benchmark::State& state) {
  const Floats x = values(kRows * kWidth);
  Floats y(x.size());
  const int64_t sample = 3;
  measure_bytes(state, 2 * kRows * kWidth * 4, [&] {
    dropout<float>(Cpu{}, y.data(), x.data(), 0.1, {1, 2, 3}, &sample, kRows, kRows, kWidth);
  });
}

BENCHMARK(layer_norm)->ArgName("backward")->Arg(0)->Arg(1)->Iterations(5);
BENCHMARK(rms_norm)->ArgName("backward")->Arg(0)->Arg(1)->Iterations(5);
BENCHMARK(bias_gelu)->ArgName("backward")->Arg(0)->Arg(1)->Iterations(5);
BENCHMARK(swiglu)->ArgName("backward")->Arg(0)->Arg(1)->Iterations(5);
BENCHMARK(attention)
    ->ArgNames({"backward", "B", "T", "D"})
    ->ArgsProduct({{0, 1}, {1}, {512}, {64, 128}})
    ->ArgsProduct({{0, 1}, {4}, {64}, {64}})
    ->Iterations(5);
BENCHMARK(attention_rows)->ArgNames({"backward", "percent"})->ArgsProduct({{0, 1}, {100, 22}})->Iterations(3);
BENCHMARK(cross_entropy)->Iterations(5);
BENCHMARK(int16_product)->ArgName("quantize")->Arg(0)->Arg(1)->Iterations(5);
BENCHMARK(row_products)->ArgName("rows")->Arg(1)->Arg(3)->Arg(16)->Iterations(5);
BENCHMARK(entropy)->Iterations(5);
BENCHMARK(adamw)->Iterations(5);
BENCHMARK(embedding)->ArgName("backward")->Arg(0)->Arg(1)->Iterations(5);
BENCHMARK(rope)->Iterations(5);
BENCHMARK(add_arrays)->Iterations(5);
BENCHMARK(column_sums)->Iterations(5);
BENCHMARK(squares)->Iterations(5);
BENCHMARK(dropout_mask)->Iterations(5);

}  // namespace
}  // namespace longhaul::kernels

int main(int argc, char** argv) {
  benchmark::AddCustomContext("cpu_isa", longhaul::kernels::cpu_isa_name());
  benchmark::AddCustomContext("threads", std::to_string(omp_get_max_threads()));
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
}
