#include "core/models/length_aware_layer.h"

#include <algorithm>
#include <cmath>
#include <ranges>
#include <utility>

#include "core/ops/add.h"
#include "core/ops/alignment.h"
#include "core/ops/memberships.h"

namespace longhaul {
namespace {

constexpr const char* kSlopeSuffix = ".pos_beta";

ops::LengthPrior prior_of(const RpaConfig& config, const PriorMemory::Control& control, const Variable& mean,
                          const Variable& alignment, const Variable& pos_beta, const Tensor& basis) {
  ops::LengthPrior prior{mean, alignment, pos_beta, basis, {}};
  prior.settings = {.mix = config.mix,
                    .temperature = control.temperature,
                    .least_temperature = config.least_temperature,
                    .most_temperature = config.most_temperature,
                    .clip = config.clip,
                    .warm = control.warm};
  if (config.temperature_divides == "scores") {
    prior.score_temperature = prior.settings.clamped_temperature();
    prior.settings.temperature = prior.settings.least_temperature = prior.settings.most_temperature = 1;
  }
  return prior;
}

Variable kept(const Variable& variable) {
  return variable.defined() ? Variable(variable.value(), variable.target()) : Variable();
}

/// Row positions 0, 1, ..., T - 1 of every row.
Tensor row_positions(const Batch& batch) {
  const Tensor positions = Tensor::empty({batch.tokens()}, DType::i32);
  for (int64_t token = 0; token < batch.tokens(); ++token) {
    positions.data<int32_t>()[token] = static_cast<int32_t>(token % batch.length());
  }
  return positions;
}

}  // namespace

std::vector<Variable> LengthAwareRun::inputs(std::vector<Variable> parameters) const {
  std::vector<Variable> inputs = std::move(parameters);
  if (memberships.defined()) inputs.push_back(memberships);
  if (prior) inputs.insert(inputs.end(), {prior->mean_memberships, prior->alignment, prior->pos_beta});
  return inputs;
}

LengthAwareRun LengthAwareRun::kept() const {
  LengthAwareRun run{longhaul::kept(memberships), longhaul::kept(pool), documents, prior};
  if (run.prior) {
    run.prior->mean_memberships = longhaul::kept(prior->mean_memberships);
    run.prior->alignment = longhaul::kept(prior->alignment);
  }
  return run;
}

LengthAwareLayer::LengthAwareLayer(ParameterStore& store, const std::string& name, const ModelConfig& config,
                                   int64_t index, const PriorMemory* memory)
    : rpa_(config.rpa), recompute_(config.recompute), has_prior_(config.has_prior()), index_(index), memory_(memory) {
  if (memory == nullptr) return;
  const int64_t width = config.d_model, regimes = rpa_.regimes;
  projection_ = Linear(store, name + ".projection", width, width, Linear::Bias::yes, config.initializer_range);
  centres_ = store.add(name + ".centres", {regimes, width}, WeightDecay::no,
                       Initialization::normal(1 / std::sqrt(static_cast<double>(width))));
  log_sigma_ = store.add(name + ".log_sigma", {regimes}, WeightDecay::no, Initialization::constant(0));
  pos_beta_ = store.add(name + kSlopeSuffix, {1}, WeightDecay::no, Initialization::constant(rpa_.pos_beta));
}

Variable LengthAwareLayer::memberships(ForwardContext& context, const Variable& x) const {
  const auto forward = [this](Tape& tape, const Variable& input) {
    return ops::memberships(tape, projection_(tape, input), centres_, log_sigma_);
  };
  if (!recompute_) return forward(context.tape, x);
  return recompute(context.tape, x, {projection_.weight(), projection_.bias(), centres_, log_sigma_}, forward);
}

void LengthAwareLayer::penalise(ForwardContext& context, const Variable& memberships) const {
  if (rpa_.entropy_weight == 0) return;
  const double weight = rpa_.entropy_weight * (1 + memory_->control().lambda_saturation) / 2 /
                        static_cast<double>(memory_->options().layers);
  const Variable floor =
      ops::membership_entropy_floor(context.tape, memberships, context.batch.targets, rpa_.entropy_share);
  context.penalty = ops::add_scaled(context.tape, context.penalty, floor, weight);
}

LengthAwareRun LengthAwareLayer::training_run(ForwardContext& context, const Variable& x) const {
  LengthAwareRun run;
  run.memberships = run.pool = memberships(context, x);
  run.documents = ops::gated_documents(context.batch);
  penalise(context, run.memberships);
  const Variable mean = ops::batch_mean(context.tape, run.memberships, context.batch);
  if (has_prior_) {
    const Tensor basis = ops::rpa_basis(context.batch.length(), rpa_.regimes, x.dtype());
    const ops::AlignmentOptions options{rpa_.align_temperature, rpa_.align_iterations, rpa_.detach};
    run.prior =
        prior_of(rpa_, memory_->control(), mean, ops::alignment(context.tape, mean, basis, options), pos_beta_, basis);
  }
  if (context.priors != nullptr) {
    context.priors->layers.push_back(
        {run.memberships.value(), mean.value(), run.prior ? run.prior->alignment.value() : Tensor()});
  }
  return run;
}

std::vector<LayerFlops> LengthAwareLayer::flops() const {
  if (!has_memberships()) return {};
  const double width = static_cast<double>(projection_.weight().value().size(0));
  return {{"memberships", 2 * width * (width + static_cast<double>(rpa_.regimes))}};
}

LengthAwareRun LengthAwareLayer::run(ForwardContext& context, const Variable& x) const {
  if (!has_memberships()) return {};
  if (context.training) return training_run(context, x);
  const int64_t length = std::max(context.prior_length, context.batch.length());
  LengthAwareRun run = frozen_run(frozen_memberships(length, x.dtype()), row_positions(context.batch));
  if (has_prior_) run.prior = frozen_prior(length, x.dtype());
  return run;
}

ops::LengthPrior frozen_prior(const PriorMemory& memory, const RpaConfig& config, int64_t index,
                              const Variable& pos_beta, int64_t length, DType dtype) {
  return prior_of(config, memory.control(), Variable(memory.memberships(index, length, dtype)),
                  Variable(memory.alignment(index, length, dtype)), pos_beta,
                  ops::rpa_basis(length, config.regimes, dtype));
}

bool LengthAwareLayer::prior_has_begun() const {
  return has_prior_ && (memory_->control().warm > 0 || rpa_.temperature_divides == "scores");
}

ops::LengthPrior LengthAwareLayer::frozen_prior(int64_t length, DType dtype) const {
  return longhaul::frozen_prior(*memory_, rpa_, index_, pos_beta_, length, dtype);
}

std::vector<Variable> prior_slopes(const ParameterStore& store) {
  std::vector<Variable> slopes;
  for (const Parameter& parameter : std::views::reverse(store.parameters())) {  // the last registered comes first there
    if (parameter.name.ends_with(kSlopeSuffix)) slopes.push_back(parameter.variable);
  }
  return slopes;
}

LengthAwareRun frozen_run(const Tensor& memberships, const Tensor& positions) {
  const int64_t tokens = positions.count();
  const Tensor rows = Tensor::empty({tokens, memberships.size(1)}, memberships.dtype());
  for (int64_t token = 0; token < tokens; ++token) {
    const int64_t position = positions.data<int32_t>()[token];
    rows.rows(token, token + 1).copy_from(memberships.rows(position, position + 1));
  }
  LengthAwareRun run;
  run.memberships = Variable(rows);
  run.pool = Variable(memberships);
  run.documents = ops::gated_by_one_pool(tokens, memberships.size(0));
  return run;
}

FrozenLayer LengthAwareLayer::freeze(int64_t max_length, DType dtype) const {
  if (!has_memberships()) return {};
  const int64_t length = memory_->decoding_length(max_length);
  FrozenLayer frozen{frozen_memberships(length, dtype), {}};
  if (prior_has_begun()) frozen.factors = ops::PriorFactors(frozen_prior(length, dtype), max_length, dtype);
  return frozen;
}

}  // namespace longhaul
