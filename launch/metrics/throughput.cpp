#include "launch/metrics/throughput.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "kernels/matmul.h"
#include "launch/metrics/stopwatch.h"

namespace longhaul {

double training_flops(const LayerFlops& layer) { return (layer.has_backward ? 3 : 1) * layer.per_token; }

double training_flops_per_token(const LanguageModel& model, int64_t context) {
  double sum = 0;
  for (const LayerFlops& layer : model.flops(context)) sum += training_flops(layer);
  return sum;
}

double measured_peak_flops(Communicator& group) {
  constexpr int64_t kSize = 768;
  const std::vector<float> a(kSize * kSize, 0.5f), b(kSize * kSize, 0.25f);
  std::vector<float> c(kSize * kSize);
  const auto multiply = [&] {
    kernels::matmul<float>(kernels::Cpu{}, c.data(), kSize, {a.data(), kSize}, {b.data(), kSize}, kSize, kSize, kSize,
                           1.0f, 0.0f);
  };
  multiply();  // starts the threads
  group.barrier();
  const Stopwatch watch;
  double best = 0;
  while (watch.seconds() < 0.4) {
    const Stopwatch one;
    multiply();
    best = std::max(best, 2.0 * kSize * kSize * kSize / one.seconds());
  }
  int64_t total = static_cast<int64_t>(best);
  group.sum({&total, 1});
  return static_cast<double>(total);
}

void Throughput::add_step(double seconds) {
  recent_.push_back(seconds);
  if (recent_.size() > 20) recent_.pop_front();
}

double Throughput::seconds_per_step() const {
  if (recent_.empty()) return 0;
  return std::accumulate(recent_.begin(), recent_.end(), 0.0) / static_cast<double>(recent_.size());
}

double Throughput::tokens_per_second() const {
  const double seconds = seconds_per_step();
  return seconds > 0 ? static_cast<double>(tokens_per_step_) / seconds : 0;
}

double Throughput::utilisation() const { return tokens_per_second() * flops_per_token_ / peak_flops_; }

}  // namespace longhaul
