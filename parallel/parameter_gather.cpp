#include "parallel/parameter_gather.h"

namespace longhaul {
namespace {

/// Tags above those of bucket reductions, which slower ranks may still be working on.
constexpr int kFirstTag = 8192;
constexpr int kTags = 8192;

}  // namespace

ParameterGather::ParameterGather(Communicator& group, const ShardLayout& layout, const Tensor& flat)
    : group_(group), layout_(layout), flat_(flat) {}

void ParameterGather::start(int64_t bucket) {
  const int tag = kFirstTag + static_cast<int>(bucket % kTags);
  const int64_t size = size_of(flat_.dtype());
  const auto bytes_of = [&](FlatRange range) {
    return std::span(flat_.raw() + range.begin * size, static_cast<size_t>(range.count() * size));
  };
  const FlatRange own = layout_.owned(bucket, group_.rank());
  // Peers in an order that starts behind the own rank, so that not everybody sends to rank 0 first.
  for (int step = 1; step < group_.size(); ++step) {
    const int from = (group_.rank() + group_.size() - step) % group_.size();
    const int to = (group_.rank() + step) % group_.size();
    const FlatRange theirs = layout_.owned(bucket, from);
    if (theirs.count() > 0) transfers_.push_back(group_.receive(bytes_of(theirs), from, tag));
    if (own.count() > 0) transfers_.push_back(group_.send(bytes_of(own), to, tag));
  }
  std::erase_if(transfers_, [](const auto& transfer) { return transfer->test(); });
}

void ParameterGather::finish() {
  for (const auto& transfer : transfers_) transfer->wait();
  transfers_.clear();
}

void gather_parameters(Communicator& group, const ShardLayout& layout, const Tensor& flat) {
  ParameterGather gather(group, layout, flat);
  for (size_t bucket = 0; bucket < layout.buckets().size(); ++bucket) gather.start(static_cast<int64_t>(bucket));
  gather.finish();
}

}  // namespace longhaul
