#include "launch/commands/config.h"

#include <fmt/format.h>

#include "core/models/language_model.h"
#include "kernels/error.h"
#include "launch/arguments.h"
#include "launch/config/key_table.h"
#include "launch/config/load_configuration.h"

namespace longhaul {
namespace {

constexpr const char* kUsage =
    "usage: longhaul config [--config FILE] [--set section.key=value]... [--ini | --count]\n"
    "       longhaul config --keys\n"
    "\n"
    "  (no option)  every key with its resolved value and where it comes from: default, file:line or command line\n"
    "  --ini        the same as a configuration file\n"
    "  --count      parameters of the model, by part, and the memory of its training state (model.vocab_size must be "
    "set)\n"
    "  --keys       every key with its type, default and meaning, as the tables of docs/configuration.md\n"
    "\n"
    "examples:\n"
    "  longhaul config --config configs/gpt2-124m.ini\n"
    "  longhaul config --config configs/gpt2-124m.ini --set model.n_layer=24 --count\n";

void print_values(const ResolvedConfiguration& configuration) {
  for (const ConfigKey& key : key_table()) {
    const std::string& value = configuration.text.at(key.key());
    fmt::print("{:<30} {:<28} {}\n", key.key(), value.empty() ? "(empty)" : value, configuration.origin.at(key.key()));
  }
}

void print_count(const ModelConfig& model, int64_t context) {
  if (model.vocab_size == 0) {
    throw user_error("model.vocab_size is 0 (taken from the data); give it: --set model.vocab_size=50257");
  }
  const int64_t parameters = count_parameters(model);
  fmt::print("parameters              {}\n", parameters);
  for (const ParameterPart& part : count_parameter_parts(model)) {
    fmt::print("  {:<22}{} ({:.2f} %)\n", part.name, part.parameters,
               100 * static_cast<double>(part.parameters) / static_cast<double>(parameters));
  }
  fmt::print("f32 weights             {:.1f} MiB\n", static_cast<double>(parameters) * 4 / (1 << 20));
  fmt::print("f32 training state      {:.1f} MiB (weights, gradients, two moments)\n",
             static_cast<double>(parameters) * 16 / (1 << 20));
  fmt::print("context                 {} tokens\n", context);
}

int run(const std::vector<std::string>& words) {
  const Arguments arguments("config", words,
                            {.options = {"config=", "set=", "ini", "count", "keys"}, .repeatable = {"set"}});
  if (arguments.has("keys")) {
    fmt::print("{}", key_table_markdown());
    return 0;
  }
  const ResolvedConfiguration configuration = load_configuration(arguments.text("config", ""), arguments.all("set"));
  if (arguments.has("count")) {
    print_count(configuration.values.model, configuration.values.data.context);
  } else if (arguments.has("ini")) {
    fmt::print("{}", configuration.ini());
  } else {
    print_values(configuration);
  }
  return 0;
}

}  // namespace

Command config_command() { return {"config", "print the resolved configuration and its origins", kUsage, run}; }

}  // namespace longhaul
