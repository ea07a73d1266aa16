// A checksum of the training state that does not depend on the layout: any rank count, any sharding, any file order.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "parallel/checkpoint_reader.h"

namespace longhaul {

struct StateHash {
  std::string total;                                         ///< 32 hexadecimal digits
  std::vector<std::pair<std::string, std::string>> tensors;  ///< name and its checksum, in name order
};

/// Per tensor: name, dtype, shape, elements in order. Total: those, then step, data position and controller state. The
/// run id and the configuration do not enter. Files are verified first.
StateHash hash_state(const CheckpointReader& checkpoint);

}  // namespace longhaul
