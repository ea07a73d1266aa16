#include "parallel/checkpoint_writer.h"

#include <atomic>
#include <chrono>
#include <nlohmann/json.hpp>
#include <system_error>
#include <thread>
#include <utility>

#include "core/comm/agreement.h"
#include "core/io/file.h"
#include "kernels/error.h"
#include "parallel/checkpoint_directory.h"
#include "parallel/checkpoint_reader.h"
#include "parallel/checkpoint_snapshot.h"
#include "parallel/checkpoint_table.h"
#include "parallel/text_exchange.h"

namespace longhaul {

using nlohmann::json;
using Clock = std::chrono::steady_clock;

/// A save between begin() and its commit. The thread touches snapshot, table, error and written only; the main thread
/// reads the last three after it has seen `written`.
struct CheckpointWriter::Flight {
  int64_t step = 0;
  CheckpointExtras extras;
  fs::path partial;
  Clock::time_point begun = Clock::now();
  std::optional<CheckpointSnapshot> snapshot;
  RankTable table;
  std::optional<Error> error;
  std::atomic<bool> written = false;
  std::thread thread;

  ~Flight() {
    if (thread.joinable()) thread.join();
  }
};

namespace {

/// Makes room for step_N.partial.<session> and creates it. Rank 0 only.
void prepare_directories(const RunDirectory& run, const fs::path& partial, int64_t step) {
  create_directories_durably(run.checkpoints());
  const fs::path final = run.checkpoints() / step_directory_name(step);
  const Ownership owner = ownership_of(final, run.run_id());
  if (owner == Ownership::foreign) {
    throw user_error(
        "{}: something that this run ({}) did not write stands where its checkpoint of step {} belongs; move "
        "it away or use another run directory",
        final.string(), run.run_id(), step);
  }
  if (owner == Ownership::ours) {
    try {  // a complete one is replaced at the commit; a damaged one stays as evidence under another name
      CheckpointReader::open(final).verify_all_files();
    } catch (const Error&) {
      set_aside(final);
    }
  }
  std::vector<fs::path> leftovers;
  for (const auto& entry : fs::directory_iterator(run.checkpoints())) {
    const std::string name = entry.path().filename();
    if (name.starts_with("step_") && name.find(".partial.") != std::string::npos) leftovers.push_back(entry.path());
  }
  for (const fs::path& leftover : leftovers) {
    if (ownership_of(leftover, run.run_id()) == Ownership::ours) remove_directory(leftover);
  }
  create_directories_durably(partial);
  write_file_durably(partial / kOwnerFile, run.run_id() + "\n");
}

/// Renames the complete partial directory to its final name. A checkpoint of the same step stays loadable as step_N.old
/// until the new one has its name.
fs::path move_into_place(const RunDirectory& run, const fs::path& partial, int64_t step) {
  const fs::path final = run.checkpoints() / step_directory_name(step);
  if (fs::exists(fs::symlink_status(final))) {
    fs::path old = final;
    old += ".old";
    if (fs::exists(fs::symlink_status(old))) remove_directory(old);
    rename_durably(final, old);
  }
  rename_durably(partial, final);
  return final;
}

/// After the commit: the hint, then retention. Returns the problem, if any: the checkpoint is safe either way.
std::string tidy(const RunDirectory& run, const fs::path& final, int64_t step, const RetentionOptions& retention,
                 std::vector<std::string>& removed) {
  try {
    write_file_durably(run.checkpoints() / kLatestFile, final.filename().string() + "\n");
    removed = apply_retention(run.checkpoints(), run.run_id(), step, retention);
    return "";
  } catch (const std::exception& error) {
    return fmt::format("the checkpoint of step {} is complete, but tidying up failed: {}", step, error.what());
  }
}

std::string encode(const SaveReport& report) {
  return json{{"directory", report.directory.string()},
              {"bytes", report.bytes},
              {"problem", report.problem},
              {"removed", report.removed}}
      .dump(-1, ' ', false, json::error_handler_t::replace);
}

/// The action's errors, whatever their type, as longhaul::Error.
template <typename Action>
void as_error(Action&& action) {
  try {
    action();
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    throw system_error("{}", error.what());
  }
}

}  // namespace

CheckpointWriter::CheckpointWriter(Communicator& group, const RunDirectory& run, CheckpointOptions options)
    : group_(group), run_(run), options_(options) {
  agree(group_, "checkpoint options", [&] { options_.retention.validate(); });
}

CheckpointWriter::~CheckpointWriter() = default;

bool CheckpointWriter::in_flight() const { return flight_ != nullptr; }

std::vector<SaveReport> CheckpointWriter::begin(int64_t step, std::span<const TensorSlice> slices,
                                                const CheckpointExtras& extras) {
  std::vector<SaveReport> reports;
  if (auto report = finish()) reports.push_back(std::move(*report));
  flight_ = std::make_unique<Flight>();
  Flight& flight = *flight_;
  flight.step = step;
  flight.extras = extras;
  flight.partial = run_.checkpoints() / (step_directory_name(step) + ".partial." + run_.session());
  try {
    agree(group_, "preparing the checkpoint", [&] {
      as_error([&] {
        if (step < 0) throw internal_error("checkpoint of step {}", step);
        flight.snapshot.emplace(slices);
        if (group_.is_root()) prepare_directories(run_, flight.partial, step);
      });
    });
  } catch (const AgreedError& error) {
    reports.push_back(fail(error));
    return reports;
  }
  flight.thread = std::thread([&flight, this] {
    try {
      as_error([&] {
        const std::string name = rank_file_name(group_.rank(), group_.size());
        flight.table = flight.snapshot->write(flight.partial, name, run_.run_id(), flight.step);
      });
    } catch (const Error& error) {
      flight.error = error;
    }
    flight.snapshot.reset();
    flight.written.store(true, std::memory_order_release);
  });
  if (!options_.background) reports.push_back(complete());
  return reports;
}

std::optional<SaveReport> CheckpointWriter::poll() {
  if (!flight_) return std::nullopt;
  int64_t written = flight_->written.load(std::memory_order_acquire) ? 1 : 0;
  group_.min(std::span(&written, 1));
  if (written == 0) return std::nullopt;
  return complete();
}

std::optional<SaveReport> CheckpointWriter::finish() {
  if (!flight_) return std::nullopt;
  return complete();
}

SaveReport CheckpointWriter::complete() {
  flight_->thread.join();
  try {
    agree(group_, "writing the checkpoint", [&] {
      if (flight_->error) throw *flight_->error;
    });
    const std::vector<std::string> tables = texts_of_all(group_, flight_->table.encode());
    SaveReport report;
    agree(group_, "committing the checkpoint", [&] {
      as_error([&] {
        if (group_.is_root()) report = commit(tables);
      });
    });
    const json told = json::parse(text_from_root(group_, encode(report)));
    report.step = flight_->step;
    report.committed = true;
    report.directory = told.at("directory").get<std::string>();
    report.bytes = told.at("bytes").get<int64_t>();
    report.problem = told.at("problem").get<std::string>();
    report.removed = told.at("removed").get<std::vector<std::string>>();
    report.seconds = std::chrono::duration<double>(Clock::now() - flight_->begun).count();
    flight_.reset();
    return report;
  } catch (const AgreedError& error) {
    return fail(error);
  }
}

SaveReport CheckpointWriter::commit(const std::vector<std::string>& texts) {
  std::vector<RankTable> tables;
  for (const std::string& text : texts) tables.push_back(RankTable::decode(text));
  CheckpointManifest manifest;
  manifest.run_id = run_.run_id();
  manifest.step = flight_->step;
  manifest.extras = flight_->extras;
  merge_tables(tables, manifest);
  write_file_durably(flight_->partial / CheckpointManifest::kFileName, manifest.encode());
  SaveReport report;
  report.directory = move_into_place(run_, flight_->partial, flight_->step);
  for (const CheckpointFile& file : manifest.files) report.bytes += file.digest.bytes;
  report.problem = tidy(run_, report.directory, flight_->step, options_.retention, report.removed);
  return report;
}

SaveReport CheckpointWriter::fail(const AgreedError& error) {
  SaveReport report;
  report.step = flight_->step;
  report.problem = fmt::format("the checkpoint of step {} was not saved, earlier ones are untouched: {}", flight_->step,
                               error.what());
  if (group_.is_root()) {  // all threads have ended; give the space back if that is possible
    std::error_code ignored;
    fs::remove_all(flight_->partial, ignored);
  }
  flight_.reset();
  if (options_.on_error == SaveErrorPolicy::stop || error.fault() == Fault::kUser) {
    throw AgreedError(error.fault(), report.problem, error.rank());
  }
  return report;
}

}  // namespace longhaul
