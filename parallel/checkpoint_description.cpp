#include "parallel/checkpoint_description.h"

#include <fmt/format.h>

#include <map>

#include "parallel/checkpoint_directory.h"
#include "parallel/checkpoint_manifest.h"
#include "parallel/run_directory.h"

namespace longhaul {

namespace fs = std::filesystem;

namespace {

std::string megabytes(int64_t bytes) { return fmt::format("{:.1f} MB", static_cast<double>(bytes) / 1e6); }

/// "parameter: 148 tensors, 124439808 elements, f32" for every kind, the part of the name before the first slash.
std::string describe_tensors(const CheckpointManifest& manifest) {
  struct Kind {
    int64_t tensors = 0, elements = 0, bytes = 0;
  };
  std::map<std::string, Kind> kinds;
  for (const auto& [name, entry] : manifest.tensors) {
    Kind& kind = kinds[name.substr(0, name.find('/')) + " (" + std::string(name_of(entry.dtype)) + ")"];
    ++kind.tensors;
    kind.elements += entry.shape.count();
    kind.bytes += entry.shape.count() * size_of(entry.dtype);
  }
  std::string text;
  for (const auto& [name, kind] : kinds) {
    text += fmt::format("  {:20} {:6} tensors {:14} elements {:>12}\n", name, kind.tensors, kind.elements,
                        megabytes(kind.bytes));
  }
  return text;
}

std::string describe_one(const fs::path& path) {
  const CheckpointManifest manifest = CheckpointManifest::load(path);
  int64_t bytes = 0;
  for (const CheckpointFile& file : manifest.files) bytes += file.digest.bytes;
  return fmt::format("checkpoint {}\n  step {}, data position {}, run {}\n  {} files, {}; configuration {}\n",
                     path.string(), manifest.step, manifest.extras.data_position, manifest.run_id,
                     manifest.files.size(), megabytes(bytes), manifest.extras.config_hash) +
         describe_tensors(manifest);
}

std::string describe_run(const fs::path& path) {
  const RunDirectory run = RunDirectory::open_unlocked(path);
  const CheckpointListing listing = list_checkpoints(run.checkpoints(), run.run_id());
  std::string text =
      fmt::format("run {}\n  id {}, {} checkpoints\n", path.string(), run.run_id(), listing.candidates.size());
  for (const CheckpointCandidate& candidate : listing.candidates) {
    const std::string name = candidate.path.filename();
    if (candidate.manifest) {
      text += fmt::format("  {}  complete, step {}, {}\n", name, candidate.manifest->step,
                          megabytes(candidate.manifest->tensor_bytes()));
    } else {
      text += fmt::format("  {}  unusable: {}\n", name, candidate.problem);
    }
  }
  for (const std::string& line : listing.ignored) text += "  " + line + "\n";
  return text;
}

}  // namespace

bool is_checkpoint_path(const fs::path& path) {
  return RunDirectory::is_run_directory(path) ||
         (fs::is_regular_file(path / CheckpointManifest::kFileName) && fs::is_regular_file(path / kOwnerFile));
}

std::string describe_checkpoint(const fs::path& path) {
  return RunDirectory::is_run_directory(path) ? describe_run(path) : describe_one(path);
}

}  // namespace longhaul
