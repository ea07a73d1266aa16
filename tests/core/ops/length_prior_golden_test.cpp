// The length-aware prior and the gates of memberships against PyTorch's results in double
// (tests/oracle/make_prior_golden.py), without PyTorch: values and gradients to 1e-9 in double and to 1e-5 in single
// precision, of the largest magnitude.
#include <gtest/gtest.h>

#include <cmath>

#include "core/ops/alignment.h"
#include "core/ops/attention.h"
#include "core/ops/expert_gate.h"
#include "core/ops/expert_mixture.h"
#include "core/ops/membership_gates.h"
#include "core/ops/memberships.h"
#include "kernels/attention_prior.h"
#include "tests/core/ops/attention_testing.h"
#include "tests/core/prior_golden.h"

namespace longhaul {
namespace {

// As in make_prior_golden.py.
constexpr int64_t kRows = 2, kRegimes = 4, kColumns = 4, kHeads = 4, kKeyHeads = 2, kSize = 4;
constexpr int64_t kGateLength = 9, kExperts = 4, kChosen = 2, kGateColumns = 3;

/// z, the first column of which climbs along each row.
Tensor drifting(int64_t length, DType dtype) {
  const Tensor z = testing::counted({kRows * length, kColumns}, 21, DType::f64);
  for (int64_t t = 0; t < kRows * length; ++t)
    z.data<double>()[t * kColumns] += static_cast<double>(8 * (t % length) / length - 4) / 2;
  return z.to(dtype);
}

/// Second row: documents of 1 + length / 3 tokens, the last of which the row's end may cut.
Batch batch_of_length(int64_t length) {
  std::vector<int32_t> starts(static_cast<size_t>(length), 0);
  for (int64_t t = 0; t < length; ++t) starts.push_back(static_cast<int32_t>(t - t % (1 + length / 3)));
  return testing::batch_of(kRows, length, starts);
}

class LengthPriorGolden : public ::testing::TestWithParam<DType> {
 protected:
  Tensor counted(Shape shape, uint64_t stream, double scale = 1) const {
    return testing::counted(shape, stream, GetParam(), scale);
  }
  Tensor values(std::initializer_list<double> list) const {
    return Tensor::from<double>({static_cast<int64_t>(list.size())}, list).to(GetParam());
  }
};

INSTANTIATE_TEST_SUITE_P(Types, LengthPriorGolden, ::testing::Values(DType::f64, DType::f32), testing::type_name);

struct PriorCase {
  int64_t length = 0;
  kernels::PriorSettings settings;
  double temperature = 0;  ///< of the alignment
};

/// From the inputs z, centres, log_sigma, pos_beta and qkv to the output of attention, and what lies between.
struct Chain {
  Variable memberships, mean, projection, output;
  Tensor basis;

