#include "parallel/sharded_optimizer.h"

#include <gmock/gmock.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <mutex>
#include <set>

#include "core/comm/agreement.h"
#include "core/tensor/allocator.h"
#include "parallel/gradient_reducer.h"
#include "parallel/parameter_gather.h"
#include "tests/parallel/thread_communicator.h"
#include "tests/parallel/tiny_model.h"

namespace longhaul {
namespace {

using ::testing::HasSubstr;
using testing::TinyModel;

constexpr int64_t kSmallBucket = 100000;
constexpr int64_t kSlots = 12;

/// A rank's whole engine.
struct Engine {
  Engine(Communicator& group_in, const ShardedOptimizerOptions& options, DType dtype = DType::f32)
      : group(group_in),
        model(dtype),
        layout(model.store, group.size(), kSmallBucket),
        reducer(model.store, layout, group, {.slots = kSlots}),
        optimizer(model.store, layout, group, options) {}

  const Tensor& gradients(int64_t step) {
    for (int64_t slot = reducer.slots().begin; slot < reducer.slots().end; ++slot) {
      reducer.begin_slot(slot);
      model.backward(slot + 1000 * step);
      reducer.end_slot();
    }
    return reducer.finish();
  }
  void steps(int64_t begin, int64_t end) {
    for (int64_t step = begin; step < end; ++step) optimizer.update(gradients(step), 0.01, 0.125);
  }
  std::vector<float> values() const { return model.store.flat_values().to_vector<float>(); }

