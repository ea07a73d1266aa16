#include "launch/trained_model.h"

#include "core/io/file.h"
#include "kernels/error.h"
#include "launch/interop/huggingface.h"
#include "launch/interop/huggingface_tokenizer.h"
#include "launch/training/training_state.h"
#include "parallel/checkpoint_reader.h"
#include "parallel/checkpoint_resume.h"

namespace longhaul {
namespace {

/// RUN/tokenizer.bin for RUN/checkpoints/step_N.
std::unique_ptr<Tokenizer> tokenizer_beside(const std::filesystem::path& checkpoint) {
  const std::filesystem::path file =
      std::filesystem::weakly_canonical(checkpoint).parent_path().parent_path() / kTokenizerFile;
  if (!std::filesystem::exists(file)) return nullptr;
  return restore_tokenizer(read_file(file), file.string());
}

/// Weights stored in bf16 become f32: everything outside training computes with those.
void read_values(const CheckpointReader& reader, const std::string& kind, LanguageModel& model) {
  for (const Parameter& parameter : model.parameters().parameters()) {
    const Tensor& value = parameter.variable.value();
    const std::string name = kind + "/" + parameter.name;
    const Tensor stored = Tensor::empty(value.shape(), reader.entry(name).dtype);
    reader.read(name, 0, stored.count(), stored.dtype(), stored.raw());
    value.copy_from(stored.to(DType::f32));
  }
}

}  // namespace

TrainedModel load_trained_model(const std::filesystem::path& path, const std::string& weights) {
  TrainedModel result;
  result.origin = resolve_checkpoint(path);
  const CheckpointReader reader = CheckpointReader::open(result.origin);
  result.step = reader.manifest().step;
  result.configuration =
      parse_configuration(reader.manifest().extras.configuration, (result.origin / "configuration").string());
  if (weights != "raw" && weights != "ema") throw user_error("--weights: expected raw or ema, found '{}'", weights);
  const bool average = weights == "ema";
  if (average && result.configuration.values.train.ema_decay == 0) {
    throw user_error("{}: the run kept no average of its weights (train.ema_decay = 0); use --weights raw",
                     result.origin.string());
  }
  result.model = make_model(result.configuration.values.model, result.configuration.values.train.seed);
  read_values(reader, average ? "ema" : "parameter", *result.model);
  if (!result.model->gates().empty()) {
    const std::string origin = result.origin.string();
    set_gate_states(*result.model, ControllerState::from_json(reader.manifest().extras.controller_state, origin).gates,
                    origin);
  }
  result.tokenizer = tokenizer_beside(result.origin);
  return result;
}

TrainedModel load_huggingface_model(const std::filesystem::path& directory) {
  TrainedModel result;
  result.origin = directory;
  result.model = import_huggingface(directory);
  result.tokenizer = import_huggingface_tokenizer(directory);
  result.configuration = parse_configuration("", "");
  result.configuration.values.model = result.model->config();
  result.configuration.values.data.context = result.model->config().context_length;
  result.configuration.refresh_text();
  return result;
}

}  // namespace longhaul
