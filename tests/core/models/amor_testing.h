// Tiny AMOR models whose gates fire on some tokens.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "tests/core/models/model_testing.h"

namespace longhaul::testing {

/// Two layers of `mixer` and two gated blocks; the threshold is the running median itself.
inline ModelConfig tiny_amor(const std::string& mixer, const std::string& mode, bool prior = false) {
  ModelConfig config = tiny_config("transformer");
  config.family = "amor";
  config.mixer = mixer;
  config.context_length = 40;
  config.expand = 2;
  config.mixer_head_size = 8;
  config.state_size = 5;
  config.delta_heads = 3;
  config.delta_key_size = 4;
  config.delta_value_size = 6;
  config.gate.blocks = 2;
  config.gate.mode = mode;
  config.gate.threshold = "fixed";
  config.gate.margin = 0;
  config.rpa.prior = prior ? "on" : "off";
  return config;
}

struct AmorVariant {
  std::string mixer, mode;
  bool prior = false;
};

/// Both recurrences, both modes, and each of them once with the prior.
inline std::vector<AmorVariant> amor_variants() {
  return {{"mamba2", "classic"},       {"mamba2", "h"},   {"gdn", "classic"}, {"gdn", "h"},
          {"mamba2", "classic", true}, {"gdn", "h", true}};
}

inline std::string name_of(const AmorVariant& variant) {
  return variant.mixer + "_" + variant.mode + (variant.prior ? "_rpa" : "");
}

/// What the gates see in an evaluation pass.
inline GateRecord gate_record(LanguageModel& model, const Batch& batch) {
  GateRecord record;
  Tape tape(Tape::Mode::off);
  ForwardContext context{.tape = tape, .batch = batch, .gates = &record};
  model.hidden(context);
  return record;
}

/// Puts every threshold into the middle of the widest gap between neighbouring entropies of the inner half, block after
/// block: about half of the tokens fire, and rounding changes no decision.
inline void open_gates(LanguageModel& model, const Batch& batch) {
  for (size_t gate = 0; gate < model.gates().size(); ++gate) {
    std::vector<float> values = gate_record(model, batch).blocks[gate].entropies.to_vector<float>();
    std::sort(values.begin(), values.end());
    size_t widest = values.size() / 4;
    for (size_t i = widest; i < 3 * values.size() / 4; ++i) {
      if (values[i + 1] - values[i] > values[widest + 1] - values[widest]) widest = i;
    }
    model.gates()[gate].set_state({0.5 * (values[widest] + values[widest + 1]), 0.1});
  }
}

inline int64_t fired_count(const GateRecord::Block& block) {
  const std::span<const float> values = block.entropies.span<float>();
  return std::count_if(values.begin(), values.end(), [&](float value) { return value > block.threshold; });
}

}  // namespace longhaul::testing
