// Tiny models and batches shared by the tests of core/models.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/models/language_model.h"

namespace longhaul::testing {

/// The recurrent families by the names tiny_config knows.
inline std::vector<std::string> recurrent_families() {
  return {"mamba2", "gdn", "serial", "serial-gdn", "fused", "fused-gdn"};
}

/// All families without memberships.
inline std::vector<std::string> all_families() {
  std::vector<std::string> families = recurrent_families();
  families.insert(families.end(), {"gpt2", "transformer", "gqa"});
  return families;
}

/// Families whose tokens have memberships: "fuzzy" (fuzzy_transformer), "fuzzy_moe" (with three experts), "rpa"
/// (transformer with the prior), "serial_rpa", "fused_rpa".
inline std::vector<std::string> length_aware_families() {
  return {"fuzzy", "fuzzy_moe", "rpa", "serial_rpa", "fused_rpa"};
}

/// The families that compute alike in training and evaluation, and those with memberships.
inline std::vector<std::string> all_and_length_aware_families() {
  std::vector<std::string> families = all_families();
  for (const std::string& family : length_aware_families()) families.push_back(family);
  return families;
}

/// Family "gpt2", "transformer", "gqa" (transformer with two query heads per key head), one of length_aware_families(),
/// or a recurrent one with "-gdn" behind it where the recurrence is to be Gated DeltaNet instead of Mamba2. 2 layers,
/// odd widths where the family allows them.
inline ModelConfig tiny_config(const std::string& family) {
  ModelConfig config;
  const size_t dash = family.find('-'), end = family.find_first_of("-_");
  const bool fuzzy = family.rfind("fuzzy", 0) == 0, gpt2_like = family == "gpt2" || fuzzy;
  config.family = family == "gqa" || family == "rpa" ? "transformer" : family.substr(0, end);
  if (fuzzy) config.family = "fuzzy_transformer";
  config.mixer = dash == std::string::npos ? "mamba2" : family.substr(dash + 1);
  config.vocab_size = 19;
  config.context_length = 11;
  config.n_layer = 2;
  config.d_model = gpt2_like ? 15 : 24;
  config.n_head = gpt2_like ? 3 : 4;
  config.n_kv_head = family == "gqa" ? 2 : 0;
  config.d_ff = gpt2_like ? 0 : 17;
  config.initializer_range = 0.3;  // large enough that every path matters
  config.attention_every = 2;
  config.mixer_head_size = 6;
  config.state_size = 5;
  config.convolution_width = 3;
  config.delta_heads = 3;
  config.delta_key_size = 5;
  config.delta_value_size = 8;
  config.rpa.regimes = 3;
  config.rpa.detach = false;  // differences see what goes through the alignment
  if (family.ends_with("rpa")) config.rpa.prior = "on";
  if (family == "fuzzy_moe") config.moe_experts = 3;
  return config;
}

/// The name of a family as a test may carry it.
inline std::string identifier(std::string family) {
  std::replace(family.begin(), family.end(), '-', '_');
  return family;
}

/// Ids that no simple rule of positions gives.
inline std::vector<int32_t> some_ids(int64_t count, int64_t vocabulary, int64_t salt = 0) {
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < count; ++i)
    ids.push_back(static_cast<int32_t>((7 * i * i + 3 * i + 5 * salt + 1) % vocabulary));
  return ids;
}

/// One row of documents, each predicting its own next token; the last token of a document has no target.
inline Batch packed_row(const std::vector<std::vector<int32_t>>& documents) {
  std::vector<int32_t> ids, targets, starts;
  for (const auto& document : documents) {
    const int32_t start = static_cast<int32_t>(ids.size());
    for (size_t i = 0; i < document.size(); ++i) {
      ids.push_back(document[i]);
      targets.push_back(i + 1 < document.size() ? document[i + 1] : -1);
      starts.push_back(start);
    }
  }
  const int64_t length = static_cast<int64_t>(ids.size());
  return make_batch(1, length, ids, targets, starts, {5});
}

struct LossAndGradients {
  LossSums loss;
  double objective = 0;
  Tensor flat;  ///< the flat gradient buffer
};

inline LossAndGradients loss_and_gradients(LanguageModel& model, const Batch& batch, bool training = false) {
  LossAndGradients result;
  result.flat = model.parameters().make_flat_buffer(model.parameters().dtype());
  model.parameters().bind_gradients(result.flat);
  Tape tape;
  ForwardContext context{tape, batch, training, 3, 4};
  result.loss = model.loss(context);
  result.objective = result.loss.objective.value().item<double>();
  tape.backward(result.loss.objective);
  model.parameters().zero_absent_gradients();
  return result;
}

/// prior_length: of ForwardContext.
inline Tensor full_logits(LanguageModel& model, const Batch& batch, int64_t prior_length = 0) {
  Tape tape(Tape::Mode::off);
  ForwardContext context{.tape = tape, .batch = batch, .prior_length = prior_length};
  return model.logits(model.hidden(context).value());
}

/// A warm prior, and memberships to remember of rows of two lengths.
inline void warm_prior(PriorMemory& memory) {
  memory.set_control({0.8, 0.7, 0.5});
  const int64_t layers = memory.options().layers, regimes = memory.options().regimes;
  for (const int64_t length : {3, 9}) {
    const auto shares = [](Shape shape, int64_t salt) {
      const Tensor tensor = Tensor::empty(shape, DType::f64);
      for (int64_t i = 0; i < tensor.count(); ++i)
        tensor.data<double>()[i] = 0.1 * static_cast<double>((5 * i * i + salt) % 11);
      return tensor;
    };
    memory.observe(length, shares({layers, length, regimes}, length), shares({layers, regimes, regimes}, 3));
  }
}

/// Logits of one of the documents without the others. The prior is one of positions in the row, so that there the
/// document stays at its place, among documents of other ids.
inline Tensor logits_apart(LanguageModel& model, std::vector<std::vector<int32_t>> documents, size_t index) {
  if (model.prior_memory() == nullptr) return full_logits(model, packed_row({documents[index]}));
  int64_t begin = 0;
  for (size_t other = 0; other < documents.size(); ++other) {
    if (other < index) begin += static_cast<int64_t>(documents[other].size());
    if (other == index) continue;
    for (int32_t& id : documents[other]) id = static_cast<int32_t>((id + 7) % model.config().vocab_size);
  }
  const int64_t end = begin + static_cast<int64_t>(documents[index].size());
  return full_logits(model, packed_row(documents)).rows(begin, end);
}

/// Moves every parameter off its initial value, so that gains of 1 and biases of 0 hide nothing; the prior is warm.
inline void perturb(LanguageModel& model) {
  if (model.prior_memory() != nullptr) warm_prior(*model.prior_memory());
  for (const Parameter& parameter : model.parameters().parameters()) {
    for (int64_t i = 0; i < parameter.count(); ++i) {
      const double shift = 0.1 * static_cast<double>((i * 37 + parameter.offset * 11) % 19 - 9) / 9;
      dispatch_float("perturb", parameter.variable.dtype(), [&](auto type) {
        using T = decltype(type);
        parameter.variable.value().data<T>()[i] += static_cast<T>(shift);
      });
    }
  }
}

}  // namespace longhaul::testing
