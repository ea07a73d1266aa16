#include "parallel/gradient_reducer.h"

#include <chrono>
#include <optional>

#include "kernels/error.h"
#include "kernels/pointwise.h"
#include "parallel/reduction_thread.h"

namespace longhaul {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int kTags = 8192;

/// into += from on a range of two flat buffers, with the OpenMP team.
void add_range(const Tensor& into, const Tensor& from, FlatRange range) {
  dispatch_float("gradient sum", into.dtype(), [&]<typename T>(T) {
    T* sum = into.data<T>() + range.begin;
    kernels::add(kernels::Cpu{}, sum, sum, from.data<T>() + range.begin, range.count());
  });
}

}  // namespace

struct GradientReducer::State {
  State(ParameterStore& store_in, const ShardLayout& layout_in, Communicator& group_in,
        const GradientReducerOptions& options_in)
      : store(store_in),
        layout(layout_in),
        group(group_in),
        options(options_in),
        own(slots_of_rank(options.slots, group.size(), group.rank())),
        bucket_count(static_cast<int64_t>(layout.buckets().size())),
        accumulation(options.slots) {
    if (layout.ranks() != group.size()) {
      throw internal_error("shard layout of {} ranks used in a group of {}", layout.ranks(), group.size());
    }
    const bool unordered = options.order == ReductionOrder::unordered;
    const int64_t count = unordered ? 1 : SlotAccumulation::buffers_needed(options.slots, own);
    const DType dtype = store.dtype() == DType::f64 ? DType::f64 : DType::f32;
    for (int64_t i = 0; i < count; ++i) buffers.push_back(store.make_flat_buffer(dtype));
    buckets_of_parameter.resize(store.parameters().size());
    for (int64_t bucket = 0; bucket < bucket_count; ++bucket) {
      const Bucket& entry = layout.buckets()[bucket];
      for (int64_t p = entry.parameter_begin; p < entry.parameter_end; ++p) buckets_of_parameter[p].push_back(bucket);
    }
    if (group.size() > 1) start_thread();
  }

  void start_thread() {
    const int64_t slots = reduction_slots(options.order, options.slots, group.size());
    thread.emplace(
        bucket_count, options.buckets_in_flight,
        [this, slots](int64_t bucket) {
          const int64_t alive = options.order == ReductionOrder::unordered
                                    ? 1
                                    : static_cast<int64_t>(SlotAccumulation::remaining(options.slots, own).size());
          return start_bucket_reduction(group, layout, bucket, slots, {buffers.begin(), buffers.begin() + alive},
                                        static_cast<int>(bucket % kTags));
        },
        ReductionThread::Events{[this](int64_t bucket) { timeline.buckets[bucket].started = seconds(); },
                                [this](int64_t bucket) { timeline.buckets[bucket].done = seconds(); }});
  }

  double seconds() const { return std::chrono::duration<double>(Clock::now() - start).count(); }
  bool in_last_slot() const { return current == own.end - 1; }

  void begin_step() {
    step_open = true;
    accumulation.clear();
    if (thread) thread->begin_step();
  }

  void begin_last_slot() {
    start = Clock::now();
    timeline = ReductionTimeline{};
    timeline.buckets.resize(static_cast<size_t>(bucket_count));
    submitted.assign(static_cast<size_t>(bucket_count), false);
    parameter_ready.assign(store.parameters().size(), false);
    missing.clear();
    for (const Bucket& bucket : layout.buckets()) missing.push_back(bucket.parameter_end - bucket.parameter_begin);
  }

  void gradient_ready(int64_t parameter) {
    if (!slot_open || !in_last_slot() || !thread || !options.overlap) return;
    if (parameter_ready[parameter]) {
      throw internal_error("gradient of '{}' became final twice in one slot", store.parameters()[parameter].name);
    }
    parameter_ready[parameter] = true;
    for (const int64_t bucket : buckets_of_parameter[parameter]) {
      if (--missing[bucket] == 0) submit(bucket);
    }
  }

