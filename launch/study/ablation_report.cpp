#include "launch/study/ablation_report.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <optional>
#include <set>

#include "launch/pictures/chart.h"
#include "launch/study/sample_statistics.h"

namespace longhaul {
namespace {

constexpr const char* kWeights[] = {"raw", "ema", "swa", "best"};

/// A column of the tables, over the seeds of a rung.
struct Column {
  std::string weights;  ///< raw, ema, swa or best
  int64_t length = 0;
};

/// "best": those that score best on whole rows.
std::string weights_named(const std::string& name, const ValidationScores& scores, int64_t context) {
  return name == "best" ? scores.best_weights(context) : name;
}

std::optional<double> score_of(const ValidationScores& scores, const Column& column, int64_t context) {
  const auto weights = scores.cross_entropy.find(weights_named(column.weights, scores, context));
  if (weights == scores.cross_entropy.end()) return std::nullopt;
  const auto score = weights->second.find(column.length);
  return score == weights->second.end() ? std::nullopt : std::optional(score->second);
}

/// Of the last validation of every seed; nothing when one of them lacks it.
std::optional<SampleStatistics> final_score(const AblationResults& results, size_t rung, const Column& column) {
  std::vector<double> values;
  for (const RunMetrics& run : results.rungs[rung]) {
    const auto value = score_of(run.validations.back(), column, results.context);
    if (!value) return std::nullopt;
    values.push_back(*value);
  }
  return statistics_of(values);
}

SampleStatistics speed_of(const AblationResults& results, size_t rung) {
  std::vector<double> values;
  for (const RunMetrics& run : results.rungs[rung]) values.push_back(run.tokens_per_second);
  return statistics_of(values);
}

/// Which weights were best in the end: "swa", or "raw, swa" where seeds differ.
std::string best_of(const AblationResults& results, size_t rung) {
  std::set<std::string> names;
  for (const RunMetrics& run : results.rungs[rung]) names.insert(run.validations.back().best_weights(results.context));
  return fmt::format("{}", fmt::join(names, ", "));
}

/// All that some rung validated at in the end.
std::set<int64_t> lengths_of(const AblationResults& results) {
  std::set<int64_t> lengths;
  for (const auto& runs : results.rungs) {
    for (const RunMetrics& run : runs) {
      for (const auto& [weights, scores] : run.validations.back().cross_entropy) {
        for (const auto& [length, score] : scores) lengths.insert(length);
      }
    }
  }
  return lengths;
}

std::string cell(const std::optional<SampleStatistics>& statistics, int digits) {
  if (!statistics) return "-";
  return fmt::format("{:.{}f} ± {:.{}f}", statistics->mean, digits, statistics->deviation, digits);
}

std::string length_table(const AblationResults& results) {
  const std::set<int64_t> lengths = lengths_of(results);
  if (lengths.size() < 2) return "";
  std::string head = "| rung |", rule = "|---|", body;
  for (const int64_t length : lengths) {
    head += fmt::format(" rows of {} |", length);
    rule += "---|";
  }
  for (size_t rung = 0; rung < results.rungs.size(); ++rung) {
    body += fmt::format("| {} |", ablation_rungs()[rung].title);
    for (const int64_t length : lengths)
      body += fmt::format(" {} |", cell(final_score(results, rung, {"best", length}), 4));
    body += "\n";
  }
  return "\nCross-entropy of the best weights by length of the rows; a rung without the game validates whole rows "
         "alone.\n\n" +
         head + "\n" + rule + "\n" + body;
}

/// Of one seed: tokens and the cross-entropy of the best weights over whole rows.
std::vector<SvgPoint> curve_of(const RunMetrics& run, int64_t context) {
  std::vector<SvgPoint> points;
  for (const ValidationScores& scores : run.validations) {
    const auto score = score_of(scores, {"best", context}, context);
    const double shown = score.value_or(std::numeric_limits<double>::quiet_NaN());
    points.push_back({static_cast<double>(scores.tokens), shown});
  }
  return points;
}

/// Point by point; as long as the shortest. Validations of all seeds are after the same steps.
std::vector<SvgPoint> mean_of(const std::vector<std::vector<SvgPoint>>& curves) {
  std::vector<SvgPoint> means;
  for (size_t i = 0; i < curves.front().size(); ++i) {
    std::vector<double> values;
    for (const auto& curve : curves) {
      if (i >= curve.size()) return means;
      values.push_back(curve[i].y);
    }
    means.push_back({curves.front()[i].x, statistics_of(values).mean});
  }
  return means;
}

}  // namespace

AblationResults read_results(const Ablation& ablation) {
  const Configuration& config = ablation.runs.front().configuration.values;
  AblationResults results{.context = config.data.context,
                          .steps = config.train.steps,
                          .parameters = ablation.parameters,
                          .tokens_per_step = config.train.slots * config.train.rows_per_slot * config.data.context,
                          .rungs = {}};
  results.rungs.resize(ablation_rungs().size());
  for (const AblationRun& run : ablation.runs) {
    results.rungs[run.rung].push_back(
        read_run_metrics(run.directory, results.context, results.tokens_per_step, results.steps));
  }
  return results;
}

std::string ablation_markdown(const AblationResults& results) {
  std::string text = fmt::format(
      "Validation cross-entropy (nats per token) after {} steps of {} tokens, {} parameters, mean ± sample deviation "
      "over {} seed(s).\n\n"
      "| rung | raw | ema | swa | best | which | tokens/s |\n|---|---|---|---|---|---|---|\n",
      results.steps, results.tokens_per_step, results.parameters, results.rungs.front().size());
  for (size_t rung = 0; rung < results.rungs.size(); ++rung) {
    text += fmt::format("| {} |", ablation_rungs()[rung].title);
    for (const char* weights : kWeights) {
      text += fmt::format(" {} |", cell(final_score(results, rung, {weights, results.context}), 4));
    }
    text += fmt::format(" {} | {} |\n", best_of(results, rung), cell(speed_of(results, rung), 0));
  }
  return text + length_table(results);
}

std::string ablation_csv(const AblationResults& results) {
  std::string text =
      "rung,weights,length,seeds,cross_entropy,cross_entropy_deviation,tokens_per_second,tokens_per_second_deviation,"
      "steps,tokens,parameters\n";
  for (size_t rung = 0; rung < results.rungs.size(); ++rung) {
    const SampleStatistics speed = speed_of(results, rung);
    for (const char* weights : kWeights) {
      for (const int64_t length : lengths_of(results)) {
        const auto score = final_score(results, rung, {weights, length});
        if (!score) continue;
        text +=
            fmt::format("{},{},{},{},{:.6f},{:.6f},{:.1f},{:.1f},{},{},{}\n", ablation_rungs()[rung].name, weights,
                        length, results.rungs[rung].size(), score->mean, score->deviation, speed.mean, speed.deviation,
                        results.steps, results.steps * results.tokens_per_step, results.parameters);
      }
    }
  }
  return text;
}

std::string ablation_curves(const AblationResults& results) {
  Chart chart{.title = "Ablation: validation over training",
              .x_label = "tokens",
              .y_label = "validation cross-entropy, best weights",
              .curves = {}};
  for (size_t rung = 0; rung < results.rungs.size(); ++rung) {
    ChartCurve curve{.name = ablation_rungs()[rung].title, .points = {}};
    for (const RunMetrics& run : results.rungs[rung]) curve.single.push_back(curve_of(run, results.context));
    curve.points = mean_of(curve.single);
    chart.curves.push_back(std::move(curve));
  }
  return draw_chart(chart);
}

}  // namespace longhaul
