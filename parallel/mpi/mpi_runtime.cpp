#include "parallel/mpi/mpi_runtime.h"

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <thread>

#include "core/comm/agreement.h"
#include "kernels/error.h"
#include "parallel/mpi/mpi_check.h"
#include "parallel/mpi/mpi_communicator.h"

namespace longhaul {
namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

void print_error(const std::string& text) {
  std::fflush(stdout);
  std::fprintf(stderr, "%s\n", text.c_str());
  std::fflush(stderr);
}

}  // namespace

MpiRuntime::MpiRuntime() {
  int provided = MPI_THREAD_SINGLE;
  check_mpi(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided), "MPI_Init_thread");
  if (provided < MPI_THREAD_MULTIPLE) {
    throw system_error("MPI: found thread support {}, expected MPI_THREAD_MULTIPLE ({}): use an MPI built with it",
                       provided, MPI_THREAD_MULTIPLE);
  }
}

MpiRuntime::~MpiRuntime() {
  if (MPI_Finalize() != MPI_SUCCESS) print_error("MPI: MPI_Finalize failed");
}

void MpiRuntime::abort(int exit_code) {
  // MPI_Abort asks the launcher to end the job; should the launcher be gone or stuck, at least this rank ends.
  std::thread([exit_code] {
    std::this_thread::sleep_for(std::chrono::seconds(3));
    ::_exit(exit_code);
  }).detach();
  MPI_Abort(MPI_COMM_WORLD, exit_code);
  ::_exit(exit_code);
}

bool started_by_mpi_launcher() {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK", "PMI_FD"}) {
    if (!variable(name).empty()) return true;
  }
  return false;
}

World::World() {
  if (started_by_mpi_launcher()) {
    runtime_ = std::make_unique<MpiRuntime>();
    group_ = std::make_unique<MpiCommunicator>();
    return;
  }
  const std::string tasks = variable("SLURM_STEP_NUM_TASKS");
  if (!tasks.empty() && tasks != "1") {
    throw user_error(
        "a Slurm step of {} tasks announces no MPI ranks: start it with srun --mpi=pmix (or pmi2), or mpirun", tasks);
  }
  group_ = make_single_communicator();
}

World::~World() = default;

bool World::waiting_for_peers() const { return runtime_ && static_cast<const MpiCommunicator&>(*group_).waiting(); }

int World::run(const std::function<int()>& body, const std::function<int(Fault)>& exit_code_of) {
  try {
    return body();
  } catch (const AgreedError& error) {
    if (error.rank() == group_->rank()) print_error(std::string("longhaul: ") + error.what());
    group_->barrier();  // nobody leaves, which would make the launcher end the rest, before the message is out
    return exit_code_of(error.fault());
  } catch (const Error& error) {
    abort(error.what(), exit_code_of(error.fault()));
  } catch (const std::bad_alloc&) {
    abort("out of memory: use a smaller model, batch or context, or more ranks", exit_code_of(Fault::kSystem));
  } catch (const std::exception& error) {
    abort(std::string("internal error: ") + error.what(), exit_code_of(Fault::kInternal));
  }
}

void World::abort(const std::string& message, int exit_code) {
  const bool several = group_->size() > 1;
  print_error("longhaul: " + (several ? "rank " + std::to_string(group_->rank()) + ": " : "") + message);
  if (runtime_) MpiRuntime::abort(exit_code);
  ::_exit(exit_code);
}

std::string mpi_version_compiled() {
#ifdef OMPI_MAJOR_VERSION
  return fmt::format("Open MPI {}.{}.{}", OMPI_MAJOR_VERSION, OMPI_MINOR_VERSION, OMPI_RELEASE_VERSION);
#else
  return fmt::format("MPI standard {}.{}", MPI_VERSION, MPI_SUBVERSION);
#endif
}

std::string mpi_version_loaded() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
  int length = 0;
  check_mpi(MPI_Get_library_version(text, &length), "MPI_Get_library_version");
  const std::string all(text, static_cast<size_t>(length));
  return all.substr(0, all.find_first_of(",\n"));
}

}  // namespace longhaul
