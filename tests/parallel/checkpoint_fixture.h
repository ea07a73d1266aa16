// A toy training state that any number of ranks can save and load.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "parallel/checkpoint_reader.h"
#include "parallel/checkpoint_resume.h"
#include "parallel/checkpoint_writer.h"
#include "parallel/state_hash.h"
#include "tests/core/io/temporary_directory.h"
#include "tests/parallel/thread_communicator.h"

namespace longhaul::testing {

/// Two tensors of odd sizes in f32 and one in bf16, filled from the step.
struct ToyState {
  explicit ToyState(int64_t step) : weight(7 * 11), moment(7 * 11), half(5) {
    for (size_t i = 0; i < weight.size(); ++i) {
      weight[i] = static_cast<float>(step) + 0.5f * static_cast<float>(i);
      moment[i] = -static_cast<float>(step) - static_cast<float>(i);
    }
    for (size_t i = 0; i < half.size(); ++i) half[i] = static_cast<uint16_t>(0x3f80 + step + static_cast<int64_t>(i));
  }
  bool operator==(const ToyState&) const = default;

  /// What rank `rank` of `ranks` owns: a run of blocks of 10 elements, given one by one and not in order.
  std::vector<TensorSlice> slices(int64_t rank, int64_t ranks) {
    std::vector<TensorSlice> slices;
    const auto add = [&](const char* kind, const char* name, Shape shape, DType dtype, void* data) {
      const int64_t total = shape.count(), blocks = (total + 9) / 10;
      for (int64_t block = (rank + 1) * blocks / ranks - 1; block >= rank * blocks / ranks; --block) {
        const int64_t begin = block * 10, count = std::min<int64_t>(10, total - begin);
        slices.push_back({kind, name, shape, dtype, begin, count, static_cast<char*>(data) + begin * size_of(dtype)});
      }
    };
    add("parameter", "h.0.weight", Shape({7, 11}), DType::f32, weight.data());
    add("adam_m", "h.0.weight", Shape({7, 11}), DType::f32, moment.data());
    add("ema", "gain", Shape({5}), DType::bf16, half.data());
    return slices;
  }

  std::vector<float> weight, moment;
  std::vector<uint16_t> half;
};

inline CheckpointExtras toy_extras(int64_t step) {
  return {"confighash", "[train]\nsteps = 3\n", 8 * step, "{\"guard\":{\"mean\":0.1}}", ""};
}

/// Reads the whole state back in two uneven parts per tensor.
inline ToyState read_toy(const CheckpointReader& reader) {
  ToyState state(0);
  reader.read("parameter/h.0.weight", 0, 33, DType::f32, state.weight.data());
  reader.read("parameter/h.0.weight", 33, 44, DType::f32, state.weight.data() + 33);
  reader.read("adam_m/h.0.weight", 0, 77, DType::f32, state.moment.data());
  reader.read("ema/gain", 0, 5, DType::bf16, state.half.data());
  return state;
}

/// Saves steps in the foreground with `ranks` ranks, as one job.
inline void save_steps(const std::filesystem::path& run_path, int ranks, const std::vector<int64_t>& steps,
                       CheckpointOptions options = {{1000, 0}, SaveErrorPolicy::stop, false}) {
  run_ranks(ranks, [&](Communicator& group) {
    const RunDirectory run = RunDirectory::acquire(group, run_path);
    CheckpointWriter writer(group, run, options);
    for (const int64_t step : steps) {
      ToyState state(step);
      writer.begin(step, state.slices(group.rank(), group.size()), toy_extras(step));
      writer.finish();
    }
  });
}

/// The choice of a job with one rank.
inline ResumeChoice resume(const std::filesystem::path& run_path, const std::string& request = "auto") {
  const auto group = make_single_communicator();
  const RunDirectory run = RunDirectory::acquire(*group, run_path);
  return choose_checkpoint(*group, run, request);
}

/// Its step; -1 for a start at 0.
inline int64_t resumed_step(const std::filesystem::path& run_path, const std::string& request = "auto") {
  const ResumeChoice choice = resume(run_path, request);
  return choice.checkpoint ? choice.checkpoint->manifest().step : -1;
}

inline std::string error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace longhaul::testing
