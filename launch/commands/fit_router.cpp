#include "launch/commands/fit_router.h"

#include <fmt/core.h>

#include <algorithm>

#include "core/comm/communicator.h"
#include "core/models/amor_model.h"
#include "core/models/router_fit.h"
#include "data/stream/token_stream.h"
#include "kernels/error.h"
#include "launch/arguments.h"
#include "launch/exit_codes.h"
#include "launch/metrics/progress.h"
#include "launch/router_file.h"
#include "launch/trained_model.h"
#include "launch/training/threads.h"

namespace longhaul {
namespace {

constexpr const char* kUsage =
    R"help(usage: longhaul fit-router --run DIR | --checkpoint DIR [--weights KIND] [--data DIR] [--split valid] [--tokens N]
                          [--passes N] [--seed N] [--threads N]

Fits one small router per entropy gate of a trained amor model: it predicts the gate's entropy from the gate's input, so that
generation needs no product with the output matrix to decide whether attention fires. A linear map by least squares, then a
layer of 512 SiLU units beside it. Four fifths of the tokens are fitted to, the last fifth tells how good the routers are.
They are written beside the checkpoint, as step_N.router; `generate` and `eval` use them with --router.

  --run DIR         a run directory: its newest complete checkpoint
  --checkpoint DIR  one checkpoint directory
  --weights KIND    raw (default), ema (running average), swa (mean of snapshots), or best: as the last validation found
  --data DIR        dataset made by `longhaul tokenize` (default: the datasets of the run)
  --split NAME      train, valid (default) or test
  --tokens N        tokens to read (default 16384)
  --passes N        of AdamW over the tokens (default 4)
  --seed N          of the hidden units' start and of the order of the tokens (default 0)
  --threads N       default 0: all cores

examples:
  longhaul fit-router --run runs/amor
  longhaul generate --run runs/amor --router --prompt "Once"
)help";

void append_rows(const Tensor& to, int64_t& filled, const Tensor& rows) {
  const int64_t count = std::min(rows.size(0), to.size(0) - filled);
  to.rows(filled, filled + count).copy_from(rows.rows(0, count));
  filled += count;
}

/// The first `tokens` tokens of the rows (fewer when there are no more), by gate.
std::vector<RouterSamples> collect(LanguageModel& model, ValidationSet& set, int64_t context, int64_t tokens) {
  const int64_t rows = std::min(set.rows_total(), (tokens + context - 1) / context);
  const int64_t total = std::min(tokens, rows * context), width = model.config().d_model;
  std::vector<RouterSamples> samples;
  for (size_t gate = 0; gate < model.gates().size(); ++gate) {
    samples.push_back({Tensor::empty({total, width}, DType::f32), Tensor::empty({total}, DType::f32)});
  }
  Progress progress("reading", rows);
  for (int64_t row = 0; row < rows; ++row) {
    const Batch batch = set.rows(row, 1);
    GateRecord record;
    record.keep_inputs = true;
    Tape tape(Tape::Mode::off);
    ForwardContext forward{.tape = tape, .batch = batch, .gates = &record};
    model.hidden(forward);
    for (size_t gate = 0; gate < samples.size(); ++gate) {
      int64_t filled = row * context;
      append_rows(samples[gate].inputs, filled, record.blocks[gate].inputs);
      filled = row * context;
      append_rows(samples[gate].entropies, filled, record.blocks[gate].entropies);
    }
    progress.show(row + 1);
  }
  return samples;
}

RouterSamples part(const RouterSamples& samples, int64_t begin, int64_t end) {
  return {samples.inputs.rows(begin, end), samples.entropies.rows(begin, end)};
}

/// How a router decides compared with the exact gate.
struct Agreement {
  int64_t tokens = 0, fired = 0, missed = 0, added = 0;
  double share(int64_t count) const { return 100 * static_cast<double>(count) / static_cast<double>(tokens); }
};

Agreement compare(const GateRouter& router, const RouterSamples& samples, float threshold) {
  Agreement agreement;
  const Tensor predicted = router.predict(samples.inputs);
  for (int64_t i = 0; i < predicted.count(); ++i) {
    const bool exact = samples.entropies.data<float>()[i] > threshold, routed = predicted.data<float>()[i] > threshold;
    ++agreement.tokens;
    agreement.fired += exact;
    agreement.missed += exact && !routed;
    agreement.added += routed && !exact;
  }
  return agreement;
}

GateRouter fit_and_report(const RouterSamples& all, size_t gate, float threshold, const RouterFitOptions& options) {
  const int64_t tokens = all.inputs.size(0), fitted = tokens - tokens / 5;
  const RouterSamples samples = part(all, 0, fitted), held_out = part(all, fitted, tokens);
  RouterFitOptions linear = options;
  linear.passes = 0;
  const Agreement start = compare(fit_router(samples, linear), held_out, threshold);
  const GateRouter router = fit_router(samples, options);
  const Agreement found = compare(router, held_out, threshold);
  fmt::print(
      "gate {}: on {} held-out tokens the exact gate fires on {:.2f} %; the router decides {:.2f} % otherwise ({:.2f} "
      "% "
      "missed, {:.2f} % added); its linear part alone {:.2f} %\n",
      gate, found.tokens, found.share(found.fired), found.share(found.missed + found.added), found.share(found.missed),
      found.share(found.added), start.share(start.missed + start.added));
  return router;
}

int run_fit_router(const std::vector<std::string>& words) {
  const Arguments arguments(
      "fit-router", words,
      {{"run=", "checkpoint=", "weights=", "data=", "split=", "tokens=", "passes=", "seed=", "threads="}, {}});
  if (arguments.has("run") == arguments.has("checkpoint")) {
    throw user_error("longhaul fit-router: name the model by either --run or --checkpoint");
  }
  const int64_t tokens = arguments.integer("tokens", 16384, 5);
  RouterFitOptions options;
  options.passes = arguments.integer("passes", options.passes);
  options.seed = static_cast<uint64_t>(arguments.integer("seed", 0));
  set_threads(*make_single_communicator(), arguments.integer("threads", 0));
  const TrainedModel trained =
      load_trained_model(arguments.text(arguments.has("run") ? "run" : "checkpoint"), arguments.text("weights", "raw"));
  RouterSet set{{}, trained.weights};
  if (trained.model->gates().empty()) {
    throw user_error("{}: family {} has no entropy gates; there is nothing to fit", trained.origin.string(),
                     trained.model->config().family);
  }
  DataConfig data = trained.configuration.values.data;
  if (arguments.has("data")) data.datasets = parse_dataset_choices(arguments.text("data"));
  ValidationSet rows(data, arguments.text("split", "valid"));
  const std::vector<RouterSamples> samples = collect(*trained.model, rows, data.context, tokens);
  for (size_t gate = 0; gate < samples.size(); ++gate) {
    set.routers.push_back(
        fit_and_report(samples[gate], gate, std::as_const(*trained.model).gates()[gate].threshold(), options));
  }
  write_routers(trained.origin, set);
  fmt::print("routers of {} gates written to {}\n", set.routers.size(), router_path(trained.origin).string());
  return kExitOk;
}

}  // namespace

Command fit_router_command() {
  return {"fit-router", "fit the routers that spare generation the gates' products", kUsage, run_fit_router};
}

}  // namespace longhaul
