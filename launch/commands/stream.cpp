#include "launch/commands/stream.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdio>

#include "data/stream/token_stream.h"
#include "kernels/error.h"
#include "launch/arguments.h"
#include "launch/config/load_configuration.h"
#include "launch/exit_codes.h"

namespace longhaul {
namespace {

constexpr const char* kUsage =
    "usage: longhaul stream --config FILE [--set section.key=value]... --steps A:B\n"
    "\n"
    "  Prints the samples of optimizer steps A to B - 1 (counted from 0) as JSON lines, without training: what every "
    "run\n"
    "  of this configuration reads, on any number of ranks. A step is train.slots x train.rows_per_slot samples.\n"
    "  A line: step, slot, sample (global number), dataset, epoch, row, ids, targets (-1: none, or excluded by a "
    "target mask),\n"
    "  document_start.\n"
    "\n"
    "example:\n"
    "  longhaul stream --config configs/tiny.ini --steps 0:2 | head -1\n";

struct StepRange {
  int64_t begin = 0, end = 0;
};

StepRange parse_steps(const std::string& text) {
  const size_t colon = text.find(':');
  StepRange steps;
  const auto number = [&](size_t from, size_t to, int64_t& value) {
    const auto parsed = std::from_chars(text.data() + from, text.data() + to, value);
    return parsed.ec == std::errc() && parsed.ptr == text.data() + to;
  };
  const bool good = colon != std::string::npos && number(0, colon, steps.begin) &&
                    number(colon + 1, text.size(), steps.end) && steps.begin >= 0 && steps.end > steps.begin;
  if (!good) throw user_error("--steps {}: expected A:B with 0 <= A < B, like 0:10", text);
  return steps;
}

void print_row(const Batch& batch, int64_t row, int64_t step, int64_t slot, const SampleOrigin& origin) {
  const int64_t begin = row * batch.length(), length = batch.length();
  const auto values = [&](const Tensor& tensor) {
    return fmt::join(tensor.span<int32_t>().subspan(static_cast<size_t>(begin), static_cast<size_t>(length)), ",");
  };
  fmt::print(
      "{{\"step\":{},\"slot\":{},\"sample\":{},\"dataset\":{},\"epoch\":{},\"row\":{},\"ids\":[{}],"
      "\"targets\":[{}],\"document_start\":[{}]}}\n",
      step, slot, batch.sample_ids[static_cast<size_t>(row)], origin.dataset, origin.epoch, origin.row,
      values(batch.ids), values(batch.targets), values(batch.document_start));
}

int run(const std::vector<std::string>& words) {
  const Arguments arguments("stream", words, {.options = {"config=", "set=", "steps="}, .repeatable = {"set"}});
  const StepRange steps = parse_steps(arguments.text("steps"));
  const Configuration values = load_configuration(arguments.text("config"), arguments.all("set")).values;
  TokenStream stream(values.data);
  if (stream.skipped_empty_shards() > 0) {
    fmt::print(stderr, "longhaul: warning: {} shards hold no documents and are skipped\n",
               stream.skipped_empty_shards());
  }
  const int64_t rows = values.train.rows_per_slot, slots = values.train.slots;
  for (int64_t step = steps.begin; step < steps.end; ++step) {
    for (int64_t slot = 0; slot < slots; ++slot) {
      const Batch batch = stream.rows((step * slots + slot) * rows, rows);
      for (int64_t row = 0; row < rows; ++row) {
        print_row(batch, row, step, slot, stream.origin(batch.sample_ids[static_cast<size_t>(row)]));
      }
    }
  }
  if (std::fflush(stdout) != 0) throw system_error("standard output: writing failed; is the disk full?");
  return kExitOk;
}

}  // namespace

Command stream_command() { return {"stream", "print the samples of a run as JSON lines", kUsage, run}; }

}  // namespace longhaul
