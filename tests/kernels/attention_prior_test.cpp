#include "kernels/attention_prior.h"

#include "kernels/error.h"
#include "tests/kernels/attention_prior_oracle.h"

namespace longhaul::kernels {
namespace {

/// Settings that differ from each other in everything; no entry of the tests lies at a clip, where there is a kink.
std::vector<PriorSettings> settings_to_try() {
  return {{.mix = 0.1, .pos_beta = 0.2, .temperature = 0.68, .clip = 4, .warm = 1},
          {.mix = 0.9, .pos_beta = 1.5, .temperature = 1.1, .clip = 0.7, .warm = 0.35},
          {.mix = 0, .pos_beta = 0.2, .temperature = 0.1, .clip = 1.4, .warm = 1},
          {.mix = 0.3, .pos_beta = 0, .temperature = 9, .clip = 4, .warm = 0.5},
          {.temperature = 0.1, .least_temperature = 0.4},
          {.temperature = 2, .most_temperature = 1.9}};
}

TEST(AttentionPriorTest, FactorsGiveTheMatrixBelowTheDiagonal) {
  for (int64_t length : {1, 2, 3, 63, 65, 300})
    for (const PriorSettings& settings : settings_to_try()) {
      PriorInputs in(length, length % 2 == 0 ? 4 : 3);
      in.settings = settings;
      const PlainPrior plain = plain_prior(in);
      const PriorFactors<double> factors(in);
      const PriorFactors<float> single(in);
      EXPECT_NEAR(factors.moments.mean, plain.moments.mean, 1e-14);
      EXPECT_NEAR(factors.moments.deviation, plain.moments.deviation, 1e-14);
      double error = 0, single_error = 0;
      for (int64_t i = 0; i < length; ++i)
        for (int64_t j = 0; j <= i; ++j) {
          const double expected = plain.unclipped[static_cast<size_t>(i * length + j)];
          error = std::max(error, std::abs(factors.unclipped(i, j) - expected));
          single_error = std::max(single_error, std::abs(single.unclipped(i, j) - expected));
        }
      EXPECT_LT(error, 1e-11) << "T " << length;
      EXPECT_LT(single_error, 1e-5) << "T " << length;
    }
}

TEST(AttentionPriorTest, OneTokenHasNoBias) {
  const PriorFactors<float> factors(PriorInputs(1, 4));
  EXPECT_EQ(factors.unclipped(0, 0), 0);
  EXPECT_EQ(factors.moments.deviation, 0);
}

TEST(AttentionPriorTest, AlmostEqualEntriesKeepTheirPrecision) {
  // Memberships that hardly differ: B is nearly constant, and its small differences are what standardising shows.
  PriorInputs in(40, 4);
  in.settings.mix = 0;
  for (double& value : in.memberships) value = 0.25 + 1e-4 * (value - 0.25);
  for (double& value : in.projection) value = 0.25 + 1e-4 * (value - 0.25);
  const PlainPrior plain = plain_prior(in);
  EXPECT_NEAR(PriorFactors<double>(in).moments.deviation / plain.moments.deviation, 1, 1e-6);
  const PriorFactors<double> factors(in);
  for (int64_t i = 0; i < 40; ++i)
    for (int64_t j = 0; j <= i; ++j)
      EXPECT_NEAR(factors.unclipped(i, j), plain.unclipped[static_cast<size_t>(i * 40 + j)], 1e-6);
}

/// A loss of the bias below the diagonal.
double loss_of(const PriorInputs& in, const std::vector<double>& weights) {
  const PlainPrior plain = plain_prior(in);
  double loss = 0;
  for (int64_t i = 0; i < in.shape.length; ++i)
    for (int64_t j = 0; j <= i; ++j) {
      const size_t at = static_cast<size_t>(i * in.shape.length + j);
      loss += weights[at] * plain.bias[at];
    }
  return loss;
}

/// What attention_backward would leave for that loss.
std::vector<double> sums_of(const PriorInputs& in, const std::vector<double>& weights) {
  const PriorFactors<double> factors(in);
  const int64_t rank = in.shape.functions;
  std::vector<double> sums(static_cast<size_t>(in.shape.length * (rank + 2)), 0.0);
  for (int64_t i = 0; i < in.shape.length; ++i)
    for (int64_t j = 0; j <= i; ++j) {
      if (std::abs(factors.unclipped(i, j)) > factors.limit) continue;
      const double weight = weights[static_cast<size_t>(i * in.shape.length + j)];
      double* const row = sums.data() + i * (rank + 2);
      for (int64_t r = 0; r < rank; ++r) row[r] += weight * factors.key[static_cast<size_t>(j * (rank + 1) + r)];
      row[rank] += weight;
      row[rank + 1] += weight * static_cast<double>(i - j);
    }
  return sums;
}

TEST(AttentionPriorTest, GradientsMatchFiniteDifferences) {
  for (int64_t length : {2, 5, 23})
    for (const PriorSettings& settings : settings_to_try()) {
      PriorInputs in(length, 3);
      in.settings = settings;
      const auto weights = random_values<double>(length * length, 60);
      const PriorGradients gradients(in, sums_of(in, weights));
      const auto moved_loss = [&](std::vector<double> PriorInputs::*input) {
        return [&in, &weights, input](const std::vector<double>& x) {
          PriorInputs moved = in;
          moved.*input = x;
          return loss_of(moved, weights);
        };
      };
      EXPECT_LT(relative_error(gradients.memberships,
                               numeric_gradient(in.memberships, moved_loss(&PriorInputs::memberships))),
                1e-7)
          << "T " << length << ", mix " << settings.mix;
      EXPECT_LT(
          relative_error(gradients.projection, numeric_gradient(in.projection, moved_loss(&PriorInputs::projection))),
          1e-7)
          << "T " << length << ", mix " << settings.mix;
      const double numeric = numeric_gradient({settings.pos_beta}, [&](const std::vector<double>& x) {
        PriorInputs moved = in;
        moved.settings.pos_beta = x[0];
        return loss_of(moved, weights);
      })[0];
      EXPECT_NEAR(gradients.pos_beta, numeric, 1e-7 * (1 + std::abs(numeric))) << "T " << length;
    }
}

TEST(AttentionPriorTest, GradientsAreAddedOnRequest) {
  PriorInputs in(6, 3);
  const auto sums = sums_of(in, random_values<double>(36, 60));
  const PriorGradients alone(in, sums);
  std::vector<double> memberships(18, 1.0), projection(9, 2.0);
  double pos_beta = 3;
  attention_prior_backward<double>(Cpu{}, memberships.data(), true, projection.data(), true, &pos_beta, true,
                                   sums.data(), in.memberships.data(), in.projection.data(), in.basis.data(), in.shape,
                                   in.settings);
  for (size_t i = 0; i < 18; ++i) EXPECT_DOUBLE_EQ(memberships[i], 1 + alone.memberships[i]);
  for (size_t i = 0; i < 9; ++i) EXPECT_DOUBLE_EQ(projection[i], 2 + alone.projection[i]);
  EXPECT_DOUBLE_EQ(pos_beta, 3 + alone.pos_beta);
  memberships.assign(18, NAN);
  attention_prior_backward<double>(Cpu{}, memberships.data(), false, nullptr, false, &pos_beta, false, sums.data(),
                                   in.memberships.data(), in.projection.data(), in.basis.data(), in.shape, in.settings);
  EXPECT_TRUE(same_bits(memberships, alone.memberships)) << "the projection needs no gradient";
}

TEST(AttentionPriorTest, OneTokenPassesNoGradientOn) {
  const PriorGradients gradients(PriorInputs(1, 3), {1, 2, 3, 4, 0});
  for (double value : gradients.memberships) EXPECT_TRUE(std::isfinite(value));
  EXPECT_EQ(gradients.pos_beta, 0);
}

TEST(AttentionPriorTest, ImpossibleSizesAreRefused) { EXPECT_THROW(PriorFactors<float>(PriorInputs(4, 9)), Error); }

}  // namespace
}  // namespace longhaul::kernels
