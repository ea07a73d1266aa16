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

/// The weights that `weights` names, and what keeps them from being used as an error.
std::string choose_weights(const std::string& weights, const ResolvedConfiguration& configuration,
                           const CheckpointManifest& manifest, const std::string& origin) {
  if (weights == "best") {
    const std::string best = BestWeights::from_json(manifest.extras.best_weights, origin).weights;
    if (best.empty()) throw user_error("{}: no validation has marked the best weights; use --weights raw", origin);
    return best;
  }
  if (weights == "ema" && configuration.values.train.ema_decay == 0) {
    throw user_error("{}: the run kept no average of its weights (train.ema_decay = 0); use --weights raw", origin);
  }
  if (weights == "swa") {
    if (!configuration.values.swa.enabled) {
      throw user_error("{}: the run kept no mean of snapshots (swa.enabled = false); use --weights raw", origin);
    }
    const auto swa = ControllerState::from_json(manifest.extras.controller_state, origin).swa;
    if (!swa || swa->snapshots == 0) {
      throw user_error("{}: no validation was good enough for a snapshot yet (see [swa]); use --weights raw", origin);
    }
  }
  if (weights != "raw" && weights != "ema" && weights != "swa") {
    throw user_error("--weights: expected raw, ema, swa or best, found '{}'", weights);
  }
  return weights;
}

}  // namespace

TrainedModel load_trained_model(const std::filesystem::path& path, const std::string& weights) {
  TrainedModel result;
  result.origin = resolve_checkpoint(path);
  const CheckpointReader reader = CheckpointReader::open(result.origin);
  result.step = reader.manifest().step;
  result.configuration =
      parse_configuration(reader.manifest().extras.configuration, (result.origin / "configuration").string());
  result.weights = choose_weights(weights, result.configuration, reader.manifest(), result.origin.string());
  result.model = make_model(result.configuration.values.model, result.configuration.values.train.seed);
  read_values(reader, result.weights == "raw" ? "parameter" : result.weights, *result.model);
  if (!result.model->gates().empty() || result.model->prior_memory()) {
    const std::string origin = result.origin.string();
    const ControllerState state = ControllerState::from_json(reader.manifest().extras.controller_state, origin);
    set_gate_states(*result.model, state.gates, origin);
    restore_prior(*result.model, state.prior, reader);
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
