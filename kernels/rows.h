// Some rows of a matrix: taken out, put back, and a gated update added to them (models.md 6). `rows` [count] are row
// numbers in rising order, repeats allowed, each in [0, n).
#pragma once

#include "kernels/device.h"

namespace longhaul::kernels {

/// y [count, columns] = the named rows of x [n, columns].
template <typename T>
void gather_rows(Cpu, T* y, const T* x, const int32_t* rows, int64_t count, int64_t columns);
/// dx [n, columns] (+)= dy [count, columns] added to the named rows in rising i; the others get zero (accumulate:
/// nothing).
template <typename T>
void scatter_rows(Cpu, T* dx, bool accumulate, const T* dy, const int32_t* rows, int64_t count, int64_t n,
                  int64_t columns);

/// alpha [columns] = sigmoid(max(raw_alpha, -1)).
template <typename T>
void channel_gate(Cpu, T* alpha, const T* raw_alpha, int64_t columns);
/// y [n, columns] = h, plus alpha * update[i] in row rows[i]. y may be h.
template <typename T>
void gated_rows_forward(Cpu, T* y, const T* h, const T* update, const T* alpha, const int32_t* rows, int64_t count,
                        int64_t n, int64_t columns);
/// dupdate [count, columns] (+)= alpha * dy[rows[i]]; draw_alpha [columns] (+)= the sum over rising i of dy[rows[i]]
/// update[i] alpha (1 - alpha), zero where raw_alpha < -1.
template <typename T>
void gated_rows_backward(Cpu, T* dupdate, bool accumulate_update, T* draw_alpha, bool accumulate_alpha, const T* dy,
                         const T* update, const T* alpha, const T* raw_alpha, const int32_t* rows, int64_t count,
                         int64_t columns);

}  // namespace longhaul::kernels
