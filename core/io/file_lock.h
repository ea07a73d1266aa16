// Is another process writing this file? Best effort: file systems without flock answer no.
#pragma once

#include <filesystem>

namespace longhaul {

/// True when a process of this host holds an exclusive flock on `path`, as an HDF5 writer does. A file system that
/// knows no locks (ENOLCK, ENOTSUP, spurious EAGAIN on NFS, Lustre, DVS) gives false: the refusal must be confirmed by
/// /proc/locks.
bool locked_for_writing(const std::filesystem::path& path);

}  // namespace longhaul
