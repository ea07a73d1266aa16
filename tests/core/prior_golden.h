// Results that PyTorch made in double of inputs from a counter (tests/oracle/make_prior_golden.py), and how they are
// compared.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "core/io/safetensors.h"
#include "tests/support/source_tree.h"

namespace longhaul::testing {

/// Element `index` of stream `stream`: a multiple of 2^-19 in [-1, 1).
inline double counted(uint64_t stream, int64_t index) {
  uint64_t x = (static_cast<uint64_t>(index) + (stream << 32) + 1) * 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  x = (x ^ (x >> 31)) >> 44;
  return static_cast<double>(x) / 524288.0 - 1;
}

inline Tensor counted(Shape shape, uint64_t stream, DType dtype, double scale = 1) {
  const Tensor values = Tensor::empty(shape, DType::f64);
  for (int64_t i = 0; i < values.count(); ++i) values.data<double>()[i] = scale * counted(stream, i);
  return values.to(dtype);
}

/// One file of results, for a computation in `dtype`: 1e-9 of the largest magnitude in double, 1e-5 in single
/// precision.
class PriorGolden {
 public:
  PriorGolden(const std::string& name, DType dtype)
      : file_(SafetensorsFile::open(source_root() / "tests/oracle/golden/length-prior" / (name + ".safetensors"))),
        tolerance_(dtype == DType::f64 ? 1e-9 : 1e-5) {}

  Tensor read(const std::string& name) const { return file_.read(name); }
  int64_t stored() const { return static_cast<int64_t>(file_.entries().size()); }
  int64_t compared() const { return compared_; }  ///< calls of compare()

  /// Against the whole tensor, or samples of it and weighted sums over it, as they are stored.
  void compare(const std::string& name, const Tensor& tensor) {
    SCOPED_TRACE(name);
    ASSERT_TRUE(tensor.defined());
    const std::vector<double> found = tensor.to(DType::f64).to_vector<double>();
    const std::vector<double> expected = file_.read(name).to_vector<double>();
    ++compared_;
    if (static_cast<int64_t>(found.size()) > kWhole)
      compare_summary(found, expected);
    else
      compare_whole(found, expected);
  }

 private:
  static constexpr int64_t kWhole = 256, kSamples = 64, kSums = 4;

  void compare_whole(const std::vector<double>& found, const std::vector<double>& expected) const {
    ASSERT_EQ(found.size(), expected.size());
    double largest = 0;
    for (double value : expected) largest = std::max(largest, std::abs(value));
    for (size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], expected[i], tolerance_ * largest) << i;
  }

  void compare_summary(const std::vector<double>& found, const std::vector<double>& expected) const {
    ASSERT_EQ(static_cast<int64_t>(expected.size()), kSamples + kSums + 1);
    const auto count = static_cast<int64_t>(found.size());
    const double limit = tolerance_ * expected.back();
    for (int64_t i = 0; i < kSamples; ++i)
      ASSERT_NEAR(found[static_cast<size_t>(i * count / kSamples)], expected[static_cast<size_t>(i)], limit) << i;
    for (int64_t s = 0; s < kSums; ++s) {
      double sum = 0;
      for (int64_t i = 0; i < count; ++i)
        sum += found[static_cast<size_t>(i)] * counted(900 + static_cast<uint64_t>(s), i);
      ASSERT_NEAR(sum, expected[static_cast<size_t>(kSamples + s)], limit * std::sqrt(static_cast<double>(count))) << s;
    }
  }

  SafetensorsFile file_;
  double tolerance_;
  int64_t compared_ = 0;
};

/// The two types such a test runs in, by name.
inline std::string type_name(const ::testing::TestParamInfo<DType>& info) { return std::string(name_of(info.param)); }

}  // namespace longhaul::testing
