#include "kernels/memberships.h"

#include <array>

#include "kernels/error.h"
#include "kernels/rpa_basis.h"
#include "tests/kernels/kernel_test.h"

namespace longhaul::kernels {
namespace {

/// One call and all it returns. The tokens lie near the centres, so that nothing is clamped.
template <typename T>
struct Memberships {
  int64_t tokens, regimes, columns;
  std::vector<T> z, centres, log_sigma, dmemberships;
  std::vector<T> memberships, square, dz, dcentres, dlog_sigma;

  Memberships(int64_t token_count, int64_t regime_count, int64_t column_count)
      : tokens(token_count), regimes(regime_count), columns(column_count) {
    z = random_values<T>(tokens * columns, 1);
    centres = random_values<T>(regimes * columns, 2);
    log_sigma = random_values<T>(regimes, 3);
    dmemberships = random_values<T>(tokens * regimes, 4);
  }
  Memberships& forward() {
    memberships.assign(static_cast<size_t>(tokens * regimes), T(NAN));
    square = memberships;
    memberships_forward<T>(Cpu{}, memberships.data(), square.data(), z.data(), centres.data(), log_sigma.data(), tokens,
                           regimes, columns);
    return *this;
  }
  Memberships& backward(bool accumulate = false, T before = T(NAN)) {
    dz.assign(z.size(), before);
    dcentres.assign(centres.size(), before);
    dlog_sigma.assign(log_sigma.size(), before);
    std::vector<T> dsquare(square.size());
    memberships_backward<T>(Cpu{}, dz.data(), accumulate, dcentres.data(), dlog_sigma.data(), accumulate,
                            dsquare.data(), dmemberships.data(), memberships.data(), square.data(), z.data(),
                            centres.data(), log_sigma.data(), tokens, regimes, columns);
    return *this;
  }
};

TEST(MembershipsTest, ValueByHand) {
  Memberships<double> m(1, 2, 2);
  m.z = {1, 2};
  m.centres = {1, 0, 0, 2};  // squares 4 and 1
  m.log_sigma = {0, 0.5 * std::log(2.0)};
  m.forward();  // exponents -2 and -1/4
  EXPECT_DOUBLE_EQ(m.square[0], 4);
  EXPECT_DOUBLE_EQ(m.square[1], 1);
  EXPECT_NEAR(m.memberships[0], 1 / (1 + std::exp(1.75)), 1e-15);
  EXPECT_NEAR(m.memberships[1], 1 / (1 + std::exp(-1.75)), 1e-15);
}

TEST(MembershipsTest, GradientsMatchFiniteDifferences) {
  for (const auto& [tokens, regimes, columns] : {std::array<int64_t, 3>{1, 1, 1}, {3, 2, 5}, {5, 4, 3}, {2, 8, 7}}) {
    Memberships<double> m(tokens, regimes, columns);
    m.forward().backward();
    const auto loss_of = [&m](std::vector<double> Memberships<double>::*input) {
      return [&m, input](const std::vector<double>& x) {
        Memberships<double> moved = m;
        moved.*input = x;
        return dot(moved.forward().memberships, m.dmemberships);
      };
    };
    if (regimes == 1) {  // a softmax over one is constant
      for (const auto* gradient : {&m.dz, &m.dcentres, &m.dlog_sigma})
        for (double value : *gradient) EXPECT_EQ(value, 0);
      continue;
    }
    EXPECT_LT(relative_error(m.dz, numeric_gradient(m.z, loss_of(&Memberships<double>::z))), 1e-8);
    EXPECT_LT(relative_error(m.dcentres, numeric_gradient(m.centres, loss_of(&Memberships<double>::centres))), 1e-8);
    EXPECT_LT(relative_error(m.dlog_sigma, numeric_gradient(m.log_sigma, loss_of(&Memberships<double>::log_sigma))),
              1e-8);
  }
}

TEST(MembershipsTest, ClampedExponentsPassNoGradient) {
  Memberships<double> m(1, 3, 1);
  m.z = {0};
  m.centres = {1, 100, 200};  // squares 1, 1e4 and 4e4: the last two at -30 alike
  m.log_sigma = {0, 0, 0};
  m.forward().backward();
  EXPECT_NEAR(m.memberships[1] / m.memberships[0], std::exp(-29.5), 1e-20);
  EXPECT_EQ(m.memberships[1], m.memberships[2]);
  EXPECT_EQ(m.dcentres[1], 0);
  EXPECT_EQ(m.dcentres[2], 0);
  EXPECT_EQ(m.dlog_sigma[1], 0);
  EXPECT_NE(m.dcentres[0], 0);
}

TEST(MembershipsTest, WidthsAreClampedToo) {
  Memberships<double> m(1, 2, 1);
  m.z = {0};
  m.centres = {0.1, 10};
  m.log_sigma = {-20, 20};  // precisions 1e3 and 1e-3: exponents -5 and -0.05
  m.forward().backward();
  EXPECT_NEAR(m.memberships[0], 1 / (1 + std::exp(5 - 0.05)), 1e-14);
  EXPECT_EQ(m.dlog_sigma[0], 0);
  EXPECT_EQ(m.dlog_sigma[1], 0);
  EXPECT_NE(m.dz[0], 0);
}

TEST(MembershipsTest, GradientsAreAddedOnRequest) {
  Memberships<double> alone(4, 3, 70);
  alone.forward().backward();
  Memberships<double> added = alone;
  added.backward(true, 0.5);
  for (auto member : {&Memberships<double>::dz, &Memberships<double>::dcentres, &Memberships<double>::dlog_sigma})
    for (size_t i = 0; i < (alone.*member).size(); ++i)
      EXPECT_NEAR((added.*member)[i], (alone.*member)[i] + 0.5, 1e-14);
}

TEST(MembershipsTest, FloatMatchesDouble) {
  Memberships<double> exact(50, 4, 33);
  Memberships<float> single(50, 4, 33);
  exact.forward().backward();
  single.forward().backward();
  EXPECT_LT(relative_error(single.memberships, exact.memberships), 1e-5);
  EXPECT_LT(relative_error(single.dz, exact.dz), 1e-5);
  EXPECT_LT(relative_error(single.dcentres, exact.dcentres), 1e-5);
  EXPECT_LT(relative_error(single.dlog_sigma, exact.dlog_sigma), 1e-5);
}

TEST(MembershipsTest, SameBitsOnAnyNumberOfThreads) {
  expect_same_on_any_threads([] {
    Memberships<float> m(90, 4, 130);
    m.forward().backward();
    std::vector<float> all = m.memberships;
    for (const auto* part : {&m.dz, &m.dcentres, &m.dlog_sigma}) all.insert(all.end(), part->begin(), part->end());
    return all;
  });
}

TEST(MembershipsTest, TooManyRegimesAreRefused) { EXPECT_THROW(Memberships<float>(2, 9, 2).forward(), Error); }

TEST(BatchMeanTest, MeanAndItsGradient) {
  const std::vector<double> x = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 15}, dmean = {3, 6, 9, 12};
  std::vector<double> mean(4), dx(12, 1.0);
  batch_mean_forward<double>(Cpu{}, mean.data(), x.data(), 3, 2, 2);
  EXPECT_EQ(mean, (std::vector<double>{5, 6, 7, 9}));
  batch_mean_backward<double>(Cpu{}, dx.data(), true, dmean.data(), 3, 2, 2);
  for (size_t i = 0; i < 12; ++i) EXPECT_NEAR(dx[i], 1 + static_cast<double>(i % 4 + 1), 1e-14);
  dx.assign(12, NAN);
  batch_mean_backward<double>(Cpu{}, dx.data(), false, dmean.data(), 3, 2, 2);
  EXPECT_NEAR(dx[11], 4, 1e-14);
}

TEST(RpaBasisTest, ValuesByHand) {
  std::vector<double> basis(10);
  rpa_basis<double>(Cpu{}, basis.data(), 5, 2);  // centres 0 and 4, width 3.75
  const double near = 0.5 * (1 + std::cos(M_PI / 3.75)), far = 0.5 * (1 + std::cos(M_PI * 3 / 3.75));
  EXPECT_NEAR(basis[0], 1 / (1 + 1e-6), 1e-15);
  EXPECT_EQ(basis[1], 0) << "beyond the width";
  EXPECT_NEAR(basis[2], near / (near + far + 1e-6), 1e-15);
  EXPECT_NEAR(basis[3], far / (near + far + 1e-6), 1e-15);
  EXPECT_NEAR(basis[4], 0.5, 1e-5);
  EXPECT_EQ(basis[8], 0);
}

TEST(RpaBasisTest, SmallestSizes) {
  std::vector<double> basis(4);
  rpa_basis<double>(Cpu{}, basis.data(), 1, 4);  // all centres at the one position
  for (double value : basis) EXPECT_NEAR(value, 1 / (4 + 1e-6), 1e-15);
  rpa_basis<double>(Cpu{}, basis.data(), 2, 1);
  EXPECT_NEAR(basis[0], 1 / (1 + 1e-6), 1e-15);
  EXPECT_NEAR(basis[1], 1, 1e-5);
}

}  // namespace
}  // namespace longhaul::kernels
