// What the length-aware prior of one forward pass was made from: measured by the model in training, added up over slots
// and ranks by the trainer. (models.md 7)
#pragma once

#include <vector>

#include "core/tensor/tensor.h"

namespace longhaul {

struct PriorRecord {
  struct Layer {
    Tensor memberships;       ///< [B * T, R] of every token
    Tensor mean_memberships;  ///< [T, R], the mean over the B rows
    Tensor alignment;         ///< [R, K]; undefined where there is no prior
  };
  /// One for each layer with memberships, in forward order; filled by the forward pass in training, else empty.
  std::vector<Layer> layers;
};

}  // namespace longhaul
