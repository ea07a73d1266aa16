#include "parallel/checkpoint_resume.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "core/comm/agreement.h"
#include "core/io/file.h"
#include "kernels/error.h"
#include "parallel/checkpoint_directory.h"
#include "parallel/text_exchange.h"

namespace longhaul {

namespace {

using nlohmann::json;

/// What every rank has to know of rank 0's view of the directory.
struct Overview {
  struct Usable {
    std::string name;
    int64_t step;
  };
  std::vector<Usable> usable;         ///< best first
  std::vector<std::string> unusable;  ///< one line each: candidates that cannot be used
  std::vector<std::string> ignored;
  bool has_latest = false;
  std::string latest;
};

json encode(const CheckpointListing& listing) {
  json usable = json::array(), unusable = json::array();
  for (const CheckpointCandidate& candidate : listing.candidates) {
    if (candidate.manifest) {
      usable.push_back({candidate.path.filename().string(), candidate.manifest->step});
    } else {
      unusable.push_back(candidate.problem);
    }
  }
  return {{"usable", usable},
          {"unusable", unusable},
          {"ignored", listing.ignored},
          {"has_latest", listing.latest.has_value()},
          {"latest", listing.latest.value_or("")}};
}

/// Collective: the view of rank 0, so that all ranks try the same directories in the same order.
Overview look(Communicator& group, const RunDirectory& run) {
  std::string text;
  agree(group, "listing checkpoints", [&] {
    if (!group.is_root()) return;
    text =
        encode(list_checkpoints(run.checkpoints(), run.run_id())).dump(-1, ' ', false, json::error_handler_t::replace);
  });
  const json document = json::parse(text_from_root(group, text));
  Overview overview;
  for (const json& row : document.at("usable")) {
    overview.usable.push_back({row.at(0).get<std::string>(), row.at(1).get<int64_t>()});
  }
  overview.unusable = document.at("unusable").get<std::vector<std::string>>();
  overview.ignored = document.at("ignored").get<std::vector<std::string>>();
  overview.has_latest = document.at("has_latest").get<bool>();
  overview.latest = document.at("latest").get<std::string>();
  return overview;
}

/// Collective: opens and verifies; every rank throws when any finds it bad.
CheckpointReader open_together(Communicator& group, const fs::path& directory) {
  std::optional<CheckpointReader> reader;
  agree(group, "opening " + directory.filename().string(), [&] { reader.emplace(CheckpointReader::open(directory)); });
  reader->verify_together(group);
  return std::move(*reader);
}

/// A refusal that every rank comes to by itself, from the same facts.
template <typename... Args>
AgreedError refusal(fmt::format_string<Args...> format, Args&&... args) {
  return AgreedError(Fault::kUser, fmt::format(format, std::forward<Args>(args)...), 0);
}

std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += (text.empty() ? "" : "; ") + line;
  return text;
}

ResumeChoice choose_newest(Communicator& group, const RunDirectory& run, const Overview& overview) {
  ResumeChoice choice;
  choice.skipped = overview.unusable;
  for (const Overview::Usable& candidate : overview.usable) {
    try {
      choice.checkpoint.emplace(open_together(group, run.checkpoints() / candidate.name));
      break;
    } catch (const AgreedError& error) {
      choice.skipped.push_back(error.what());
    }
  }
  if (!choice.checkpoint && !choice.skipped.empty()) {
    throw refusal("{}: no checkpoint can be used, and starting again at step 0 must be asked for (resume = none): {}",
                  run.checkpoints().string(), joined(choice.skipped));
  }
  if (!choice.checkpoint && overview.has_latest) {
    throw refusal(
        "{}: '{}' names '{}', but no checkpoint is there; bring it back, or ask for a start at step 0 "
        "(resume = none)",
        run.checkpoints().string(), kLatestFile, overview.latest);
  }
  choice.skipped.insert(choice.skipped.end(), overview.ignored.begin(), overview.ignored.end());
  return choice;
}

CheckpointReader open_step(Communicator& group, const RunDirectory& run, const Overview& overview, int64_t step) {
  std::string steps;
  for (const Overview::Usable& candidate : overview.usable) {
    if (candidate.step == step) return open_together(group, run.checkpoints() / candidate.name);
    steps += (steps.empty() ? "" : ", ") + std::to_string(candidate.step);
  }
  throw refusal("{}: no usable checkpoint of step {}; there are: {}{}{}", run.checkpoints().string(), step,
                steps.empty() ? "none" : steps,
                overview.unusable.empty() ? "" : "; unusable: ", joined(overview.unusable));
}

/// Collective: renames the checkpoints beyond `step` and lets `latest` name `kept` (nothing when empty).
std::vector<std::string> leave_branch(Communicator& group, const RunDirectory& run, const Overview& overview,
                                      int64_t step, const std::string& kept) {
  std::vector<std::string> lines;
  agree(group, "setting newer checkpoints aside", [&] {
    for (const Overview::Usable& candidate : overview.usable) {
      if (candidate.step <= step) continue;
      lines.push_back(candidate.name + ": belongs to the branch of the run that is left now; set aside");
      if (group.is_root()) set_aside(run.checkpoints() / candidate.name);
    }
    if (!group.is_root() || !overview.has_latest) return;
    const fs::path latest = run.checkpoints() / kLatestFile;
    if (!kept.empty()) {
      write_file_durably(latest, kept + "\n");
    } else if (std::error_code error; !fs::remove(latest, error) && error) {
      throw system_error("{}: cannot delete: {}", latest.string(), error.message());
    }
  });
  return lines;
}

int64_t parse_step(const std::string& request) {
  int64_t step = -1;
  const char* end = request.data() + request.size();
  const auto [stop, error] = std::from_chars(request.data(), end, step);
  if (error == std::errc() && stop == end && step >= 0) return step;
  throw refusal("resume = '{}': expected auto, none or the number of a step", request);
}

}  // namespace

ResumeChoice choose_checkpoint(Communicator& group, const RunDirectory& run, const std::string& request) {
  const bool newest = request == "auto", nothing = request == "none";
  const int64_t step = newest || nothing ? -1 : parse_step(request);
  const Overview overview = look(group, run);
  if (newest) return choose_newest(group, run, overview);
  ResumeChoice choice;
  std::string kept;
  if (!nothing) {
    choice.checkpoint.emplace(open_step(group, run, overview, step));
    kept = choice.checkpoint->directory().filename();
  }
  choice.skipped = leave_branch(group, run, overview, step, kept);
  return choice;
}

fs::path resolve_checkpoint(const fs::path& path) {
  if (fs::is_regular_file(path / CheckpointManifest::kFileName) && !RunDirectory::is_run_directory(path)) return path;
  if (!RunDirectory::is_run_directory(path)) {
    throw user_error("{}: neither a checkpoint (no {}) nor a run directory (no run.json)", path.string(),
                     CheckpointManifest::kFileName);
  }
  const RunDirectory run = RunDirectory::open_unlocked(path);
  const CheckpointListing listing = list_checkpoints(run.checkpoints(), run.run_id());
  if (!listing.candidates.empty() && listing.candidates.front().manifest) return listing.candidates.front().path;
  if (listing.candidates.empty()) throw user_error("{}: no checkpoint yet", run.checkpoints().string());
  throw user_error("{}: no usable checkpoint: {}", run.checkpoints().string(), listing.candidates.front().problem);
}

}  // namespace longhaul
