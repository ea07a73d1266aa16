#include "parallel/mpi/mpi_communicator.h"

#include <sched.h>

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <string_view>
#include <thread>
#include <type_traits>

#include "parallel/mpi/mpi_check.h"

namespace longhaul {

enum class MpiCommunicator::Call : int64_t { barrier, sum, max, min, assemble, broadcast, gather_all };

namespace {

constexpr std::array<std::string_view, 7> kCallNames = {"barrier",  "sum",       "max",       "min",
                                                        "assemble", "broadcast", "gather_all"};

/// Calls test() until it is true. Yields the core first (another rank may need it), sleeps later.
template <typename Test>
void poll(std::atomic<int>& waiting, Test&& test) {
  constexpr int kYields = 500;
  constexpr auto kSleep = std::chrono::microseconds(50);
  ++waiting;
  try {
    for (int round = 0; !test(); ++round) {
      if (round < kYields) {
        ::sched_yield();
      } else {
        std::this_thread::sleep_for(kSleep);
      }
    }
  } catch (...) {
    --waiting;
    throw;
  }
  --waiting;
}

/// Waits for a non-blocking collective that `code` reports as started.
void complete(std::atomic<int>& waiting, int code, MPI_Request& request, const char* call) {
  check_mpi(code, call);
  poll(waiting, [&] {
    int done = 0;
    check_mpi(MPI_Test(&request, &done, MPI_STATUS_IGNORE), call);
    return done != 0;
  });
}

/// One message, cut into chunks. Messages between the same ranks with the same tag do not overtake each other.
class MpiTransfer : public Transfer {
 public:
  MpiTransfer(bool receives, int peer, std::atomic<int>& waiting)
      : receives_(receives), peer_(peer), waiting_(waiting) {}
  ~MpiTransfer() override {
    // Only when an error is on its way up: the buffer is about to go, so MPI must let go of it.
    for (MPI_Request& request : requests_) {
      if (request == MPI_REQUEST_NULL) continue;
      if (receives_) MPI_Cancel(&request);
      MPI_Request_free(&request);
    }
  }

  template <typename Post>
  void post(int64_t bytes, Post&& post_chunk) {
    expected_.push_back(bytes);
    requests_.push_back(MPI_REQUEST_NULL);
    check_mpi(post_chunk(&requests_.back()), receives_ ? "MPI_Irecv" : "MPI_Isend");
  }

  bool test() override {
    if (requests_.empty()) return true;
    std::vector<MPI_Status> statuses(requests_.size());
    int done = 0;
    const int code = MPI_Testall(static_cast<int>(requests_.size()), requests_.data(), &done, statuses.data());
    if (code == MPI_ERR_IN_STATUS) {
      for (size_t i = 0; i < statuses.size(); ++i) {
        if (statuses[i].MPI_ERROR == MPI_SUCCESS || statuses[i].MPI_ERROR == MPI_ERR_PENDING) continue;
        fail(expected_[i], mpi_error_text(statuses[i].MPI_ERROR));
      }
    }
    check_mpi(code, "MPI_Testall");
    if (done == 0) return false;
    if (receives_) check_sizes(statuses);
    requests_.clear();
    return true;
  }

  void wait() override {
    poll(waiting_, [this] { return test(); });
  }

 private:
  void check_sizes(const std::vector<MPI_Status>& statuses) const {
    for (size_t i = 0; i < statuses.size(); ++i) {
      int bytes = 0;
      check_mpi(MPI_Get_count(&statuses[i], MPI_BYTE, &bytes), "MPI_Get_count");
      if (bytes != expected_[i]) fail(expected_[i], fmt::format("{} bytes came", bytes));
    }
  }
  [[noreturn]] void fail(int64_t bytes, const std::string& what) const {
    throw system_error("MPI: {} {} rank {}, {} bytes expected: {}", receives_ ? "receive" : "send",
                       receives_ ? "from" : "to", peer_, bytes, what);
  }