  Chain(Tape& tape, const std::vector<Variable>& in, const PriorCase& c, bool detach) {
    const Batch batch = batch_of_length(c.length);
    memberships = ops::memberships(tape, in[0], in[1], in[2]);
    mean = ops::batch_mean(tape, memberships, batch);
    basis = ops::rpa_basis(c.length, kRegimes, in[0].dtype());
    projection = ops::alignment(tape, mean, basis, {.temperature = c.temperature, .iterations = 6, .detach = detach});
    const ops::LengthPrior prior{mean, projection, in[3], basis, c.settings};
    output = ops::attention(tape, in[4], batch, testing::options_of(kHeads, kKeyHeads, kSize, false), &prior);
  }
};

/// Moments, and by row the lower triangles of B and of the bias, as the factors of the kernel have them.
template <typename T>
std::array<Tensor, 3> triangles(const Chain& chain, const PriorCase& c) {
  const int64_t width = kRegimes + 1;
  std::vector<T> query(static_cast<size_t>(c.length * width)), key = query;
  const kernels::PriorMoments moments = kernels::attention_prior_forward<T>(
      kernels::Cpu{}, query.data(), key.data(), chain.mean.value().data<T>(), chain.projection.value().data<T>(),
      chain.basis.data<T>(), {.length = c.length, .regimes = kRegimes, .functions = kRegimes}, c.settings);
  const double divisor = (moments.deviation + 1e-6) * std::clamp(c.settings.temperature, 0.6, 1.6);
  const double limit = c.settings.clip * c.settings.warm;
  std::vector<double> matrix, bias;
  for (int64_t i = 0; i < c.length; ++i)
    for (int64_t j = 0; j <= i; ++j) {
      const T *q = query.data() + i * width, *k = key.data() + j * width;
      T sum = q[kRegimes] + k[kRegimes];
      for (int64_t r = 0; r < kRegimes; ++r) sum += q[r] * k[r];
      matrix.push_back(static_cast<double>(sum) / c.settings.warm * divisor + moments.mean);
      bias.push_back(std::clamp(static_cast<double>(sum), -limit, limit));
    }
  const auto count = static_cast<int64_t>(bias.size());
  return {Tensor::from<double>({2}, {moments.mean, moments.deviation}),
          Tensor::from<double>({count}, std::span<const double>(matrix)),
          Tensor::from<double>({count}, std::span<const double>(bias))};
}

class PriorChain : public LengthPriorGolden {
 protected:
  void compare_chain(testing::PriorGolden& golden, const PriorCase& c, const Tensor& log_sigma) const {
    for (const bool detach : {true, false}) {
      const int64_t tokens = kRows * c.length;
      std::vector<Variable> in;
      for (const Tensor& tensor :
           {drifting(c.length, GetParam()), counted({kRegimes, kColumns}, 2), log_sigma, values({c.settings.pos_beta}),
            counted({tokens, (kHeads + 2 * kKeyHeads) * kSize}, 3, 2)})
        in.emplace_back(tensor, true);
      Tape tape;
      const Chain chain(tape, in, c, detach);
      const std::string length = std::to_string(c.length) + ".";
      if (detach) {
        golden.compare(length + "memberships", chain.memberships.value());
        golden.compare(length + "mean_memberships", chain.mean.value());
        golden.compare(length + "basis", chain.basis);
        golden.compare(length + "alignment", chain.projection.value());
        const auto [moments, matrix, bias] =
            GetParam() == DType::f64 ? triangles<double>(chain, c) : triangles<float>(chain, c);
        golden.compare(length + "moments", moments);
        golden.compare(length + "matrix", matrix);
        golden.compare(length + "bias", bias);
      }
      golden.compare(length + "output", chain.output.value());
      tape.backward_from(chain.output, counted(chain.output.shape(), 4));
      const char* const names[] = {"z", "centres", "log_sigma", "pos_beta", "qkv"};
      for (size_t i = 0; i < in.size(); ++i)
        golden.compare(length + (detach ? "detached." : "attached.") + names[i], in[i].grad());
    }
  }

