#include "launch/study/run_metrics.h"

#include <charconv>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>

#include "core/io/file.h"
#include "kernels/error.h"
#include "launch/metrics/metrics_log.h"
#include "launch/study/sample_statistics.h"

namespace longhaul {
namespace {

struct ValidationKind {
  std::string weights = "raw";
  int64_t length = 0;
};

/// "validation", "validation_512", "validation_ema", "validation_ema_512"; nothing for another kind of line.
std::optional<ValidationKind> validation_kind(const std::string& kind, int64_t context) {
  std::istringstream words(kind);
  std::string word;
  if (!std::getline(words, word, '_') || word != "validation") return std::nullopt;
  ValidationKind result{.length = context};
  while (std::getline(words, word, '_')) {
    const auto parsed = std::from_chars(word.data(), word.data() + word.size(), result.length);
    const bool is_length = parsed.ec == std::errc() && parsed.ptr == word.data() + word.size();
    if (word == "ema" || word == "swa") {
      result.weights = word;
    } else if (!is_length) {
      return std::nullopt;
    }
  }
  return result;
}

double number_or_nan(const nlohmann::json& line, const char* name) {
  const auto found = line.find(name);
  const bool is_number = found != line.end() && found->is_number();
  return is_number ? found->get<double>() : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace

std::string ValidationScores::best_weights(int64_t length) const {
  std::string best;
  double least = 0;
  for (const char* weights : {"raw", "ema", "swa"}) {
    const auto scores = cross_entropy.find(weights);
    if (scores == cross_entropy.end() || !scores->second.contains(length)) continue;
    const double score = scores->second.at(length);
    if (!std::isfinite(score) || (!best.empty() && score >= least)) continue;
    best = weights;
    least = score;
  }
  return best;
}

RunMetrics metrics_of(const std::string& lines, int64_t context, int64_t tokens_per_step) {
  RunMetrics metrics;
  std::vector<double> seconds;
  std::istringstream stream(lines);
  for (std::string text; std::getline(stream, text);) {
    const nlohmann::json line = nlohmann::json::parse(text, nullptr, false);
    if (!line.is_object() || !line.contains("kind") || !line.contains("step")) continue;
    const std::string kind = line["kind"];
    const int64_t step = line["step"];
    if (kind == "train" && step > 1) seconds.push_back(number_or_nan(line, "seconds"));
    const auto validation = validation_kind(kind, context);
    if (!validation) continue;
    if (metrics.validations.empty() || metrics.validations.back().step != step) {
      metrics.validations.push_back({step, step * tokens_per_step, {}});
    }
    metrics.validations.back().cross_entropy[validation->weights][validation->length] =
        number_or_nan(line, "cross_entropy");
  }
  metrics.tokens_per_second = static_cast<double>(tokens_per_step) / median_of(seconds);
  return metrics;
}

RunMetrics read_run_metrics(const std::filesystem::path& run_directory, int64_t context, int64_t tokens_per_step,
                            int64_t steps) {
  const std::filesystem::path file = run_directory / MetricsLog::kFileName;
  const auto text = read_file_if_present(file);
  if (!text)
    throw user_error("{}: not there; the study reads it: remove {} to train that run again", file.string(),
                     run_directory.string());
  RunMetrics metrics = metrics_of(*text, context, tokens_per_step);
  if (metrics.validations.empty() || metrics.validations.back().step != steps) {
    throw user_error("{}: no validation after step {}, the last of the run; remove {} to train it again", file.string(),
                     steps, run_directory.string());
  }
  return metrics;
}

}  // namespace longhaul
