#include "launch/commands/export.h"

#include <fmt/core.h>

#include "launch/arguments.h"
#include "launch/exit_codes.h"
#include "launch/interop/huggingface.h"
#include "launch/interop/huggingface_tokenizer.h"
#include "launch/trained_model.h"

namespace longhaul {
namespace {

constexpr const char* kUsage =
    R"help(usage: longhaul export --run DIR | --checkpoint DIR  --out DIR  [--weights raw|ema|swa|best]

Writes config.json, model.safetensors and the tokenizer's files where such files exist. Hugging Face transformers loads
them as GPT2LMHeadModel (family gpt2), LlamaForCausalLM (transformer) and Mamba2ForCausalLM (mamba2 with feed_forward =
false); the other recurrent families have the tensor names of the published AMOR code, models with the length-aware prior
names of our own (docs/formats.md).

  --run DIR         a run directory: its newest complete checkpoint
  --checkpoint DIR  one checkpoint directory
  --out DIR         directory to make; must be absent or empty
  --weights KIND    raw (default), ema (running average), swa (mean of snapshots), or best: as the last validation found

examples:
  longhaul export --run runs/shakespeare --out shakespeare-hf
  python -c "import transformers as t; t.AutoModelForCausalLM.from_pretrained('shakespeare-hf')"
)help";

int run_export(const std::vector<std::string>& words) {
  const Arguments arguments("export", words, {{"run=", "checkpoint=", "out=", "weights="}, {}});
  if (arguments.has("run") == arguments.has("checkpoint")) {
    throw user_error("longhaul export: name the model by either --run or --checkpoint");
  }
  const std::filesystem::path out = arguments.text("out");
  const TrainedModel trained =
      load_trained_model(arguments.text(arguments.has("run") ? "run" : "checkpoint"), arguments.text("weights", "raw"));
  const int64_t end_of_text = trained.tokenizer ? trained.tokenizer->end_of_text() : -1;
  export_huggingface(*trained.model, out, end_of_text);
  const bool with_tokenizer = trained.tokenizer && export_huggingface_tokenizer(*trained.tokenizer, out);
  fmt::print("exported {} (step {}, {} weights, {} parameters) to {}{}\n", trained.origin.string(), trained.step,
             trained.weights, trained.model->parameters().parameter_count(), out.string(),
             with_tokenizer ? " with its tokenizer" : " without tokenizer files");
  return kExitOk;
}

}  // namespace

Command export_command() { return {"export", "write a trained model as a Hugging Face directory", kUsage, run_export}; }

}  // namespace longhaul