  bool receives_;
  int peer_;
  std::atomic<int>& waiting_;
  std::vector<MPI_Request> requests_;
  std::vector<int64_t> expected_;
};

/// Calls function(begin, count) for pieces of at most `limit`; once with count 0 when there is nothing.
template <typename Function>
void for_chunks(int64_t total, int64_t limit, Function&& function) {
  int64_t begin = 0;
  do {
    const int64_t count = std::min(limit, total - begin);
    function(begin, static_cast<int>(count));
    begin += count;
  } while (begin < total);
}

}  // namespace

struct MpiCommunicator::Handles {
  MPI_Comm collective = MPI_COMM_NULL;
  MPI_Comm point_to_point = MPI_COMM_NULL;
  std::atomic<int> waiting = 0;
};

MpiCommunicator::MpiCommunicator(int64_t chunk_bytes)
    : handles_(std::make_unique<Handles>()), chunk_bytes_(chunk_bytes) {
  if (chunk_bytes < 8 || chunk_bytes > kDefaultChunkBytes) {
    throw internal_error("MPI chunk of {} bytes: expected 8 to 2^30", chunk_bytes);
  }
  for (MPI_Comm* handle : {&handles_->collective, &handles_->point_to_point}) {
    check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, handle), "MPI_Comm_dup");
    check_mpi(MPI_Comm_set_errhandler(*handle, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  }
  check_mpi(MPI_Comm_rank(handles_->collective, &rank_), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(handles_->collective, &size_), "MPI_Comm_size");
}

MpiCommunicator::~MpiCommunicator() = default;  // the handles live until MPI_Finalize: freeing them is collective

bool MpiCommunicator::waiting() const { return handles_->waiting > 0; }

void MpiCommunicator::compare_calls(Call call, int64_t count, int64_t root) {
  if (size_ == 1) return;
  const int64_t number = static_cast<int64_t>(call);
  std::array<int64_t, 6> most{number, -number, count, -count, root, -root};
  MPI_Request request = MPI_REQUEST_NULL;
  complete(handles_->waiting,
           MPI_Iallreduce(MPI_IN_PLACE, most.data(), static_cast<int>(most.size()), MPI_INT64_T, MPI_MAX,
                          handles_->collective, &request),
           request, "MPI_Iallreduce");
  if (most[0] != -most[1]) {
    throw internal_error("ranks disagree: this one calls {}, others call {} or {}", kCallNames[number],
                         kCallNames[-most[1]], kCallNames[most[0]]);
  }
  if (most[2] != -most[3] || most[4] != -most[5]) {
    throw internal_error("ranks disagree in {}: {} elements here, from {} to {} over the ranks (roots {} to {})",
                         kCallNames[number], count, -most[3], most[2], -most[5], most[4]);
  }
}

void MpiCommunicator::barrier() { compare_calls(Call::barrier, 0); }

template <typename T>
void MpiCommunicator::reduce(Call call, std::span<T> values) {
  compare_calls(call, static_cast<int64_t>(values.size()));
  if (size_ == 1 || values.empty()) return;
  const MPI_Op operation = call == Call::sum   ? MPI_SUM
                           : call == Call::max ? MPI_MAX
                           : call == Call::min ? MPI_MIN
                                               : MPI_BOR;
  const MPI_Datatype type = std::is_same_v<T, int64_t> ? MPI_INT64_T : MPI_UINT64_T;
  for_chunks(static_cast<int64_t>(values.size()), chunk_bytes_ / static_cast<int64_t>(sizeof(T)),
             [&](int64_t begin, int count) {
               MPI_Request request = MPI_REQUEST_NULL;
               complete(handles_->waiting,
                        MPI_Iallreduce(MPI_IN_PLACE, values.data() + begin, count, type, operation,
                                       handles_->collective, &request),
                        request, "MPI_Iallreduce");
             });
}

void MpiCommunicator::sum(std::span<int64_t> values) { reduce(Call::sum, values); }
void MpiCommunicator::max(std::span<int64_t> values) { reduce(Call::max, values); }
void MpiCommunicator::min(std::span<int64_t> values) { reduce(Call::min, values); }

void MpiCommunicator::assemble(std::span<double> values) {
  // Or of the bits: the value of the only rank that has one, be it infinite or not a number.
  std::vector<uint64_t> bits(values.size());
  std::transform(values.begin(), values.end(), bits.begin(),
                 [](double value) { return std::bit_cast<uint64_t>(value); });
  reduce(Call::assemble, std::span(bits));
  std::transform(bits.begin(), bits.end(), values.begin(), [](uint64_t word) { return std::bit_cast<double>(word); });
}

void MpiCommunicator::broadcast(std::span<std::byte> bytes, int root) {
  compare_calls(Call::broadcast, static_cast<int64_t>(bytes.size()), root);
  if (size_ == 1 || bytes.empty()) return;
  for_chunks(static_cast<int64_t>(bytes.size()), chunk_bytes_, [&](int64_t begin, int count) {
    MPI_Request request = MPI_REQUEST_NULL;
    complete(handles_->waiting, MPI_Ibcast(bytes.data() + begin, count, MPI_BYTE, root, handles_->collective, &request),
             request, "MPI_Ibcast");
  });
}

std::vector<std::vector<std::byte>> MpiCommunicator::gather_all(std::span<const std::byte> mine) {
  compare_calls(Call::gather_all, 0);
  const int64_t own = static_cast<int64_t>(mine.size());
  std::vector<int64_t> sizes(static_cast<size_t>(size_));
  MPI_Request request = MPI_REQUEST_NULL;
  complete(handles_->waiting,
           MPI_Iallgather(&own, 1, MPI_INT64_T, sizes.data(), 1, MPI_INT64_T, handles_->collective, &request), request,
           "MPI_Iallgather");
  std::vector<std::vector<std::byte>> all(sizes.size());
  // Rounds whose total, over all ranks, stays within a 32-bit count.
  const int64_t limit = std::max<int64_t>(1, chunk_bytes_ / size_);
  const int64_t longest = *std::max_element(sizes.begin(), sizes.end());
  for (int64_t begin = 0; begin < longest; begin += limit) {
    std::vector<int> counts, displacements;
    int total = 0;
    for (const int64_t size : sizes) {
      counts.push_back(static_cast<int>(std::clamp<int64_t>(size - begin, 0, limit)));
      displacements.push_back(total);
      total += counts.back();
    }
    std::vector<std::byte> round(static_cast<size_t>(total));
    complete(handles_->waiting,
             MPI_Iallgatherv(mine.data() + std::min(begin, own), counts[rank_], MPI_BYTE, round.data(), counts.data(),
                             displacements.data(), MPI_BYTE, handles_->collective, &request),
             request, "MPI_Iallgatherv");
    for (size_t rank = 0; rank < all.size(); ++rank) {
      const auto first = round.begin() + displacements[rank];
      all[rank].insert(all[rank].end(), first, first + counts[rank]);
    }
  }
  return all;
}

std::unique_ptr<Transfer> MpiCommunicator::send(std::span<const std::byte> bytes, int to, int tag) {
  auto transfer = std::make_unique<MpiTransfer>(false, to, handles_->waiting);
  for_chunks(static_cast<int64_t>(bytes.size()), chunk_bytes_, [&](int64_t begin, int count) {
    transfer->post(count, [&](MPI_Request* request) {
      return MPI_Isend(bytes.data() + begin, count, MPI_BYTE, to, tag, handles_->point_to_point, request);
    });
  });
  return transfer;
}

std::unique_ptr<Transfer> MpiCommunicator::receive(std::span<std::byte> bytes, int from, int tag) {
  auto transfer = std::make_unique<MpiTransfer>(true, from, handles_->waiting);
  for_chunks(static_cast<int64_t>(bytes.size()), chunk_bytes_, [&](int64_t begin, int count) {
    transfer->post(count, [&](MPI_Request* request) {
      return MPI_Irecv(bytes.data() + begin, count, MPI_BYTE, from, tag, handles_->point_to_point, request);
    });
  });
  return transfer;
}

}  // namespace longhaul
