#include "core/models/language_model.h"

#include <algorithm>

#include "core/models/amor_model.h"
#include "core/models/fuzzy_transformer.h"
#include "core/models/gpt2.h"
#include "core/models/hybrid_model.h"
#include "core/models/transformer.h"
#include "core/ops/add.h"
#include "core/ops/linear.h"
#include "core/ops/linear_cross_entropy.h"

namespace longhaul {
namespace {

/// The model with its parameters registered, not yet laid out.
std::unique_ptr<LanguageModel> register_model(const ModelConfig& config, DType dtype) {
  const ModelConfig complete = resolved(config);
  if (complete.vocab_size == 0) {
    throw user_error("model.vocab_size is 0 and no tokenizer gives it; set model.vocab_size");
  }
  if (complete.family == "gpt2") return std::make_unique<Gpt2>(complete, dtype);
  if (complete.family == "transformer") return std::make_unique<Transformer>(complete, dtype);
  if (complete.family == "fuzzy_transformer") return std::make_unique<FuzzyTransformer>(complete, dtype);
  if (complete.family == "amor") return std::make_unique<AmorModel>(complete, dtype);
  return std::make_unique<HybridModel>(complete, dtype);
}

const char* part_of(const std::string& parameter) {
  const auto begins = [&](const char* prefix) { return parameter.rfind(prefix, 0) == 0; };
  for (const char* table :
       {"embed.", "model.embed_tokens.", "transformer.wte.", "transformer.wpe.", "fuzzy.wte.", "fuzzy.wpe."}) {
    if (begins(table)) return "embedding";
  }
  if (begins("amor_") || begins("final_norm.")) return "attention blocks";
  return begins("lm_head.") ? "output matrix" : "backbone";
}

}  // namespace

void add_flops(std::vector<LayerFlops>& sum, const std::vector<LayerFlops>& more) {
  for (const LayerFlops& entry : more) {
    const auto found =
        std::find_if(sum.begin(), sum.end(), [&](const LayerFlops& other) { return other.layer == entry.layer; });
    if (found == sum.end()) {
      sum.push_back(entry);
    } else {
      found->per_token += entry.per_token;
    }
  }
}

std::unique_ptr<LanguageModel> make_model(const ModelConfig& config, uint64_t seed, DType dtype) {
  std::unique_ptr<LanguageModel> model = register_model(config, dtype);
  model->parameters().finalize();
  model->parameters().initialize(seed);
  return model;
}

int64_t count_parameters(const ModelConfig& config) {
  return register_model(config, DType::f32)->parameters().parameter_count();
}

std::vector<ParameterPart> count_parameter_parts(const ModelConfig& config) {
  std::vector<ParameterPart> parts;
  for (const char* name : {"embedding", "backbone", "attention blocks", "output matrix"}) parts.push_back({name, 0});
  const auto model = register_model(config, DType::f32);
  for (const Parameter& parameter : model->parameters().parameters()) {
    const char* name = part_of(parameter.name);
    for (ParameterPart& part : parts) part.parameters += part.name == name ? parameter.count() : 0;
  }
  std::erase_if(parts, [](const ParameterPart& part) { return part.parameters == 0; });
  return parts;
}

void LanguageModel::make_prior_memory(int64_t layers) {
  if (!config_.has_memberships()) return;
  const RpaConfig& rpa = config_.rpa;
  prior_memory_ = std::make_unique<PriorMemory>(PriorMemory::Options{
      .layers = layers, .regimes = rpa.regimes, .momentum = rpa.memory_momentum, .temperature = rpa.temperature});
}

void LanguageModel::check_row_length(int64_t tokens) const {
  if (tokens > config_.context_length) {
    throw user_error(
        "a row of {} tokens is longer than model.context_length {}; shorten the row or enlarge the context", tokens,
        config_.context_length);
  }
}

void LanguageModel::check_state_length(int64_t tokens) const {
  if (tokens > config_.context_length) {
    throw internal_error("decode state of {} tokens exceeds the context of {}", tokens, config_.context_length);
  }
}

LossSums LanguageModel::loss(ForwardContext& context) {
  const Variable hidden_rows = hidden(context);
  const ops::LinearCrossEntropyResult result = ops::linear_cross_entropy(
      context.tape, hidden_rows, output_weight(), context.batch.targets,
      {.label_smoothing = config_.label_smoothing, .z_loss = config_.z_loss}, config_.loss_chunk_bytes);
  const Variable objective =
      context.penalty.defined() ? ops::add(context.tape, result.objective, context.penalty) : result.objective;
  return {objective, result.cross_entropy_sum, result.valid_targets, result.correct};
}

Tensor LanguageModel::logits(const Tensor& hidden_rows, Tape::Mode mode) const {
  Tape tape(mode);
  return ops::linear(tape, Variable(hidden_rows), output_weight()).value();
}

}  // namespace longhaul
