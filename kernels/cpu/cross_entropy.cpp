#include "kernels/cross_entropy.h"

#include <algorithm>
#include <cmath>

#include "kernels/cpu/parallel.h"
#include "kernels/cpu/simd.h"

namespace longhaul::kernels {
namespace {

constexpr int64_t kBlock = 2048;  ///< elements summed in T before the sum goes on in double

template <typename T>
T row_max(const T* x, int64_t count) {
  using V = simd::Vec<T>;
  constexpr int64_t kWidth = simd::kWidth<T>;
  V largest[4];
  for (V& part : largest) part = simd::broadcast(-std::numeric_limits<T>::infinity());
  int64_t i = 0;
  for (; i + 4 * kWidth <= count; i += 4 * kWidth)
    for (int64_t part = 0; part < 4; ++part)
      largest[part] = simd::max(simd::load(x + i + part * kWidth), largest[part]);
  T result = simd::max_lane(simd::max(simd::max(largest[0], largest[1]), simd::max(largest[2], largest[3])));
  for (; i < count; ++i) result = x[i] > result ? x[i] : result;
  return result;
}

/// Sum of exp(x - shift); the exponentials are kept in `kept` when it is not null.
template <typename T>
double sum_of_exp(T* kept, const T* x, T shift, int64_t count) {
  using V = simd::Vec<T>;
  constexpr int64_t kWidth = simd::kWidth<T>;
  double total = 0;
  for (int64_t first = 0; first < count; first += kBlock) {
    const int64_t end = std::min(count, first + kBlock);
    V sums[2] = {};
    int64_t i = first;
    for (int64_t part = 0; i + kWidth <= end; i += kWidth, part ^= 1) {
      const V e = simd::exp(simd::load(x + i) - shift);
      if (kept != nullptr) simd::store<T>(kept + i, e);
      sums[part] += e;
    }
    if (const int64_t rest = end - i; rest > 0) {
      const V e = simd::exp(simd::load_part(x + i, rest) - shift);
      if (kept != nullptr) simd::store_part<T>(kept + i, e, rest);
      sums[0] += simd::keep_first(e, rest);
    }
    total += simd::sum(sums[0] + sums[1]);
  }
  return total;
}

template <typename T>
double row_mean(const T* x, int64_t count) {
  double total = 0;
  for (int64_t first = 0; first < count; first += kBlock)
    total += simd::transform_sum<T>(
        std::min(kBlock, count - first), [](auto value) { return value; }, x + first);
  return total / static_cast<double>(count);
}

struct RowLoss {
  double cross_entropy = 0, objective = 0;
  bool correct = false;
};

template <typename T>
RowLoss row_loss(T* dlogits, const T* logits, int64_t target, int64_t vocabulary, CrossEntropyOptions options) {
  const double smoothing = options.label_smoothing, target_logit = logits[target];
  const double mean_logit = smoothing > 0 ? row_mean(logits, vocabulary) : 0;
  const T largest = row_max(logits, vocabulary);
  // Before dlogits may overwrite the logits. Only a row that is right at first sight is searched for an equal before.
  const bool correct = logits[target] == largest && std::find(logits, logits + target, largest) == logits + target;
  const double sum = sum_of_exp(dlogits, logits, largest, vocabulary);
  const double log_z = static_cast<double>(largest) + std::log(sum);
  RowLoss loss;
  loss.correct = correct;
  loss.cross_entropy = loss.objective = log_z - target_logit;
  if (smoothing > 0) loss.objective = (1 - smoothing) * loss.cross_entropy + smoothing * (log_z - mean_logit);
  if (options.z_loss > 0) loss.objective += options.z_loss * log_z * log_z;
  if (dlogits != nullptr) {
    const T scale = static_cast<T>((1 + 2 * options.z_loss * log_z) / sum);
    const T uniform = static_cast<T>(smoothing / static_cast<double>(vocabulary));
    if (smoothing > 0)
      for (int64_t i = 0; i < vocabulary; ++i) dlogits[i] = dlogits[i] * scale - uniform;
    else
      for (int64_t i = 0; i < vocabulary; ++i) dlogits[i] *= scale;
    dlogits[target] -= static_cast<T>(1 - smoothing);
  }
  return loss;
}

}  // namespace

template <typename T>
void softmax_cross_entropy(Cpu, double* cross_entropy, double* objective, T* dlogits, const T* logits,
                           const int32_t* targets, int64_t rows, int64_t vocabulary, CrossEntropyOptions options,
                           uint8_t* correct) {
  parallel_ranges(rows, 1, rows * vocabulary, [=](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      T* const gradient = dlogits == nullptr ? nullptr : dlogits + row * vocabulary;
      RowLoss loss;
      if (targets[row] >= 0)
        loss = row_loss(gradient, logits + row * vocabulary, targets[row], vocabulary, options);
      else if (gradient != nullptr)
        std::fill(gradient, gradient + vocabulary, T(0));
      if (cross_entropy != nullptr) cross_entropy[row] = loss.cross_entropy;
      if (objective != nullptr) objective[row] = loss.objective;
      if (correct != nullptr) correct[row] = loss.correct;
    }
  });
}

template void softmax_cross_entropy(Cpu, double*, double*, float*, const float*, const int32_t*, int64_t, int64_t,
                                    CrossEntropyOptions, uint8_t*);
template void softmax_cross_entropy(Cpu, double*, double*, double*, const double*, const int32_t*, int64_t, int64_t,
                                    CrossEntropyOptions, uint8_t*);

}  // namespace longhaul::kernels