  void compare_all(const std::string& name, const kernels::PriorSettings& settings, double temperature,
                   const Tensor& log_sigma) const {
    testing::PriorGolden golden(name, GetParam());
    for (const int64_t length : {1, 2, 63, 64, 65, 768}) {
      SCOPED_TRACE(length);
      compare_chain(golden, {length, settings, temperature}, log_sigma);
    }
    EXPECT_EQ(golden.compared(), golden.stored() + 6);  // each output twice
  }
};

INSTANTIATE_TEST_SUITE_P(Types, PriorChain, ::testing::Values(DType::f64, DType::f32), testing::type_name);

TEST_P(PriorChain, AgreesWithPyTorchWhereNothingIsClipped) {
  compare_all("open", {.mix = 0.1, .pos_beta = 0.1875, .temperature = 1.25, .clip = 4, .warm = 0.75}, 0.7,
              values({0, 0.5, -0.25, 0.25}));
}

TEST_P(PriorChain, AgreesWithPyTorchWhereEntriesAreClipped) {
  compare_all("clipped", {.mix = 0.4, .pos_beta = 0.6875, .temperature = 0.3, .clip = 1, .warm = 1}, 4,
              values({-3.75, 0.5, 0.25, 0}));
}

TEST_P(LengthPriorGolden, GateOfTheBranchesAgreesWithPyTorch) {
  testing::PriorGolden golden("gates", GetParam());
  const int64_t tokens = kRows * kGateLength;
  const Variable mu(golden.read("input.memberships").view({tokens, kRegimes}).to(GetParam()), true);
  const Variable weight(counted({kRegimes}, 13, 2), true), x(counted({tokens, kGateColumns}, 14), true);
  Tape tape;
  const Variable y = ops::scale_rows_by_gate(tape, x, mu, weight);
  tape.backward_from(y, counted(y.shape(), 17));
  golden.compare("eta", y.value());
  golden.compare("eta.memberships", mu.grad());
  golden.compare("eta.eta_weight", weight.grad());
  golden.compare("eta.x", x.grad());
}

TEST_P(LengthPriorGolden, GateOfADocumentAgreesWithPyTorch) {
  testing::PriorGolden golden("gates", GetParam());
  const int64_t tokens = kRows * kGateLength;
  const Variable mu(golden.read("input.memberships").view({tokens, kRegimes}).to(GetParam()), true);
  const Variable weight(counted({kHeads, kRegimes}, 12, 2), true), x(counted({tokens, kGateColumns}, 14), true);
  Tape tape;
  const Variable y =
      ops::scale_documents_by_gate(tape, x, mu, weight, ops::gated_documents(batch_of_length(kGateLength)));
  tape.backward_from(y, counted(y.shape(), 17));
  golden.compare("gamma", y.value());
  golden.compare("gamma.memberships", mu.grad());
  golden.compare("gamma.gamma_weight", weight.grad());
  golden.compare("gamma.x", x.grad());
}

TEST_P(LengthPriorGolden, FloorOfTheEntropyAgreesWithPyTorch) {
  testing::PriorGolden golden("gates", GetParam());
  const int64_t tokens = kRows * kGateLength;
  const Variable mu(golden.read("input.memberships").view({tokens, kRegimes}).to(GetParam()), true);
  Tape tape;
  const Variable floor = ops::membership_entropy_floor(tape, mu, Tensor::zeros({tokens}, DType::i32), 0.75);
  tape.backward(floor);
  golden.compare("floor", floor.value());
  golden.compare("floor.memberships", mu.grad());
}

TEST_P(LengthPriorGolden, MixtureOfExpertsAgreesWithPyTorch) {
  testing::PriorGolden golden("gates", GetParam());
  const int64_t tokens = kRows * kGateLength;
  const Variable logits(counted({tokens, kExperts}, 15, 2), true);
  const Variable outputs(counted({kExperts * tokens, kGateColumns}, 16), true);
  Tape tape;
  const auto [weights, experts] = ops::expert_gate(
      tape, logits, {.experts = kExperts, .chosen = kChosen, .temperature = 0.5}, batch_of_length(kGateLength));
  const ops::ExpertRouting routing = ops::route_to_experts(experts, kExperts);
  std::vector<Variable> chosen;
  for (size_t e = 0; e < static_cast<size_t>(kExperts); ++e) {
    const Tensor rows = routing.tokens[e].clone();
    for (int32_t& row : rows.span<int32_t>()) row += static_cast<int32_t>(static_cast<int64_t>(e) * tokens);
    chosen.push_back(ops::gather_rows(tape, outputs, rows));
  }
  const Variable y = ops::mix_experts(tape, chosen, weights, routing);
  tape.backward_from(y, counted(y.shape(), 17));
  golden.compare("mixture", y.value());
  golden.compare("mixture.logits", logits.grad());
  golden.compare("mixture.outputs", outputs.grad());
}

}  // namespace
}  // namespace longhaul
