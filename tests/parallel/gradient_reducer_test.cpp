#include "parallel/gradient_reducer.h"

#include <gmock/gmock.h>

#include <array>
#include <chrono>
#include <cstring>
#include <mutex>
#include <thread>

#include "core/comm/agreement.h"
#include "tests/parallel/thread_communicator.h"
#include "tests/parallel/tiny_model.h"

namespace longhaul {
namespace {

using testing::TinyModel;

constexpr int64_t kSmallBucket = 100000;  ///< bytes: several buckets in the tiny model

/// One step on `ranks` threads; the whole sum, put together from the segments of the ranks.
std::vector<float> reduced_gradients(int ranks, const GradientReducerOptions& options, int steps = 1) {
  std::vector<float> total;
  std::mutex mutex;
  testing::run_ranks(ranks, [&](Communicator& group) {
    TinyModel model;
    const ShardLayout layout(model.store, group.size(), kSmallBucket);
    GradientReducer reducer(model.store, layout, group, options);
    for (int step = 0; step < steps; ++step) {
      for (int64_t slot = reducer.slots().begin; slot < reducer.slots().end; ++slot) {
        reducer.begin_slot(slot);
        model.backward(slot);
        reducer.end_slot();
      }
      const Tensor& sum = reducer.finish();
      const std::lock_guard lock(mutex);
      total.resize(static_cast<size_t>(sum.count()));
      for (const FlatRange& range : layout.ranges(group.rank())) {
        std::copy(sum.data<float>() + range.begin, sum.data<float>() + range.end, total.begin() + range.begin);
      }
    }
  });
  return total;
}

/// The sums by definition, in the flat layout.
std::vector<float> expected_gradients(int64_t slots) {
  const TinyModel model;
  std::vector<float> total(static_cast<size_t>(model.store.flat_count()));
  for (const Parameter& parameter : model.store.parameters()) {
    for (int64_t i = 0; i < parameter.count(); ++i) {
      total[parameter.offset + i] = TinyModel::tree_sum(parameter.name, 0, slots, i);
    }
  }
  return total;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

TEST(GradientReducer, SameBitsForEveryNumberOfRanks) {
  for (const int64_t slots : {1, 2, 3, 6, 7, 8, 12}) {
    const auto expected = expected_gradients(slots);
    for (const int ranks : {1, 2, 3, 4, 6, 8}) {
      if (slots % ranks != 0) continue;
      EXPECT_TRUE(same_bits(reduced_gradients(ranks, {.slots = slots}), expected))
          << slots << " slots, " << ranks << " ranks";
    }
  }
}

TEST(GradientReducer, OverlapDoesNotChangeTheBits) {
  const auto expected = expected_gradients(6);
  for (const int ranks : {2, 3, 6}) {
    for (const bool overlap : {false, true}) {
      for (const int64_t in_flight : {1, 8}) {
        const GradientReducerOptions options{.slots = 6, .overlap = overlap, .buckets_in_flight = in_flight};
        EXPECT_TRUE(same_bits(reduced_gradients(ranks, options), expected)) << ranks << " ranks, overlap " << overlap;
      }
    }
  }
}

TEST(GradientReducer, LaterStepsStartFresh) {
  EXPECT_TRUE(same_bits(reduced_gradients(2, {.slots = 4}, 3), expected_gradients(4)));
}

TEST(GradientReducer, UnorderedIsTheSameSumButForRounding) {
  const auto expected = expected_gradients(12);
  for (const int ranks : {1, 2, 3, 4}) {
    const auto sums = reduced_gradients(ranks, {.slots = 12, .order = ReductionOrder::unordered});
    ASSERT_EQ(sums.size(), expected.size());
    double worst = 0;
    for (size_t i = 0; i < sums.size(); ++i) worst = std::max(worst, std::abs(double{sums[i]} - expected[i]));
    EXPECT_LT(worst, 1e-4) << ranks;
    EXPECT_TRUE(same_bits(sums, reduced_gradients(ranks, {.slots = 12, .order = ReductionOrder::unordered})));
  }
}

TEST(GradientReducer, KeepsLogarithmicallyManyBuffers) {
  TinyModel model;
  const auto group = make_single_communicator();
  const ShardLayout layout(model.store, 1);
  EXPECT_EQ(GradientReducer(model.store, layout, *group, {.slots = 1}).buffer_count(), 1);
  EXPECT_EQ(GradientReducer(model.store, layout, *group, {.slots = 8}).buffer_count(), 4);
  EXPECT_EQ(
      GradientReducer(model.store, layout, *group, {.slots = 8, .order = ReductionOrder::unordered}).buffer_count(), 1);
}

TEST(GradientReducer, TimelineIsInOrder) {
  testing::run_ranks(2, [&](Communicator& group) {
    TinyModel model;
    const ShardLayout layout(model.store, group.size(), 1);
    GradientReducer reducer(model.store, layout, group, {.slots = 2});
    reducer.begin_slot(group.rank());
    model.backward(group.rank());
    reducer.end_slot();
    reducer.finish();
    const ReductionTimeline& timeline = reducer.timeline();
    ASSERT_EQ(timeline.buckets.size(), layout.buckets().size());
    EXPECT_LT(timeline.buckets[0].ready, timeline.backward_end);  // while backward ran
    for (const BucketTimes& times : timeline.buckets) {
      EXPECT_LE(times.ready, times.started);
      EXPECT_LE(times.started, times.done);
      EXPECT_LE(times.done, timeline.finished);
    }
    EXPECT_GE(timeline.exposed_seconds(), 0);
  });
}

/// A network on which every message takes 10 ms.
class SlowCommunicator : public testing::ThreadCommunicator {
 public:
  using ThreadCommunicator::ThreadCommunicator;
  std::unique_ptr<Transfer> receive(std::span<std::byte> bytes, int from, int tag) override {
    return std::make_unique<Late>(ThreadCommunicator::receive(bytes, from, tag));
  }

 private:
  struct Late : Transfer {
    explicit Late(std::unique_ptr<Transfer> inner_in) : inner(std::move(inner_in)) {}
    bool test() override {
      return std::chrono::steady_clock::now() > begin + std::chrono::milliseconds(10) && inner->test();
    }
    void wait() override {
      while (!test()) std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
    std::unique_ptr<Transfer> inner;
    std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now();
  };
};

TEST(GradientReducer, CommunicationHidesBehindBackward) {
  for (const bool overlap : {true, false}) {
    testing::ThreadGroup shared(2);
    std::array<ReductionTimeline, 2> timelines;
    std::vector<std::thread> ranks;
    for (int rank = 0; rank < 2; ++rank) {
      ranks.emplace_back([&, rank] {
        SlowCommunicator group(shared, rank);
        TinyModel model;
        const ShardLayout layout(model.store, 2, 1);  // a bucket for each block
        GradientReducer reducer(model.store, layout, group, {.slots = 2, .overlap = overlap, .buckets_in_flight = 1});
        reducer.begin_slot(rank);
        model.backward(rank, std::chrono::milliseconds(40));
        reducer.end_slot();
        reducer.finish();
        timelines[rank] = reducer.timeline();
      });
    }
    for (auto& thread : ranks) thread.join();
    // Rank 0 owns these small buckets, so it waits for all of them.
    const double exposed = overlap ? 0 : 0.01 * static_cast<double>(timelines[0].buckets.size());
    EXPECT_GE(timelines[0].exposed_seconds(), exposed);
    for (const ReductionTimeline& timeline : timelines) {
      // The first bucket is reduced long before the backward pass ends; without overlap nothing starts before that.
      EXPECT_EQ(timeline.buckets[0].done < timeline.backward_end, overlap);
      EXPECT_EQ(timeline.buckets[0].started < timeline.backward_end, overlap);
    }
  }
}

TEST(GradientReducer, RefusesCallsOutOfOrder) {
  TinyModel model;
  const auto group = make_single_communicator();
  const ShardLayout layout(model.store, 1);
  GradientReducer reducer(model.store, layout, *group, {.slots = 2});
  EXPECT_THROW(reducer.begin_slot(1), Error);
  EXPECT_THROW(reducer.end_slot(), Error);
  reducer.begin_slot(0);
  EXPECT_THROW(reducer.begin_slot(1), Error);
  reducer.end_slot();
  EXPECT_THROW(reducer.finish(), Error);
}

TEST(GradientReducer, RanksMustDivideSlots) {
  testing::run_ranks(2, [](Communicator& group) {
    TinyModel model;
    const ShardLayout layout(model.store, 2);
    EXPECT_THROW(GradientReducer(model.store, layout, group, {.slots = 3}), Error);
  });
}

TEST(GradientReducer, AFailedRankHoldsNobodyUp) {
  const auto begin = std::chrono::steady_clock::now();
  const auto failures = testing::run_ranks_collecting(2, [](Communicator& group) {
    TinyModel model;
    const ShardLayout layout(model.store, 2, kSmallBucket);
    GradientReducer reducer(model.store, layout, group, {.slots = 2});
    agree(group, "forward and backward", [&] {
      reducer.begin_slot(group.rank());
      if (group.rank() == 1) throw system_error("loader blocked");
      model.backward(group.rank());
      reducer.end_slot();
    });
    reducer.finish();
  });
  for (const auto& failure : failures) {
    ASSERT_TRUE(failure);
    EXPECT_THROW(std::rethrow_exception(failure), AgreedError);
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
}

/// A group whose receives fail.
class DeafCommunicator : public testing::ThreadCommunicator {
 public:
  using ThreadCommunicator::ThreadCommunicator;
  std::unique_ptr<Transfer> receive(std::span<std::byte>, int from, int) override {
    throw system_error("rank {} is lost", from);
  }
};

TEST(GradientReducer, FailureOfTheThreadComesOutOfFinish) {
  testing::ThreadGroup shared(2);
  DeafCommunicator group(shared, 0);
  TinyModel model;
  const ShardLayout layout(model.store, 2, kSmallBucket);
  GradientReducer reducer(model.store, layout, group, {.slots = 2});
  reducer.begin_slot(0);
  model.backward(0);
  reducer.end_slot();
  EXPECT_THROW(reducer.finish(), Error);
}

/// Gradient sum of valid targets and their number: micro-batches of 3 and 97 targets, accumulated, spread, or as one.
TEST(GradientReducer, AccumulationWeighsByTokens) {
  const auto target_gradient = [](int64_t target) { return TinyModel::slot_gradient("target", target, 11); };
  const auto mean_over = [&](int ranks, const std::vector<std::pair<int64_t, int64_t>>& slots) {
    double mean = 0;
    testing::run_ranks(ranks, [&](Communicator& group) {
      ParameterStore store;
      Variable weight = store.add("weight", {1}, WeightDecay::no, Initialization::constant(0));
      store.finalize();
      const ShardLayout layout(store, ranks);
      GradientReducer reducer(store, layout, group, {.slots = static_cast<int64_t>(slots.size())});
      std::vector<int64_t> valid{0};
      for (int64_t slot = reducer.slots().begin; slot < reducer.slots().end; ++slot) {
        reducer.begin_slot(slot);
        Tape tape;
        const GradientTarget target = weight.target();
        const auto [begin, end] = slots[static_cast<size_t>(slot)];
        const Variable loss = tape.record("loss", Tensor::zeros({1}, DType::f32), {weight}, [&](const Tensor&) {
          float sum = 0;
          for (int64_t i = begin; i < end; ++i) sum += target_gradient(i);
          *target.sink().tensor.data<float>() = sum;
        });
        tape.backward(loss);
        valid[0] += end - begin;
        reducer.end_slot();
      }
      const Tensor& sum = reducer.finish();
      group.sum(valid);
      if (layout.owned_count(group.rank()) > 0) mean = double{*sum.data<float>()} / static_cast<double>(valid[0]);
    });
    return mean;
  };
  const double whole = mean_over(1, {{0, 100}});
  EXPECT_NEAR(mean_over(1, {{0, 3}, {3, 100}}), whole, 1e-6 * std::abs(whole));
  EXPECT_NEAR(mean_over(2, {{0, 3}, {3, 100}}), whole, 1e-6 * std::abs(whole));
  EXPECT_NEAR(mean_over(2, {{0, 100}, {100, 100}}), whole, 1e-6 * std::abs(whole));  // a slot without targets
}

}  // namespace
}  // namespace longhaul
