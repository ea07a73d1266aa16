// Every rank's own segments of a flat buffer, copied to all ranks: buckets in flight together.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/comm/communicator.h"
#include "core/tensor/tensor.h"
#include "parallel/shard_layout.h"

namespace longhaul {

/// Gathers one flat buffer once. start() bucket by bucket (same order on all ranks) as soon as the own segment of a
/// bucket is final, then finish(). Exact copies. With one rank nothing happens.
class ParameterGather {
 public:
  ParameterGather(Communicator& group, const ShardLayout& layout, const Tensor& flat);
  void start(int64_t bucket);
  void finish();

 private:
  Communicator& group_;
  const ShardLayout& layout_;
  Tensor flat_;
  std::vector<std::unique_ptr<Transfer>> transfers_;
};

/// All buckets at once.
void gather_parameters(Communicator& group, const ShardLayout& layout, const Tensor& flat);

}  // namespace longhaul