  Communicator& group;
  TinyModel model;
  ShardLayout layout;
  GradientReducer reducer;
  ShardedOptimizer optimizer;
};

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

/// Runs `body` on an engine of each rank; rank `shown`'s values afterwards.
std::vector<float> values_after(int ranks, const ShardedOptimizerOptions& options,
                                const std::function<void(Engine&)>& body, int shown = 0) {
  std::vector<float> values;
  testing::run_ranks(ranks, [&](Communicator& group) {
    Engine engine(group, options);
    body(engine);
    if (group.rank() == shown) values = engine.values();
  });
  return values;
}

/// Every element of the state by "kind/name", put together from the slices of all ranks.
using SavedState = std::map<std::string, std::vector<std::byte>>;
void save(Engine& engine, SavedState& saved, std::mutex& mutex) {
  const std::lock_guard lock(mutex);
  for (const TensorSlice& slice : engine.optimizer.state()) {
    auto& bytes = saved[slice.key()];
    bytes.resize(static_cast<size_t>(slice.shape.count() * size_of(slice.dtype)));
    std::memcpy(bytes.data() + slice.offset * size_of(slice.dtype), slice.data, static_cast<size_t>(slice.bytes()));
  }
}

TEST(ShardedOptimizer, SameBitsForEveryNumberOfRanks) {
  const auto train = [](Engine& engine) { engine.steps(0, 2); };
  const auto alone = values_after(1, {}, train);
  for (const int ranks : {2, 3, 4, 6}) {
    EXPECT_TRUE(same_bits(values_after(ranks, {}, train, ranks - 1), alone)) << ranks;
  }
}

TEST(ShardedOptimizer, NormsDoNotDependOnRanks) {
  const auto norms_with = [](int ranks) {
    GradientNorms norms;
    testing::run_ranks(ranks, [&](Communicator& group) {
      Engine engine(group, {});
      const GradientNorms mine = engine.optimizer.gradient_norms(engine.gradients(0), 0.5);
      if (group.rank() == group.size() - 1) norms = mine;
    });
    return norms;
  };
  const GradientNorms alone = norms_with(1);
  double squares = 0;
  const TinyModel model;
  for (size_t i = 0; i < model.store.parameters().size(); ++i) {
    double sum = 0;
    const Parameter& parameter = model.store.parameters()[i];
    for (int64_t e = 0; e < parameter.count(); ++e) {
      sum += std::pow(double{TinyModel::tree_sum(parameter.name, 0, kSlots, e)}, 2);
    }
    EXPECT_NEAR(alone.per_tensor[i], 0.5 * std::sqrt(sum), 1e-9 * std::sqrt(sum) + 1e-30) << parameter.name;
    squares += sum;
  }
  EXPECT_NEAR(alone.total, 0.5 * std::sqrt(squares), 1e-9 * std::sqrt(squares));
  for (const int ranks : {2, 3, 4}) {
    const GradientNorms norms = norms_with(ranks);
    EXPECT_EQ(norms.total, alone.total);
    EXPECT_EQ(norms.per_tensor, alone.per_tensor);
  }
}

TEST(ShardedOptimizer, EveryRankSeesANormThatIsNotFinite) {
  testing::run_ranks(4, [](Communicator& group) {
    Engine engine(group, {});
    const Tensor gradients = engine.gradients(0);
    const auto ranges = engine.layout.ranges(2);
    ASSERT_FALSE(ranges.empty());
    if (group.rank() == 2) gradients.data<float>()[ranges[0].begin] = std::numeric_limits<float>::quiet_NaN();
    EXPECT_FALSE(std::isfinite(engine.optimizer.gradient_norms(gradients, 1).total));
  });
}

TEST(ShardedOptimizer, ExactlyTheDecayListMoves) {
  const auto group = make_single_communicator();
  Engine engine(*group, {.adamw = {.weight_decay = 0.1}});
  const auto before = engine.values();
  const Tensor zero = engine.model.store.make_flat_buffer(DType::f32);
  engine.optimizer.update(zero, 1.0, 1.0);
  const auto after = engine.values();
  std::set<std::string> moved;
  for (const Parameter& parameter : engine.model.store.parameters()) {
    const auto first = before.begin() + parameter.offset;
    if (!std::equal(first, first + parameter.count(), after.begin() + parameter.offset)) moved.insert(parameter.name);
  }
  EXPECT_EQ(moved, (std::set<std::string>{"embedding", "weight", "head"}));
  EXPECT_EQ(engine.optimizer.decay_list(),
            "head [129, 3] decay\nunused [7] no decay\ngain [65] no decay\nweight [33, 65] decay\nembedding [300, 257] "
            "decay\n");
}

/// A store with one gain of 1 after `steps` updates with this gradient.
double gain_after(DType dtype, WeightDecay decay, float gradient, int steps) {
  const auto group = make_single_communicator();
  ParameterStore store(dtype);
  store.add("gain", {33}, decay, Initialization::constant(1.0));
  store.finalize();
  store.initialize(1);
  const ShardLayout layout(store, 1);
  ShardedOptimizer optimizer(store, layout, *group, {.adamw = {.weight_decay = 0.1}});
  const Tensor gradients = store.make_flat_buffer(DType::f32);
  std::fill(gradients.data<float>(), gradients.data<float>() + 33, gradient);
  for (int step = 0; step < steps; ++step) optimizer.update(gradients, 6e-4, 1.0);
  return dtype == DType::bf16 ? static_cast<float>(store.flat_values().data<bf16>()[32])
                              : store.flat_values().data<float>()[32];
}

TEST(ShardedOptimizer, Bf16ValuesFollowTheirF32Master) {
  const double reference = gain_after(DType::f32, WeightDecay::no, 0.5f, 100);
  EXPECT_NEAR(reference, 1 - 100 * 6e-4, 1e-4);
  EXPECT_NEAR(gain_after(DType::bf16, WeightDecay::no, 0.5f, 100), reference, 0.01 * reference);
}

TEST(ShardedOptimizer, WeightDecayIsVisibleInBf16) {
  const double decayed = std::pow(1 - 6e-5, 100);
  EXPECT_NEAR(gain_after(DType::f32, WeightDecay::yes, 0, 100), decayed, 1e-5);
  EXPECT_LT(gain_after(DType::bf16, WeightDecay::yes, 0, 100), 1.0);
  EXPECT_NEAR(gain_after(DType::bf16, WeightDecay::yes, 0, 100), decayed, 0.004);
}

TEST(ShardedOptimizer, SaysWhereMasterWeightsLive) {
  const auto group = make_single_communicator();
  EXPECT_THAT(Engine(*group, {}).optimizer.description(), HasSubstr("values f32, which are the master weights"));
  ParameterStore store(DType::bf16);
  store.add("gain", {33}, WeightDecay::no, Initialization::constant(1.0));
  store.finalize();
  const ShardLayout layout(store, 1);
  EXPECT_THAT(ShardedOptimizer(store, layout, *group, {}).description(), HasSubstr("values bf16, f32 master weights"));
}

TEST(ShardedOptimizer, StateMovesToOtherRankCounts) {
  const ShardedOptimizerOptions options{.ema_decay = 0.9, .snapshots = true};
  const auto uninterrupted = values_after(1, options, [](Engine& engine) { engine.steps(0, 3); });
  for (const auto& [from, to] : std::vector<std::pair<int, int>>{{1, 4}, {2, 3}, {4, 1}}) {
    SavedState saved, again;
    std::mutex mutex;
    values_after(from, options, [&](Engine& engine) {
      engine.steps(0, 1);
      engine.optimizer.take_snapshot(1);
      engine.steps(1, 2);
      save(engine, saved, mutex);
    });
    EXPECT_EQ(saved.size(), 5 * 5u);  // values, two moments, two averages of five parameters
    const auto continued = values_after(to, options, [&](Engine& engine) {
      engine.optimizer.load(2, [&](const TensorSlice& slice) {
        const auto& bytes = saved.at(slice.key());
        std::memcpy(slice.data, bytes.data() + slice.offset * size_of(slice.dtype), static_cast<size_t>(slice.bytes()));
      });
      save(engine, again, mutex);
      engine.steps(2, 3);
    });
    EXPECT_EQ(saved, again) << from << " to " << to;
    EXPECT_TRUE(same_bits(continued, uninterrupted)) << from << " to " << to;
  }
}

TEST(ShardedOptimizer, FailureToLoadIsEveryones) {
  const auto failures = testing::run_ranks_collecting(3, [](Communicator& group) {
    Engine engine(group, {});
    engine.optimizer.load(1, [&](const TensorSlice& slice) {
      if (group.rank() == 1) throw user_error("{}: missing", slice.key());
    });
  });
  for (const auto& failure : failures) {
    ASSERT_TRUE(failure);
    EXPECT_THROW(std::rethrow_exception(failure), AgreedError);
  }
}

TEST(ShardedOptimizer, SwappingTheAverageInDisturbsNothing) {
  const ShardedOptimizerOptions options{.ema_decay = 0.75};
  for (const int ranks : {1, 3}) {
    SavedState plain, swapped;
    std::mutex mutex;
    values_after(ranks, options, [&](Engine& engine) {
      engine.steps(0, 2);
      save(engine, plain, mutex);
    });
    values_after(ranks, options, [&](Engine& engine) {
      for (int64_t step = 0; step < 2; ++step) {
        engine.steps(step, step + 1);
        const auto raw = engine.values();
        engine.optimizer.swap_average(WeightAverage::ema);
        EXPECT_FALSE(same_bits(engine.values(), raw));
        EXPECT_THROW(engine.optimizer.state(), Error);
        engine.optimizer.swap_average(WeightAverage::ema);
        EXPECT_TRUE(same_bits(engine.values(), raw));
      }
      save(engine, swapped, mutex);
    });
    EXPECT_EQ(plain, swapped);
  }
}

TEST(ShardedOptimizer, AverageFollowsItsDefinition) {
  const auto group = make_single_communicator();
  Engine engine(*group, {.ema_decay = 0.75});
  auto expected = engine.values();
  for (int64_t step = 0; step < 3; ++step) {
    engine.steps(step, step + 1);
    const auto values = engine.values();
    for (size_t i = 0; i < values.size(); ++i) expected[i] = 0.75f * expected[i] + 0.25f * values[i];
  }
  engine.optimizer.swap_average(WeightAverage::ema);
  const auto average = engine.values();
  for (size_t i = 0; i < average.size(); ++i) ASSERT_NEAR(average[i], expected[i], 1e-6);
}

TEST(ShardedOptimizer, SnapshotsMeanIsThatOfTheChosenSteps) {
  const auto mean_with = [](int ranks) {
    return values_after(
        ranks, {.snapshots = true},
        [](Engine& engine) {
          std::vector<double> sum(engine.values().size());
          for (int64_t step = 0, taken = 0; step < 5; ++step) {
            engine.steps(step, step + 1);
            if (step == 1 || step == 3) continue;
            engine.optimizer.take_snapshot(1 / static_cast<double>(++taken));
            const auto values = engine.values();
            for (size_t i = 0; i < values.size(); ++i) sum[i] += values[i];
          }
          engine.optimizer.swap_average(WeightAverage::swa);
          const auto mean = engine.values();
          for (size_t i = 0; i < mean.size(); ++i) ASSERT_NEAR(mean[i], sum[i] / 3, 1e-6 * (1 + std::abs(sum[i])));
        },
        ranks - 1);
  };
  const auto alone = mean_with(1);
  EXPECT_TRUE(same_bits(mean_with(3), alone));
}

TEST(ShardedOptimizer, TheFirstSnapshotIsTheWeightsThemselves) {
  const auto group = make_single_communicator();
  Engine engine(*group, {.snapshots = true});
  const auto start = engine.values();
  engine.steps(0, 1);
  const auto values = engine.values();
  engine.optimizer.swap_average(WeightAverage::swa);
  EXPECT_TRUE(same_bits(engine.values(), start));
  engine.optimizer.swap_average(WeightAverage::swa);
  engine.optimizer.take_snapshot(1);
  engine.steps(1, 2);
  engine.optimizer.swap_average(WeightAverage::swa);
  EXPECT_TRUE(same_bits(engine.values(), values));
}

TEST(ShardedOptimizer, AveragesDisturbNeitherTrainingNorEachOther) {
  for (const int ranks : {1, 3}) {
    SavedState plain, averaged;
    std::mutex mutex;
    values_after(ranks, {}, [&](Engine& engine) {
      engine.steps(0, 2);
      save(engine, plain, mutex);
    });
    values_after(ranks, {.ema_decay = 0.75, .snapshots = true}, [&](Engine& engine) {
      engine.steps(0, 1);
      engine.optimizer.take_snapshot(1);
      engine.steps(1, 2);
      engine.optimizer.take_snapshot(0.5);
      const auto raw = engine.values();
      for (const WeightAverage average : {WeightAverage::ema, WeightAverage::swa}) {
        engine.optimizer.swap_average(average);
        EXPECT_FALSE(same_bits(engine.values(), raw));
        const WeightAverage other = average == WeightAverage::ema ? WeightAverage::swa : WeightAverage::ema;
        EXPECT_THROW(engine.optimizer.swap_average(other), Error);
        EXPECT_THROW(engine.optimizer.take_snapshot(1), Error);
        engine.optimizer.swap_average(average);
        EXPECT_TRUE(same_bits(engine.values(), raw));
      }
      save(engine, averaged, mutex);
    });
    for (const auto& [key, bytes] : plain) EXPECT_EQ(averaged.at(key), bytes) << key;
  }
}

TEST(ShardedOptimizer, Bf16SnapshotsAreOfTheMasterCopy) {
  const auto group = make_single_communicator();
  ParameterStore store(DType::bf16);
  store.add("weight", {33, 5}, WeightDecay::yes, Initialization::normal(1));
  store.finalize();
  store.initialize(3);
  const ShardLayout layout(store, 1);
  ShardedOptimizer optimizer(store, layout, *group, {.snapshots = true});
  const Tensor gradients = store.make_flat_buffer(DType::f32);
  gradients.data<float>()[5] = 1;
  optimizer.update(gradients, 1e-3, 1);
  optimizer.take_snapshot(1);
  std::map<std::string, const void*> slices;
  for (const TensorSlice& slice : optimizer.state()) slices[slice.kind] = slice.data;
  EXPECT_EQ(std::memcmp(slices.at("swa"), slices.at("master"), 33 * 5 * sizeof(float)), 0);
}

TEST(ShardedOptimizer, Bf16SwapReturnsToTheRoundedMaster) {
  testing::run_ranks(2, [](Communicator& group) {
    ParameterStore store(DType::bf16);
    store.add("weight", {129, 65}, WeightDecay::yes, Initialization::normal(1));
    store.finalize();
    store.initialize(3);
    const ShardLayout layout(store, 2, 1);
    ShardedOptimizer optimizer(store, layout, group, {.ema_decay = 0.5});
    const Tensor gradients = store.make_flat_buffer(DType::f32);
    gradients.data<float>()[5] = 1;
    optimizer.update(gradients, 0.1, 1);
    const Tensor before = store.flat_values().clone();
    optimizer.swap_average(WeightAverage::ema);
    EXPECT_NE(std::memcmp(before.raw(), store.flat_values().raw(), static_cast<size_t>(before.bytes())), 0);
    optimizer.swap_average(WeightAverage::ema);
    EXPECT_EQ(std::memcmp(before.raw(), store.flat_values().raw(), static_cast<size_t>(before.bytes())), 0);
  });
}

TEST(ShardedOptimizer, StateTakesOnlyItsShareOfMemory) {
  const auto group = make_single_communicator();
  TinyModel model;
  const ShardLayout layout(model.store, 1);
  const int64_t before = allocator::use(Device{}).live_bytes;
  ShardedOptimizer optimizer(model.store, layout, *group, {});
  const int64_t values = model.store.flat_values().bytes();
  EXPECT_LT(allocator::use(Device{}).live_bytes - before, 2 * values + values / 4);
}

TEST(ShardedOptimizer, RefusesAnImpossibleDecayOfTheAverage) {
  const auto group = make_single_communicator();
  TinyModel model;
  const ShardLayout layout(model.store, 1);
  EXPECT_THROW(ShardedOptimizer(model.store, layout, *group, {.ema_decay = 1.0}), Error);
  EXPECT_THROW(ShardedOptimizer(model.store, layout, *group, {.ema_decay = std::nan("")}), Error);
}

TEST(ParameterGather, CopiesEverySegmentToEveryRank) {
  for (const int ranks : {1, 2, 3, 4}) {
    testing::run_ranks(ranks, [&](Communicator& group) {
      const TinyModel model;
      const ShardLayout layout(model.store, ranks, kSmallBucket);
      const Tensor flat = model.store.make_flat_buffer(DType::f32);
      for (const FlatRange& range : layout.ranges(group.rank())) {
        for (int64_t i = range.begin; i < range.end; ++i) flat.data<float>()[i] = static_cast<float>(i);
      }
      gather_parameters(group, layout, flat);
      for (int64_t i = 0; i < flat.count(); ++i) ASSERT_EQ(flat.data<float>()[i], static_cast<float>(i));
    });
  }
}

}  // namespace
}  // namespace longhaul
