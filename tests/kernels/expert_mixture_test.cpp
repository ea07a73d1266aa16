#include "kernels/expert_mixture.h"

#include <array>

#include "tests/kernels/kernel_test.h"

namespace longhaul::kernels {
namespace {

/// Three experts, of which the last has no tokens; every token goes to the first two, in an order of its own.
template <typename T>
struct Mixture {
  int64_t tokens, columns;
  std::vector<int32_t> experts, rows;
  std::vector<T> first, second, weights, dy;
  std::vector<T> y, dfirst, dsecond, dweights;

  Mixture(int64_t token_count, int64_t column_count) : tokens(token_count), columns(column_count) {
    for (int32_t t = 0; t < tokens; ++t) {
      experts.insert(experts.end(), {t % 2, 1 - t % 2});
      rows.insert(rows.end(), {t, t});
    }
    first = random_values<T>(tokens * columns, 1);
    second = random_values<T>(tokens * columns, 2);
    weights = random_values<T>(tokens * 2, 3);
    dy = random_values<T>(tokens * columns, 4);
  }
  ExpertPlaces places() const { return {experts.data(), rows.data(), tokens, 2}; }
  Mixture& forward() {
    y.assign(first.size(), T(NAN));
    const std::array<const T*, 3> outputs = {first.data(), second.data(), nullptr};
    expert_mixture_forward<T>(Cpu{}, y.data(), outputs.data(), weights.data(), places(), columns);
    return *this;
  }
  Mixture& backward(bool accumulate = false, T before = T(NAN), bool second_wanted = true) {
    dfirst.assign(first.size(), before);
    dsecond.assign(second.size(), before);
    dweights.assign(weights.size(), before);
    const std::array<const T*, 3> outputs = {first.data(), second.data(), nullptr};
    const std::array<T*, 3> doutputs = {dfirst.data(), second_wanted ? dsecond.data() : nullptr, nullptr};
    const std::array<bool, 3> add = {accumulate, accumulate, false};
    expert_mixture_backward<T>(Cpu{}, doutputs.data(), add.data(), dweights.data(), accumulate, dy.data(),
                               outputs.data(), weights.data(), places(), columns);
    return *this;
  }
};

template <typename T>
class ExpertMixtureTest : public ::testing::Test {};
using ElementTypes = ::testing::Types<float, double>;
TYPED_TEST_SUITE(ExpertMixtureTest, ElementTypes);

TYPED_TEST(ExpertMixtureTest, ValuesByHand) {
  Mixture<TypeParam> m(2, 2);
  m.first = {1, 2, 3, 4};
  m.second = {10, 20, 30, 40};
  m.weights = {0.25, 0.75, 0.5, 2};  // of token 1 the second expert comes first
  m.dy = {1, -1, 2, 0};
  m.forward().backward();
  EXPECT_EQ(m.y, (std::vector<TypeParam>{7.75, 15.5, 21, 28}));
  EXPECT_EQ(m.dfirst, (std::vector<TypeParam>{0.25, -0.25, 4, 0}));
  EXPECT_EQ(m.dsecond, (std::vector<TypeParam>{0.75, -0.75, 1, 0}));
  EXPECT_EQ(m.dweights, (std::vector<TypeParam>{-1, -10, 60, 6}));
}

TYPED_TEST(ExpertMixtureTest, GradientsAreAddedOnRequestAndLeftOutWhenUnwanted) {
  const Mixture<TypeParam> alone = Mixture<TypeParam>(5, 19).backward(),
                           added = Mixture<TypeParam>(5, 19).backward(true, 1);
  for (const auto member : {&Mixture<TypeParam>::dfirst, &Mixture<TypeParam>::dsecond, &Mixture<TypeParam>::dweights})
    for (size_t i = 0; i < (alone.*member).size(); ++i) EXPECT_NEAR((added.*member)[i], (alone.*member)[i] + 1, 1e-5);
  const Mixture<TypeParam> part = Mixture<TypeParam>(5, 19).backward(false, 7, false);
  EXPECT_EQ(part.dsecond, std::vector<TypeParam>(5 * 19, 7));
  EXPECT_TRUE(same_bits(part.dfirst, alone.dfirst));
}

TYPED_TEST(ExpertMixtureTest, SameBitsOnAnyThreads) {
  expect_same_on_any_threads([] {
    Mixture<TypeParam> m(300, 67);
    m.forward().backward();
    std::vector<TypeParam> all = m.y;
    for (const auto* part : {&m.dfirst, &m.dsecond, &m.dweights}) all.insert(all.end(), part->begin(), part->end());
    return all;
  });
}

}  // namespace
}  // namespace longhaul::kernels
