// What a checkpoint or a run directory holds, in a few lines of text for `longhaul inspect`.
#pragma once

#include <filesystem>
#include <string>

namespace longhaul {

/// True for a checkpoint directory or a run directory.
bool is_checkpoint_path(const std::filesystem::path& path);

/// A checkpoint: step, position, files with sizes, tensors by kind. A run directory: its id and every checkpoint with
/// what is wrong with it, if anything. Contents of the files are not verified.
std::string describe_checkpoint(const std::filesystem::path& path);

}  // namespace longhaul
