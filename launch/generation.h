// Sampling continuations from a language model.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/models/language_model.h"

namespace longhaul {

/// How the next token is drawn from logits. Order: temperature, top-k, top-p (nucleus, Holtzman et al. 2020).
struct SamplingOptions {
  double temperature = 1.0;  ///< 0: the most probable token, ties to the lowest id
  int64_t top_k = 0;         ///< keep the k most probable tokens; 0: all
  double top_p = 1.0;        ///< keep the smallest set of most probable tokens with at least this mass; (0, 1]
  uint64_t seed = 0;         ///< draws are keyed by (seed, sequence, position): the same whatever else is in the batch
};

/// user_error naming the option when a value is out of range.
void check(const SamplingOptions& options);

/// One token for `sequence` (its number among the prompts) at `position` (tokens before it, prompt included).
int32_t sample_token(std::span<const float> logits, const SamplingOptions& options, int64_t sequence, int64_t position);

struct GenerationOptions {
  int64_t max_new_tokens = 128;
  int32_t stop_id = -1;  ///< a sequence ends when it draws this token (which is not returned); -1: none
  SamplingOptions sampling;
};

/// The new tokens of every prompt (prompts must not be empty), all prompts in one batch. A sequence longer than the
/// model's context slides: of a prompt the last context_length tokens are read; when the context is full, its last half
/// is kept and read again from position 0, so that generation never stops for want of room. `work`, if given, receives
/// what the gated blocks of the model did and left out (DecodeState::gate_work), prompts and new tokens together.
std::vector<std::vector<int32_t>> generate(LanguageModel& model, const std::vector<std::vector<int32_t>>& prompts,
                                           const GenerationOptions& options, std::vector<GateWork>* work = nullptr);

/// One line for every gated block, each ended: tokens fired and skipped, keys read, products of queries and outputs
/// executed and skipped, how the gate was decided.
std::string gate_work_text(std::span<const GateWork> work, const ModelConfig& config);

}  // namespace longhaul
