#include "launch/metrics/metrics_log.h"

#include <cstdio>
#include <nlohmann/json.hpp>
#include <sstream>

#include "core/io/file.h"
#include "kernels/error.h"
#include "launch/metrics/tensorboard_file.h"

namespace longhaul {

std::string MetricsLine::json() const {
  nlohmann::ordered_json json;
  json["kind"] = kind;
  json["step"] = step;
  for (const auto& [name, value] : values) {
    std::visit([&json, &key = name](const auto& held) { json[key] = held; }, value);
  }
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

std::string lines_up_to(const std::string& text, int64_t step) {
  std::string result, line;
  std::istringstream stream(text);
  while (std::getline(stream, line) && !stream.eof()) {  // at eof: the line has no end, it was cut off
    const nlohmann::json json = nlohmann::json::parse(line, nullptr, false);
    if (!json.is_object() || !json.contains("step") || !json["step"].is_number_integer()) continue;
    if (json["step"].get<int64_t>() <= step) result += line + "\n";
  }
  return result;
}

MetricsLog::MetricsLog(const std::filesystem::path& run_directory, const MetricsConfig& config, int64_t resumed_step) {
  if (config.jsonl) {
    try_writing([&] {
      const fs::path path = run_directory / kFileName;
      if (fs::exists(path)) {
        const std::string text = read_file(path);
        const std::string kept = lines_up_to(text, resumed_step);
        if (kept != text) write_file_durably(path, kept);
      }
      lines_ = std::make_unique<File>(File::open_append(path));
    });
  }
  if (config.tensorboard) {
    try_writing([&] {
      tensorboard_ = std::make_unique<TensorboardFile>(run_directory / kTensorboardDirectory, resumed_step + 1);
    });
  }
}

MetricsLog::~MetricsLog() = default;

template <typename Action>
void MetricsLog::try_writing(const Action& action) {
  try {
    action();
  } catch (const std::exception& error) {
    // The first failure and then every hundredth, so that a full disk does not flood the console.
    if (failed_writes_++ % 100 == 0) {
      fmt::print(stderr, "longhaul: warning: metrics not written, training goes on: {}\n", error.what());
    }
  }
}

void MetricsLog::write(const MetricsLine& line) {
  if (lines_) try_writing([&] { lines_->write(line.json() + "\n"); });
  if (!tensorboard_) return;
  std::vector<std::pair<std::string, double>> scalars;
  for (const auto& [name, value] : line.values) {
    if (const double* number = std::get_if<double>(&value)) scalars.emplace_back(line.kind + "/" + name, *number);
    if (const int64_t* count = std::get_if<int64_t>(&value)) {
      scalars.emplace_back(line.kind + "/" + name, static_cast<double>(*count));
    }
  }
  if (!scalars.empty()) try_writing([&] { tensorboard_->write(line.step, scalars); });
}

}  // namespace longhaul
