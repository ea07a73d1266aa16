// The abstract group of ranks. core/ knows ranks only through this; parallel/ supplies MPI and NCCL. A group of size
// one is the default, so single-process code has no special case.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace longhaul {

/// A transfer in flight. wait() blocks until the buffer may be reused; test() makes progress and tells whether it is
/// done.
class Transfer {
 public:
  virtual ~Transfer() = default;
  virtual bool test() = 0;
  virtual void wait() = 0;
};

/// A group of ranks. All collective calls are made by every rank in the same order. Floating-point sums over ranks are
/// deliberately absent: their bits would depend on the rank count. Use integers, assemble() or
/// parallel/tree_reduction.h.
class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  virtual void barrier() = 0;
  /// Element-wise over ranks, result on every rank. Exact.
  virtual void sum(std::span<int64_t> values) = 0;
  virtual void max(std::span<int64_t> values) = 0;
  virtual void min(std::span<int64_t> values) = 0;
  /// Each element is nonzero on at most one rank; afterwards every rank holds it. Exact, so independent of the rank
  /// count.
  virtual void assemble(std::span<double> values) = 0;
  /// Bytes of `root` to every rank. Sizes are equal on all ranks.
  virtual void broadcast(std::span<std::byte> bytes, int root) = 0;
  /// Every rank's bytes, by rank; sizes may differ.
  virtual std::vector<std::vector<std::byte>> gather_all(std::span<const std::byte> mine) = 0;
  /// Non-blocking point-to-point. Tags in [0, 32767]. Between two ranks and under one tag, the n-th receive posted gets
  /// the n-th message sent, whichever is tested first.
  virtual std::unique_ptr<Transfer> send(std::span<const std::byte> bytes, int to, int tag) = 0;
  virtual std::unique_ptr<Transfer> receive(std::span<std::byte> bytes, int from, int tag) = 0;

  bool is_root() const { return rank() == 0; }
};

/// The group of one.
std::unique_ptr<Communicator> make_single_communicator();

}  // namespace longhaul
