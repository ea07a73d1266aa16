#include "launch/commands/import.h"

#include <fmt/core.h>

#include "core/io/file.h"
#include "launch/arguments.h"
#include "launch/exit_codes.h"
#include "launch/trained_model.h"
#include "launch/training/training_state.h"
#include "parallel/checkpoint_directory.h"
#include "parallel/checkpoint_writer.h"

namespace longhaul {
namespace {

constexpr const char* kUsage =
    R"help(usage: longhaul import --from DIR  --out DIR

Reads a Hugging Face directory (config.json with model_type gpt2, llama, mamba2, or longhaul as `longhaul export` writes
it; model.safetensors or its shards) and writes a checkpoint of step 0 under OUT/checkpoints. Dropout rates are not taken
over: they are a choice of training.

  --from DIR  Hugging Face model directory
  --out DIR   run directory to make; must be absent or empty

examples:
  longhaul import --from gpt2 --out imported/gpt2
  longhaul eval --run imported/gpt2 --data data/wikitext
  longhaul train --config finetune.ini --set checkpoint.init_from=imported/gpt2/checkpoints/step_00000000
)help";

std::vector<TensorSlice> model_slices(const LanguageModel& model) {
  std::vector<TensorSlice> slices = prior_slices(model);
  for (const Parameter& parameter : model.parameters().parameters()) {
    const Tensor& value = parameter.variable.value();
    slices.push_back({"parameter", parameter.name, value.shape(), value.dtype(), 0, value.count(), value.raw()});
  }
  return slices;
}

int run_import(const std::vector<std::string>& words) {
  const Arguments arguments("import", words, {{"from=", "out="}, {}});
  const std::filesystem::path from = arguments.text("from"), out = arguments.text("out");
  if (std::filesystem::exists(out) && (!std::filesystem::is_directory(out) || !std::filesystem::is_empty(out))) {
    throw user_error("{}: exists already; name a new or empty directory", out.string());
  }
  const TrainedModel model = load_huggingface_model(from);
  const auto group = make_single_communicator();
  const RunDirectory run = RunDirectory::acquire(*group, out);
  if (model.tokenizer) write_file_durably(out / kTokenizerFile, serialise_tokenizer(*model.tokenizer));
  CheckpointOptions options;
  options.background = false;
  CheckpointWriter writer(*group, run, options);
  CheckpointExtras extras;
  extras.config_hash = model.configuration.hash();
  extras.configuration = model.configuration.ini();
  if (!model.model->gates().empty() || model.model->prior_memory()) {
    ControllerState state;
    state.gates = gate_states(*model.model);
    state.prior = prior_state(*model.model);
    extras.controller_state = state.to_json();
  }
  const std::vector<SaveReport> reports = writer.begin(0, model_slices(*model.model), extras);
  fmt::print("imported {} ({} parameters, {} tokenizer) to {}\n", from.string(),
             model.model->parameters().parameter_count(), model.tokenizer ? model.tokenizer->name() : "no",
             reports.back().directory.string());
  return kExitOk;
}

}  // namespace

Command import_command() { return {"import", "read a Hugging Face directory into a checkpoint", kUsage, run_import}; }

}  // namespace longhaul
