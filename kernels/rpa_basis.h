// Raised-cosine basis over the positions of a row (models.md 7.2).
#pragma once

#include "kernels/device.h"

namespace longhaul::kernels {

/// basis [length, count]: bumps 0.5 (1 + cos(pi min(|t - c_k| / w, 1))) at `count` centres c_k evenly on [0, length -
/// 1] (one centre: at 0), w = max(1, 1.5 length / count); each row divided by its sum + 1e-6.
template <typename T>
void rpa_basis(Cpu, T* basis, int64_t length, int64_t count);

}  // namespace longhaul::kernels
