// Softmax cross-entropy of a block of logits (models.md section 1).
#pragma once

#include "kernels/device.h"

namespace longhaul::kernels {

struct CrossEntropyOptions {
  double label_smoothing = 0;  ///< weight of the uniform distribution in the target
  double z_loss = 0;           ///< weight of log(Z)^2
};

/// logits [rows, vocabulary]; targets [rows], negative = not a valid target (loss and gradient exactly 0).
/// cross_entropy [rows]: unsmoothed -log p(target), what is reported. objective [rows]: with smoothing and z-loss, what
/// is trained; objective == cross_entropy when both are 0. Either may be null. With dlogits (may be logits itself: in
/// place; may be null) writes d objective / d logits. correct [rows], may be null: 1 where the target is the first of
/// the largest logits, else 0.
template <typename T>
void softmax_cross_entropy(Cpu, double* cross_entropy, double* objective, T* dlogits, const T* logits,
                           const int32_t* targets, int64_t rows, int64_t vocabulary, CrossEntropyOptions options,
                           uint8_t* correct = nullptr);

}  // namespace longhaul::kernels
