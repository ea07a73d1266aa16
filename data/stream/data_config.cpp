#include "data/stream/data_config.h"

#include <charconv>

#include "core/io/checksum.h"
#include "data/shards/manifest.h"
#include "kernels/error.h"

namespace longhaul {
namespace {

DatasetChoice parse_choice(const std::string& item) {
  const size_t first = item.find_first_not_of(' ');
  if (first == std::string::npos) {
    throw user_error("found an empty item, expected DIRECTORY or DIRECTORY=WEIGHT items with commas between");
  }
  const std::string trimmed = item.substr(first, item.find_last_not_of(' ') + 1 - first);
  const size_t equals = trimmed.rfind('=');
  DatasetChoice choice{trimmed.substr(0, equals), 1.0};
  if (equals == std::string::npos) return choice;
  const char *begin = trimmed.data() + equals + 1, *end = trimmed.data() + trimmed.size();
  const auto parsed = std::from_chars(begin, end, choice.weight);
  if (parsed.ec != std::errc() || parsed.ptr != end || !(choice.weight > 0) || choice.directory.empty()) {
    throw user_error("found '{}', expected DIRECTORY=WEIGHT with a weight above 0", trimmed);
  }
  return choice;
}

}  // namespace

std::vector<DatasetChoice> parse_dataset_choices(const std::string& text) {
  std::vector<DatasetChoice> choices;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    choices.push_back(parse_choice(text.substr(begin, end - begin)));
    begin = end + 1;
  }
  return choices;
}

std::string data_fingerprint(const DataConfig& config) {
  Checksum checksum;
  for (const DatasetChoice& choice : config.datasets) {
    checksum.update(fmt::format("{} {}\n", read_manifest(choice.directory).checksum(), choice.weight));
  }
  return checksum.hex();
}

}  // namespace longhaul
