// Entropy of softmax over scores that arrive in tiles, with online maximum and sums (Milakov & Gimelshein 2018).
#pragma once

#include <limits>

#include "kernels/device.h"

namespace longhaul::kernels {

/// What one row's entropy needs of the scores seen so far. With x the scores and m their maximum: sum of exp(x - m) and
/// of (x - m) exp(x - m).
struct RunningEntropy {
  double largest = -std::numeric_limits<double>::infinity();
  double sum = 0;
  double weighted = 0;
};

/// Takes `columns` more scores of every row: row r's lie at scores + r * stride. The scores are read only. A row's bits
/// depend on its scores and on how they were cut into calls, not on other rows or threads.
template <typename T>
void entropy_update(Cpu, RunningEntropy* running, const T* scores, int64_t stride, int64_t rows, int64_t columns);

/// entropy [rows] = -sum p log p / log(vocabulary), within [0, 1]; NaN where a score was NaN. vocabulary >= 2 is the
/// number of scores that every row has received.
void entropy_finish(Cpu, float* entropy, const RunningEntropy* running, int64_t rows, int64_t vocabulary);

}  // namespace longhaul::kernels
