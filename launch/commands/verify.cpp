#include "launch/commands/verify.h"

#include <fmt/format.h>

#include <memory>

#include "data/shards/verification.h"
#include "kernels/error.h"
#include "launch/arguments.h"
#include "launch/exit_codes.h"
#include "launch/metrics/progress.h"

namespace longhaul {
namespace {

constexpr const char* kUsage =
    "usage: longhaul verify DIR...\n"
    "\n"
    "  Reads every shard of the dataset directories: size and checksum against the manifest, integer type, document\n"
    "  offsets, every id against the vocabulary, the end-of-text id of every document, target masks, and the "
    "tokenizer.\n"
    "  Prints one line per bad file. After it data.verify=size is safe for the next run.\n"
    "\n"
    "example:\n"
    "  longhaul verify data/corpus\n";

bool verify(const std::string& directory) {
  std::unique_ptr<Progress> bar;
  const VerificationReport report = verify_dataset(directory, [&](int64_t done, int64_t total) {
    if (!bar) bar = std::make_unique<Progress>("verify " + directory, total);
    bar->show(done);
  });
  bar.reset();
  for (const std::string& problem : report.problems) fmt::print("bad   {}\n", problem);
  if (report.empty_shards > 0) {
    fmt::print("warning: {}: {} shards hold no documents; they are skipped\n", directory, report.empty_shards);
  }
  fmt::print("{}  {}: {} shards, {} documents, {} tokens, {} bytes verified, {} problems\n",
             report.problems.empty() ? "good" : "bad ", directory, report.shards, report.documents, report.tokens,
             report.bytes, report.problems.size());
  return report.problems.empty();
}

int run(const std::vector<std::string>& words) {
  const Arguments arguments("verify", words,
                            {.options = {}, .repeatable = {}, .least_operands = 1, .most_operands = 1 << 20});
  bool good = true;
  for (const std::string& directory : arguments.operands()) good = verify(directory) && good;
  return good ? kExitOk : kExitUserError;
}

}  // namespace

Command verify_command() { return {"verify", "check every byte and every id of dataset directories", kUsage, run}; }

}  // namespace longhaul
