// The group of ranks over MPI. Waits by testing and yielding the core, so that many ranks can share few cores.
#pragma once

#include <atomic>
#include <memory>

#include "core/comm/communicator.h"

namespace longhaul {

/// Needs a live MpiRuntime. Safe for point-to-point calls from several threads; collective calls from one thread at a
/// time. Before every collective the ranks compare what they are about to call and with how many elements: a mismatch
/// is an internal_error on all of them instead of a hang or wrong numbers. Messages above `chunk_bytes` are cut,
/// because MPI counts are 32-bit.
class MpiCommunicator : public Communicator {
 public:
  static constexpr int64_t kDefaultChunkBytes = int64_t{1} << 30;

  /// All ranks of the job. `chunk_bytes` is at most 2^30 and equal on all ranks; tests lower it.
  explicit MpiCommunicator(int64_t chunk_bytes = kDefaultChunkBytes);
  ~MpiCommunicator() override;
  MpiCommunicator(const MpiCommunicator&) = delete;
  MpiCommunicator& operator=(const MpiCommunicator&) = delete;

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  void barrier() override;
  void sum(std::span<int64_t> values) override;
  void max(std::span<int64_t> values) override;
  void min(std::span<int64_t> values) override;
  void assemble(std::span<double> values) override;
  void broadcast(std::span<std::byte> bytes, int root) override;
  std::vector<std::vector<std::byte>> gather_all(std::span<const std::byte> mine) override;
  std::unique_ptr<Transfer> send(std::span<const std::byte> bytes, int to, int tag) override;
  std::unique_ptr<Transfer> receive(std::span<std::byte> bytes, int from, int tag) override;

  /// Is a thread blocked in one of the calls above?
  bool waiting() const;

 private:
  struct Handles;  ///< MPI_Comm of collectives and of point-to-point
  enum class Call : int64_t;
  void compare_calls(Call call, int64_t count, int64_t root = 0);
  template <typename T>
  void reduce(Call call, std::span<T> values);

  std::unique_ptr<Handles> handles_;
  int rank_ = 0;
  int size_ = 1;
  int64_t chunk_bytes_;
};

}  // namespace longhaul
