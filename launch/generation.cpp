#include "launch/generation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "kernels/philox.h"

namespace longhaul {
namespace {

constexpr uint32_t kSamplingStream =
    0x5A3B1E;  // keeps the draws apart from dropout and initialisation of the same seed

double uniform_draw(const SamplingOptions& options, int64_t sequence, int64_t position) {
  const kernels::RandomKey key{options.seed, static_cast<uint64_t>(position), kSamplingStream};
  uint32_t bits[4];
  kernels::random_bits4(key, static_cast<uint64_t>(sequence), 0, bits);
  const uint64_t mantissa = (static_cast<uint64_t>(bits[0]) << 32 | bits[1]) >> 11;
  return static_cast<double>(mantissa) * 0x1p-53;
}

/// Token ids by falling logit, equal ones by rising id.
std::vector<int32_t> ranked_ids(std::span<const float> logits, int64_t top_k) {
  std::vector<int32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  const auto before = [&](int32_t a, int32_t b) { return logits[a] != logits[b] ? logits[a] > logits[b] : a < b; };
  const size_t kept = top_k > 0 ? std::min(ids.size(), static_cast<size_t>(top_k)) : ids.size();
  std::partial_sort(ids.begin(), ids.begin() + static_cast<int64_t>(kept), ids.end(), before);
  ids.resize(kept);
  return ids;
}

/// One prompt on its way: the tokens still to be read by the model and what came out.
struct Sequence {
  std::vector<int32_t> window;  ///< what the model has seen or is about to see since its last clear
  std::vector<int32_t> fresh;   ///< the part of it not yet seen
  std::vector<int32_t> output;
  int64_t position = 0;  ///< tokens so far, prompt included
  bool finished = false;
};

Sequence start(const std::vector<int32_t>& prompt, int64_t context) {
  if (prompt.empty()) throw user_error("an empty prompt has nothing to continue; give at least one token");
  Sequence sequence;
  const int64_t length = static_cast<int64_t>(prompt.size());
  sequence.window.assign(prompt.end() - std::min(length, context), prompt.end());
  sequence.fresh = sequence.window;
  sequence.position = length;
  return sequence;
}

/// Appends a drawn token; a full window slides to its last half, which is read again.
void append(Sequence& sequence, int32_t token, int64_t index, DecodeState& state, int64_t context) {
  sequence.output.push_back(token);
  ++sequence.position;
  sequence.fresh = {token};
  if (static_cast<int64_t>(sequence.window.size()) == context) {
    const int64_t kept = std::max<int64_t>(context / 2, 1) - 1;
    sequence.window.erase(sequence.window.begin(), sequence.window.end() - kept);
    sequence.window.push_back(token);
    sequence.fresh = sequence.window;
    state.clear(index);
  } else {
    sequence.window.push_back(token);
  }
}

}  // namespace

void check(const SamplingOptions& options) {
  if (!(options.temperature >= 0) || !std::isfinite(options.temperature)) {
    throw user_error("temperature is {}; expected a number >= 0 (0: always the most probable token)",
                     options.temperature);
  }
  if (options.top_k < 0) throw user_error("top-k is {}; expected at least 1, or 0 for all tokens", options.top_k);
  if (!(options.top_p > 0 && options.top_p <= 1))
    throw user_error("top-p is {}; expected 0 < top-p <= 1", options.top_p);
}

int32_t sample_token(std::span<const float> logits, const SamplingOptions& options, int64_t sequence,
                     int64_t position) {
  if (options.temperature == 0) return ranked_ids(logits, 1).front();
  const std::vector<int32_t> ids = ranked_ids(logits, options.top_k);
  std::vector<double> weights(ids.size());
  const double largest = logits[ids.front()];
  std::transform(ids.begin(), ids.end(), weights.begin(),
                 [&](int32_t id) { return std::exp((logits[id] - largest) / options.temperature); });
  double mass = std::accumulate(weights.begin(), weights.end(), 0.0);
  if (options.top_p < 1) {
    const double wanted = options.top_p * mass;
    double sum = 0;
    size_t kept = 0;
    while (kept < weights.size() && sum < wanted) sum += weights[kept++];
    weights.resize(kept);
    mass = sum;
  }
  double rest = uniform_draw(options, sequence, position) * mass;
  for (size_t i = 0; i < weights.size(); ++i) {
    rest -= weights[i];
    if (rest < 0) return ids[i];
  }
  return ids[weights.size() - 1];  // rounding left a remainder
}

std::vector<std::vector<int32_t>> generate(LanguageModel& model, const std::vector<std::vector<int32_t>>& prompts,
                                           const GenerationOptions& options, std::vector<GateWork>* work) {
  check(options.sampling);
  const int64_t context = model.config().context_length, count = static_cast<int64_t>(prompts.size());
  std::vector<Sequence> sequences;
  for (const auto& prompt : prompts) sequences.push_back(start(prompt, context));
  const auto state = model.make_decode_state(count, context);
  for (int64_t step = 0; step < options.max_new_tokens; ++step) {
    std::vector<std::vector<int32_t>> ids;
    for (Sequence& sequence : sequences) {
      ids.push_back(sequence.finished ? std::vector<int32_t>() : std::move(sequence.fresh));
    }
    if (std::all_of(ids.begin(), ids.end(), [](const auto& list) { return list.empty(); })) break;
    const Tensor logits = model.decode(*state, ids).to(DType::f32);
    for (int64_t i = 0; i < count; ++i) {
      Sequence& sequence = sequences[i];
      if (sequence.finished) continue;
      const int32_t token = sample_token(logits.rows(i, i + 1).span<float>(), options.sampling, i, sequence.position);
      if (token == options.stop_id) {
        sequence.finished = true;
      } else {
        append(sequence, token, i, *state, context);
      }
    }
  }
  if (work != nullptr) work->assign(state->gate_work().begin(), state->gate_work().end());
  std::vector<std::vector<int32_t>> outputs;
  for (Sequence& sequence : sequences) outputs.push_back(std::move(sequence.output));
  return outputs;
}

std::string gate_work_text(std::span<const GateWork> work, const ModelConfig& config) {
  const double width = static_cast<double>(config.d_model);
  const double gflop_per_token = 2 * 2 * width * width / 1e9;  // query and output projection
  std::string text;
  for (size_t block = 0; block < work.size(); ++block) {
    const GateWork& done = work[block];
    text += fmt::format(
        "gate {}: fired on {} of {} tokens, skipped {}; keys read {}, skipped {}; query and output products {:.4g} "
        "GFLOP, "
        "skipped {:.4g}; decided by the output matrix {}, by the router {}\n",
        block, done.fired, done.tokens, done.skipped(), done.keys_read, done.keys_skipped,
        gflop_per_token * static_cast<double>(done.fired), gflop_per_token * static_cast<double>(done.skipped()),
        done.scored, done.tokens - done.scored);
  }
  return text;
}

}  // namespace longhaul
