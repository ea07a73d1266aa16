#include "kernels/entropy.h"

#include <algorithm>
#include <cmath>

#include "kernels/cpu/parallel.h"
#include "kernels/cpu/simd.h"

namespace longhaul::kernels {
namespace {

constexpr int64_t kBlock = 1024;  ///< scores summed in T before the sums go on in double

/// Vector accumulators of one block: enough to keep the additions from waiting for each other.
constexpr int64_t kParts = 4;

/// Maximum of the scores; NaN where any is NaN.
template <typename T>
T largest_of(const T* x, int64_t count) {
  using V = simd::Vec<T>;
  constexpr int64_t kWidth = simd::kWidth<T>;
  V largest[kParts], nan{};
  for (V& part : largest) part = simd::broadcast(-std::numeric_limits<T>::infinity());
  int64_t i = 0;
  for (; i + kParts * kWidth <= count; i += kParts * kWidth)
    for (int64_t part = 0; part < kParts; ++part) {
      const V value = simd::load(x + i + part * kWidth);
      largest[part] = simd::max(value, largest[part]);
      nan = value == value ? nan : value;
    }
  T result = simd::max_lane(simd::max(simd::max(largest[0], largest[1]), simd::max(largest[2], largest[3])));
  T wrong = simd::sum(nan);
  for (; i < count; ++i) {
    result = x[i] > result ? x[i] : result;
    wrong += x[i] == x[i] ? T(0) : x[i];
  }
  return result + wrong;  // wrong is 0 or NaN
}

struct Sums {
  double sum = 0, weighted = 0;
};

/// Sums of exp(x - shift) and (x - shift) exp(x - shift) over at most kBlock scores.
template <typename T>
Sums block_sums(const T* x, T shift, int64_t count) {
  using V = simd::Vec<T>;
  constexpr int64_t kWidth = simd::kWidth<T>;
  V sums[kParts] = {}, weighted[kParts] = {};
  const auto add = [&](V below, int64_t part) {
    const V e = simd::exp(below);
    sums[part] += e;
    weighted[part] = simd::fma(below, e, weighted[part]);
  };
  int64_t i = 0;
  for (; i + kParts * kWidth <= count; i += kParts * kWidth)
    for (int64_t part = 0; part < kParts; ++part) add(simd::load(x + i + part * kWidth) - shift, part);
  for (int64_t part = 0; i + kWidth <= count; i += kWidth, ++part) add(simd::load(x + i) - shift, part);
  if (const int64_t rest = count - i; rest > 0) {
    const V below = simd::load_part(x + i, rest) - shift, e = simd::exp(below);
    sums[3] += simd::keep_first(e, rest);
    weighted[3] += simd::keep_first(below * e, rest);
  }
  return {static_cast<double>(simd::sum((sums[0] + sums[1]) + (sums[2] + sums[3]))),
          static_cast<double>(simd::sum((weighted[0] + weighted[1]) + (weighted[2] + weighted[3])))};
}

template <typename T>
void update_row(RunningEntropy& running, const T* x, int64_t count) {
  const double largest = std::max(static_cast<double>(largest_of(x, count)), running.largest);
  if (running.sum > 0) {  // what was summed below the old maximum, seen from the new one
    const double drop = running.largest - largest, factor = std::exp(drop);
    running.weighted = factor * (running.weighted + drop * running.sum);
    running.sum *= factor;
  }
  running.largest = largest;
  for (int64_t first = 0; first < count; first += kBlock) {
    const Sums sums = block_sums(x + first, static_cast<T>(largest), std::min(kBlock, count - first));
    running.sum += sums.sum;
    running.weighted += sums.weighted;
  }
}

}  // namespace

template <typename T>
void entropy_update(Cpu, RunningEntropy* running, const T* scores, int64_t stride, int64_t rows, int64_t columns) {
  parallel_ranges(rows, 1, rows * columns, [=](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) update_row(running[row], scores + row * stride, columns);
  });
}

void entropy_finish(Cpu, float* entropy, const RunningEntropy* running, int64_t rows, int64_t vocabulary) {
  const double largest = std::log(static_cast<double>(vocabulary));
  for (int64_t row = 0; row < rows; ++row) {
    const RunningEntropy& r = running[row];
    const double share = (std::log(r.sum) - r.weighted / r.sum) / largest;
    entropy[row] = static_cast<float>(share < 0 ? 0.0 : share > 1 ? 1.0 : share);  // NaN stays NaN
  }
}

template void entropy_update(Cpu, RunningEntropy*, const float*, int64_t, int64_t, int64_t);
template void entropy_update(Cpu, RunningEntropy*, const double*, int64_t, int64_t, int64_t);

}  // namespace longhaul::kernels
