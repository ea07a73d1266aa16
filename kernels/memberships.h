// Soft memberships of tokens in a few regimes: the start of the length-aware prior (models.md 7.1).
#pragma once

#include "kernels/device.h"

namespace longhaul::kernels {

inline constexpr int64_t kMaxRegimes = 8;  ///< regimes and basis functions of the length-aware prior

/// memberships [tokens, regimes]: softmax over r of clamp(-square / 2 * clamp(exp(-2 log_sigma_r), 1e-3, 1e3), -30, 30)
/// with square [tokens, regimes] = |z_t - centre_r|^2. z [tokens, columns], centres [regimes, columns], log_sigma
/// [regimes].
template <typename T>
void memberships_forward(Cpu, T* memberships, T* square, const T* z, const T* centres, const T* log_sigma,
                         int64_t tokens, int64_t regimes, int64_t columns);

/// dz (+)=, dcentres and dlog_sigma (+)= (accumulate_parameters). A clamped value passes no gradient on; its limits
/// themselves do. dsquare [tokens, regimes] is scratch. Sums over tokens run in double in rising order.
template <typename T>
void memberships_backward(Cpu, T* dz, bool accumulate, T* dcentres, T* dlog_sigma, bool accumulate_parameters,
                          T* dsquare, const T* dmemberships, const T* memberships, const T* square, const T* z,
                          const T* centres, const T* log_sigma, int64_t tokens, int64_t regimes, int64_t columns);

/// mean [length, columns] over the batch of x [batch * length, columns], summed in double in rising order.
template <typename T>
void batch_mean_forward(Cpu, T* mean, const T* x, int64_t batch, int64_t length, int64_t columns);
/// dx [batch * length, columns] (+)= dmean / batch.
template <typename T>
void batch_mean_backward(Cpu, T* dx, bool accumulate, const T* dmean, int64_t batch, int64_t length, int64_t columns);

}  // namespace longhaul::kernels
