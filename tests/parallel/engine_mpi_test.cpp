// The engine over real MPI gives the bits of one rank alone.
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>

#include "core/comm/agreement.h"
#include "parallel/gradient_reducer.h"
#include "parallel/mpi/mpi_communicator.h"
#include "parallel/replica_check.h"
#include "parallel/sharded_optimizer.h"
#include "tests/parallel/mpi_world.h"
#include "tests/parallel/tiny_model.h"

namespace longhaul {
namespace {

using testing::TinyModel;

std::vector<float> train(Communicator& group, GradientReducerOptions options) {
  TinyModel model;
  const ShardLayout layout(model.store, group.size(), 100000);
  GradientReducer reducer(model.store, layout, group, options);
  ShardedOptimizer optimizer(model.store, layout, group, {.ema_decay = 0.9});
  std::vector<float> result;
  for (int64_t step = 0; step < 4; ++step) {
    for (int64_t slot = reducer.slots().begin; slot < reducer.slots().end; ++slot) {
      reducer.begin_slot(slot);
      model.backward(slot + 100 * step);
      reducer.end_slot();
    }
    agree(group, "gradients", [] {});
    const Tensor& gradients = reducer.finish();
    const GradientNorms norms = optimizer.gradient_norms(gradients, 0.1);
    result.push_back(static_cast<float>(norms.total));
    check_replicas(group, model.store);
    optimizer.update(gradients, 0.01, 0.1 / norms.total);
    optimizer.swap_average(WeightAverage::ema);
    optimizer.swap_average(WeightAverage::ema);
  }
  const auto values = model.store.flat_values().to_vector<float>();
  result.insert(result.end(), values.begin(), values.end());
  return result;
}

TEST(Engine, SameBitsAsOneRank) {
  Communicator& group = testing::mpi_world().group();
  const auto alone = make_single_communicator();
  for (const int64_t slots : {4, 12}) {
    for (const bool overlap : {true, false}) {
      const auto expected = train(*alone, {.slots = slots, .overlap = overlap});
      const auto found = train(group, {.slots = slots, .overlap = overlap});
      ASSERT_EQ(found.size(), expected.size());
      EXPECT_EQ(std::memcmp(found.data(), expected.data(), found.size() * sizeof(float)), 0) << slots << " " << overlap;
    }
  }
}

TEST(Engine, AFailedRankHoldsNobodyUp) {
  MpiCommunicator group;  // its own: messages of the abandoned step stay behind
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_THROW(
      {
        TinyModel model;
        const ShardLayout layout(model.store, group.size(), 100000);
        GradientReducer reducer(model.store, layout, group, {.slots = 4});
        agree(group, "forward and backward", [&] {
          for (int64_t slot = reducer.slots().begin; slot < reducer.slots().end; ++slot) {
            if (group.rank() == group.size() - 1) throw system_error("loader blocked");
            reducer.begin_slot(slot);
            model.backward(slot);
            reducer.end_slot();
          }
        });
      },
      AgreedError);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(8));
}

}  // namespace
}  // namespace longhaul