  /// Adds what the last slot completes, then hands the bucket over.
  void submit(int64_t bucket) {
    const FlatRange range = layout.buckets()[bucket].range();
    for (const auto& merge : last_merges) add_range(buffers[merge.into], buffers[merge.from], range);
    timeline.buckets[bucket].ready = seconds();
    submitted[bucket] = true;
    if (thread) thread->submit(bucket);
  }

  ParameterStore& store;
  const ShardLayout& layout;
  Communicator& group;
  const GradientReducerOptions options;
  const SlotRange own;
  const int64_t bucket_count;
  std::vector<std::vector<int64_t>> buckets_of_parameter;
  std::vector<Tensor> buffers;  ///< by stack position of the accumulation
  SlotAccumulation accumulation;
  std::vector<SlotAccumulation::Merge> last_merges;

  int64_t current = -1;
  bool step_open = false, slot_open = false;
  std::vector<int64_t> missing;  ///< by bucket: parameters whose gradient is not final
  std::vector<bool> submitted, parameter_ready;
  Clock::time_point start;
  ReductionTimeline timeline;
  std::optional<ReductionThread> thread;  ///< last member: stops before what it uses goes
};

GradientReducer::GradientReducer(ParameterStore& store, const ShardLayout& layout, Communicator& group,
                                 const GradientReducerOptions& options)
    : state_(std::make_unique<State>(store, layout, group, options)) {
  for (size_t i = 0; i < store.parameters().size(); ++i) {
    store.parameters()[i].variable.on_gradient_ready(
        [state = state_.get(), i] { state->gradient_ready(static_cast<int64_t>(i)); });
  }
}

GradientReducer::~GradientReducer() {
  for (const Parameter& parameter : state_->store.parameters()) parameter.variable.on_gradient_ready({});
}

SlotRange GradientReducer::slots() const { return state_->own; }
int64_t GradientReducer::buffer_count() const { return static_cast<int64_t>(state_->buffers.size()); }
bool GradientReducer::waiting() const { return state_->thread && state_->thread->waiting(); }
const ReductionTimeline& GradientReducer::timeline() const { return state_->timeline; }

void GradientReducer::begin_slot(int64_t slot) {
  State& state = *state_;
  const bool first = slot == state.own.begin;
  if (state.slot_open || slot < state.own.begin || slot >= state.own.end || (!first && slot != state.current + 1)) {
    throw internal_error("begin_slot({}) after slot {} of slots {} to {}", slot, state.current, state.own.begin,
                         state.own.end - 1);
  }
  if (first) state.begin_step();
  state.current = slot;
  state.slot_open = true;
  if (state.in_last_slot()) state.begin_last_slot();
  if (state.options.order == ReductionOrder::unordered) {
    if (first) state.store.bind_gradients(state.buffers[0]);  // later slots add to what is there
    return;
  }
  const int64_t position = state.accumulation.push(slot);
  state.store.bind_gradients(state.buffers[position]);
  state.last_merges = state.accumulation.merge();
}

void GradientReducer::end_slot() {
  State& state = *state_;
  if (!state.slot_open) throw internal_error("end_slot without begin_slot");
  state.store.zero_absent_gradients();
  state.slot_open = false;
  if (!state.in_last_slot()) {
    const FlatRange all{0, state.store.flat_count()};
    for (const auto& merge : state.last_merges) add_range(state.buffers[merge.into], state.buffers[merge.from], all);
    return;
  }
  state.timeline.backward_end = state.seconds();
  for (int64_t bucket = 0; bucket < state.bucket_count; ++bucket) {
    if (!state.submitted[bucket]) state.submit(bucket);
  }
}

const Tensor& GradientReducer::finish() {
  State& state = *state_;
  if (state.slot_open || !state.step_open || !state.in_last_slot()) {
    throw internal_error("finish() before the last slot, {}, has ended", state.own.end - 1);
  }
  if (state.thread) state.thread->finish();
  state.timeline.finished = state.seconds();
  state.step_open = false;
  return state.buffers[0];
}

}  // namespace longhaul
