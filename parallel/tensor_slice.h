// A piece of a named tensor in memory: what a rank puts into a checkpoint and fills from one.
#pragma once

#include <cstdint>
#include <string>

#include "core/tensor/dtype.h"
#include "core/tensor/shape.h"

namespace longhaul {

/// Elements [offset, offset + count) of the tensor `kind`/`name` of `shape`, row-major, at `data`. The slices of one
/// kind over all ranks cover every tensor exactly once.
struct TensorSlice {
  std::string kind;  ///< "parameter", "adam_m", "adam_v", "master", "ema", "swa", "prior"
  std::string name;  ///< global parameter name
  Shape shape;       ///< of the whole tensor
  DType dtype = DType::f32;
  int64_t offset = 0;
  int64_t count = 0;
  void* data = nullptr;
  std::string key() const { return kind + "/" + name; }  ///< name of the tensor in a checkpoint
  int64_t bytes() const { return count * size_of(dtype); }
};

}  // namespace longhaul
