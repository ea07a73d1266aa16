// What entropy-gated attention did and left out while decoding: one block's counts since the state was made.
#pragma once

#include <cstdint>

namespace longhaul {

struct GateWork {
  int64_t tokens = 0;        ///< rows that passed the gate's decision; keys and values were computed for all of them
  int64_t fired = 0;         ///< of these: query, attention and output projection were computed, too
  int64_t scored = 0;        ///< decided by a product with the whole output matrix; the others by the fitted router
  int64_t keys_read = 0;     ///< (query, key) pairs of the fired rows
  int64_t keys_skipped = 0;  ///< pairs that always-on attention would have read as well

  int64_t skipped() const { return tokens - fired; }
  bool operator==(const GateWork&) const = default;
};

}  // namespace longhaul
