// What a run reports, as lines of JSON and as TensorBoard scalars. Writing never stops a run: a failure is a warning.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "launch/config/configuration.h"

namespace longhaul {

class File;
class TensorboardFile;

/// One line of metrics.jsonl: {"kind": "train", "step": 10, "loss": 3.2, ...}. Numbers also go to TensorBoard as
/// "kind/name".
struct MetricsLine {
  using Value = std::variant<double, int64_t, std::string, std::vector<double>>;  ///< lists: JSON only
  std::string kind;  ///< "start", "train", "reduction", "validation", "checkpoint"
  int64_t step = 0;
  std::vector<std::pair<std::string, Value>> values;

  std::string json() const;  ///< without line end; numbers that are not finite become null
};

class MetricsLog {
 public:
  static constexpr const char* kFileName = "metrics.jsonl";
  static constexpr const char* kTensorboardDirectory = "tensorboard";

  /// Opens the files in `run_directory`. A run that continues after `resumed_step` steps repeats the later ones: their
  /// lines (and a line cut off by a crash) are removed, so that every step stands in the file once.
  MetricsLog(const std::filesystem::path& run_directory, const MetricsConfig& config, int64_t resumed_step);
  ~MetricsLog();
  MetricsLog(const MetricsLog&) = delete;
  MetricsLog& operator=(const MetricsLog&) = delete;

  void write(const MetricsLine& line);
  int64_t failed_writes() const { return failed_writes_; }

 private:
  template <typename Action>
  void try_writing(const Action& action);

  std::unique_ptr<File> lines_;
  std::unique_ptr<TensorboardFile> tensorboard_;
  int64_t failed_writes_ = 0;
};

/// The lines of `text` that belong to steps up to `step`, complete ones only.
std::string lines_up_to(const std::string& text, int64_t step);

}  // namespace longhaul
