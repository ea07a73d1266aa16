#include <string>

#include "core/io/hdf5_file.h"
#include "kernels/cpu_isa.h"
#include "kernels/error.h"
#include "kernels/matmul.h"
#include "launch/build_info.h"
#include "launch/program.h"
#include "parallel/mpi/mpi_runtime.h"

namespace longhaul {
namespace {

std::string row(const std::string& name, const std::string& text) { return fmt::format("  {:<14} {}\n", name, text); }

}  // namespace

std::string version_text() {
  const BuildInfo& info = build_info();
  std::string text = fmt::format("longhaul {}\n", info.version);
  text += row("commit", std::string(info.commit));
  text += row("build", fmt::format("{}, {}{}{}", info.build_type, info.compiler,
                                   info.sanitizers.empty() ? "" : ", sanitizers ", info.sanitizers));
  text += row("CPU kernels", kernels::cpu_isa_name());
  text += row("MPI", fmt::format("compiled {}; loaded {}", mpi_version_compiled(), mpi_version_loaded()));
  text += row("HDF5",
              fmt::format("compiled {} ({}); loaded {}", hdf5_version_compiled(), info.hdf5, hdf5_version_loaded()));
  text += row("BLAS", fmt::format("linked {}; loaded {}", info.blas, kernels::blas_name()));
  text += row("CUDA", fmt::format("{}{}{}", info.cuda, info.cuda_architectures.empty() ? "" : ", architectures ",
                                  info.cuda_architectures));
  text += row("NCCL", std::string(info.nccl));
  text += row("SentencePiece", std::string(info.sentencepiece));
  return text;
}

}  // namespace longhaul
