// A setting of the reader, in a header of its own because configurations carry it.
#pragma once

#include <cstdint>

namespace longhaul {

/// How much of a shard is checked against the manifest before HDF5 opens it (sizes always, at start).
enum class ShardVerification : uint8_t {
  kChecksum,  ///< the whole file, once per process, when the shard is first used
  kSize       ///< the size alone; for data that `longhaul verify` has just passed
};

}  // namespace longhaul
