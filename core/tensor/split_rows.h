// Shorter rows from the rows of a batch.
#pragma once

#include <cstdint>

#include "core/tensor/batch.h"

namespace longhaul {

/// Every row cut into consecutive rows of `length` tokens, which do not see each other. Targets stay as they are: that
/// of a row's last token is the token behind it. Piece k of n of sample s is sample s n + k, so that random draws
/// depend on sample and length alone. internal_error unless `length` divides that of the batch; the whole length
/// changes nothing.
Batch split_rows(const Batch& batch, int64_t length);

}  // namespace longhaul
