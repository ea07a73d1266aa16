#include "parallel/checkpoint_directory.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <system_error>

#include "core/io/file.h"
#include "kernels/error.h"

namespace longhaul {

namespace {

/// The step in step_<digits> or step_<digits>.old; nothing for other names.
std::optional<int64_t> step_in_name(const std::string& name) {
  if (!name.starts_with("step_")) return std::nullopt;
  std::string digits = name.substr(5);
  if (digits.ends_with(".old")) digits.resize(digits.size() - 4);
  int64_t step = 0;
  const char* end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, step);
  if (error != std::errc() || stop != end || step < 0 || digits[0] == '-') return std::nullopt;
  return step;
}

/// Names that a checkpoint directory may hold: its rank files, manifest and owner mark, and their temporary forms.
bool is_checkpoint_content(std::string name) {
  if (name.ends_with(".tmp")) name.resize(name.size() - 4);
  return name == kOwnerFile || name == CheckpointManifest::kFileName ||
         (name.starts_with("rank_") && name.ends_with(".h5"));
}

/// Names in a directory, sorted; empty when there is no such directory.
std::vector<std::string> names_in(const fs::path& directory) {
  std::vector<std::string> names;
  std::error_code error;
  fs::directory_iterator at(directory, error);
  if (error == std::errc::no_such_file_or_directory) return names;
  for (; !error && at != fs::directory_iterator(); at.increment(error)) names.push_back(at->path().filename());
  if (error) throw system_error("{}: cannot list the directory: {}", directory.string(), error.message());
  std::sort(names.begin(), names.end());
  return names;
}

std::string trimmed(std::string text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back()))) text.pop_back();
  return text;
}

/// Loads the manifest and compares run, step and file sizes; throws when the checkpoint cannot be used.
CheckpointManifest load_usable(const fs::path& directory, const std::string& run_id) {
  if (!fs::is_directory(directory)) throw user_error("{}: not a directory", directory.string());
  CheckpointManifest manifest = CheckpointManifest::load(directory);
  if (!run_id.empty() && manifest.run_id != run_id) {
    throw user_error("{}: belongs to run {}, not to this one ({})", directory.string(), manifest.run_id, run_id);
  }
  if (step_in_name(directory.filename()) != manifest.step) {
    throw user_error("{}: its manifest is of step {}", directory.string(), manifest.step);
  }
  for (const CheckpointFile& file : manifest.files) {
    const fs::path path = directory / file.name;
    std::error_code error;
    const auto bytes = fs::file_size(path, error);
    if (error) throw user_error("{}: {}", path.string(), error.message());
    if (static_cast<int64_t>(bytes) != file.digest.bytes) {
      throw user_error("{}: {} bytes, expected {}", path.string(), bytes, file.digest.bytes);
    }
  }
  return manifest;
}

CheckpointCandidate examine(const fs::path& directory, const std::string& run_id) {
  CheckpointCandidate candidate{directory, std::nullopt, ""};
  try {
    candidate.manifest = load_usable(directory, run_id);
  } catch (const Error& error) {
    candidate.problem = error.what();
  } catch (const fs::filesystem_error& error) {
    candidate.problem = error.what();
  }
  return candidate;
}

/// Usable first, then the higher step, then the shorter name (step_N before step_N.old).
bool better(const CheckpointCandidate& a, const CheckpointCandidate& b) {
  if (a.manifest.has_value() != b.manifest.has_value()) return a.manifest.has_value();
  if (a.manifest && a.manifest->step != b.manifest->step) return a.manifest->step > b.manifest->step;
  const std::string left = a.path.filename(), right = b.path.filename();
  return left.size() != right.size() ? left.size() < right.size() : left < right;
}

/// First "<path><middle><n>" that does not exist.
fs::path free_name(const fs::path& parent, const std::string& stem) {
  for (int64_t number = 1;; ++number) {
    const fs::path path = parent / (stem + std::to_string(number));
    if (!fs::exists(fs::symlink_status(path))) return path;
  }
}

}  // namespace

std::string step_directory_name(int64_t step) { return fmt::format("step_{:08}", step); }

CheckpointListing list_checkpoints(const fs::path& checkpoints, const std::string& run_id) {
  CheckpointListing listing;
  for (const std::string& name : names_in(checkpoints)) {
    if (name == kLatestFile) {
      try {
        listing.latest = trimmed(read_file(checkpoints / name));
      } catch (const Error& error) {
        listing.ignored.push_back(error.what());
        listing.latest = "";
      }
    } else if (step_in_name(name)) {
      listing.candidates.push_back(examine(checkpoints / name, run_id));
    } else if (name.ends_with(kRouterSuffix) && step_in_name(fs::path(name).stem())) {
      continue;  // belongs to the checkpoint beside it
    } else if (name.find(".partial") != std::string::npos) {
      listing.ignored.push_back(name + ": a save that was never completed");
    } else if (name.find(".aside.") != std::string::npos) {
      listing.ignored.push_back(name + ": set aside");
    } else if (!name.starts_with(".trash.") && name != std::string(kLatestFile) + ".tmp") {
      listing.ignored.push_back(name + ": not the name of a checkpoint");
    }
  }
  std::stable_sort(listing.candidates.begin(), listing.candidates.end(), better);
  return listing;
}

Ownership ownership_of(const fs::path& directory, const std::string& run_id) {
  const fs::file_status status = fs::symlink_status(directory);
  if (!fs::exists(status)) return Ownership::absent;
  if (!fs::is_directory(status)) return Ownership::foreign;
  for (const std::string& name : names_in(directory)) {
    if (!is_checkpoint_content(name)) return Ownership::foreign;
    if (name == kOwnerFile) {
      const std::string owner = trimmed(read_file(directory / name));
      if (!owner.empty() && owner != run_id) return Ownership::foreign;  // empty: cut short by a crash
    } else if (name == CheckpointManifest::kFileName) {
      try {
        if (CheckpointManifest::load(directory).run_id != run_id) return Ownership::foreign;
      } catch (const Error&) {
        continue;  // damaged: no evidence that somebody else's run wrote it into our directory
      }
    }
  }
  return Ownership::ours;
}

fs::path set_aside(const fs::path& path) {
  const fs::path aside = free_name(path.parent_path(), path.filename().string() + ".aside.");
  rename_durably(path, aside);
  return aside;
}

void remove_directory(const fs::path& path) {
  fs::path trash = path;
  if (!path.filename().string().starts_with(".trash.")) {
    trash = free_name(path.parent_path(), ".trash." + path.filename().string() + ".");
    rename_durably(path, trash);
  }
  std::error_code error;
  fs::remove_all(trash, error);
  if (error) throw system_error("{}: cannot delete: {}", trash.string(), error.message());
}

}  // namespace longhaul
