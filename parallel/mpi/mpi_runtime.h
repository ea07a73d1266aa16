// MPI_Init, MPI_Finalize and MPI_Abort, owned once by main.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "core/comm/communicator.h"
#include "kernels/error.h"

namespace longhaul {

/// The MPI library from MPI_Init_thread(MPI_THREAD_MULTIPLE) to MPI_Finalize (in the destructor).
class MpiRuntime {
 public:
  MpiRuntime();
  ~MpiRuntime();
  MpiRuntime(const MpiRuntime&) = delete;
  MpiRuntime& operator=(const MpiRuntime&) = delete;

  /// Ends all ranks at once with `exit_code`; from any thread; does not return.
  [[noreturn]] static void abort(int exit_code);
};

/// All ranks this process was started with.
class World {
 public:
  /// Under mpirun, srun or another launcher that announces its ranks: MPI. Else the group of one, and MPI is never
  /// initialised. user_error in a Slurm step of several tasks that announces no ranks (each task would train alone).
  World();
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  Communicator& group() { return *group_; }
  bool uses_mpi() const { return runtime_ != nullptr; }
  /// Is a thread of this rank blocked in a communication call? For the watchdog; from any thread.
  bool waiting_for_peers() const;

  /// Runs this rank's part of the program and returns its exit code. Failures: an AgreedError (every rank has it) is
  /// printed by its rank alone and every rank returns exit_code_of(fault); any other exception is known to this rank
  /// only: abort().
  int run(const std::function<int()>& body, const std::function<int(Fault)>& exit_code_of);

  /// The last resort: prints `message` (with the rank when there are several) on stderr and ends every rank with
  /// `exit_code`. From any thread.
  [[noreturn]] void abort(const std::string& message, int exit_code);

 private:
  std::unique_ptr<MpiRuntime> runtime_;
  std::unique_ptr<Communicator> group_;
};

/// Did a launcher announce an MPI job to this process (OMPI_COMM_WORLD_SIZE, PMIX_RANK, PMI_RANK, or a Slurm step with
/// PMI)?
bool started_by_mpi_launcher();

std::string mpi_version_compiled();
std::string mpi_version_loaded();

}  // namespace longhaul
