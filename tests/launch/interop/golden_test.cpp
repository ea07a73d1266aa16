// Tensors made by PyTorch and transformers (tests/oracle/make_golden.py): import, logits, loss, gradients and the
// decisions of entropy gates without PyTorch.
#include <gtest/gtest.h>

#include <cmath>

#include "launch/interop/huggingface.h"
#include "tests/support/source_tree.h"

namespace longhaul {
namespace {

const std::filesystem::path kGolden = source_root() / "tests/oracle/golden";

class Golden : public ::testing::TestWithParam<std::string> {
 protected:
  std::filesystem::path directory_ = kGolden / GetParam();
  SafetensorsFile expected_ = SafetensorsFile::open(directory_ / "expected.safetensors");

  /// One row of packed documents; every token predicts the next one of its document.
  Batch batch() const {
    std::vector<int32_t> ids = expected_.read("ids").to_vector<int32_t>(), targets, starts;
    for (int32_t length : expected_.read("lengths").to_vector<int32_t>()) {
      const auto start = static_cast<int32_t>(starts.size());
      for (int32_t i = 0; i < length; ++i) {
        targets.push_back(i + 1 < length ? ids[static_cast<size_t>(start + i + 1)] : -1);
        starts.push_back(start);
      }
    }
    const auto length = static_cast<int64_t>(ids.size());
    return make_batch(1, length, ids, targets, starts, {0});
  }

  /// Largest difference, relative to the largest expected magnitude.
  static double difference(const Tensor& found, const Tensor& expected) {
    EXPECT_EQ(found.shape(), expected.shape());
    double largest = 0, scale = 0;
    const Tensor a = found.to(DType::f32), b = expected.to(DType::f32);
    for (int64_t i = 0; i < a.count(); ++i) {
      largest = std::max(largest, std::abs(static_cast<double>(a.data<float>()[i]) - b.data<float>()[i]));
      scale = std::max(scale, std::abs(static_cast<double>(b.data<float>()[i])));
    }
    return largest / scale;
  }

  void compare(DType dtype, double tolerance) const {
    const auto model = import_huggingface(directory_, dtype);
    const Batch row = batch();
    model->parameters().bind_gradients(model->parameters().make_flat_buffer(dtype));
    Tape tape;
    GateRecord gates;
    ForwardContext context{.tape = tape, .batch = row, .gates = &gates};
    const Tensor logits = model->logits(model->hidden(context).value());
    const LossSums loss = model->loss(context);
    tape.backward(loss.objective, 1.0 / static_cast<double>(loss.valid_targets));
    model->parameters().zero_absent_gradients();

    EXPECT_LT(difference(logits, expected_.read("logits")), tolerance);
    const double cross_entropy = expected_.read("cross_entropy").item<double>();
    EXPECT_NEAR(loss.cross_entropy, cross_entropy, tolerance * cross_entropy);
    int64_t compared = 0;
    for (const NamedTensor& gradient : huggingface_gradients(*model)) {
      EXPECT_LT(difference(gradient.tensor, expected_.read("gradient." + gradient.name)), tolerance) << gradient.name;
      ++compared;
    }
    for (size_t i = 0; i < gates.blocks.size(); ++i) compare_gate(gates.blocks[i], std::to_string(i), tolerance);
    const auto described = compared + 2 * static_cast<int64_t>(gates.blocks.size());
    EXPECT_EQ(described + 4, static_cast<int64_t>(expected_.entries().size()));  // ids, lengths, logits, cross_entropy
  }

  /// Entropies to rounding, every decision exactly.
  void compare_gate(const GateRecord::Block& gate, const std::string& block, double tolerance) const {
    EXPECT_LT(difference(gate.entropies, expected_.read("entropy." + block)), tolerance);
    const std::vector<int32_t> expected = expected_.read("fired." + block).to_vector<int32_t>();
    std::vector<int32_t> fired;
    for (float entropy : gate.entropies.span<float>()) fired.push_back(entropy > gate.threshold ? 1 : 0);
    EXPECT_EQ(fired, expected) << "block " << block;
    EXPECT_GT(std::count(expected.begin(), expected.end(), 1), 0);
    EXPECT_GT(std::count(expected.begin(), expected.end(), 0), 0);
  }
};
INSTANTIATE_TEST_SUITE_P(Models, Golden,
                         ::testing::Values("gpt2", "llama", "llama-gqa-tied", "mamba2", "mamba2-mlp", "gdn",
                                           "serial-gdn", "fused-mamba2", "fused-gdn", "amor-mamba2-classic",
                                           "amor-gdn-h"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

// The expected values are stored in single precision, and transformers keeps rotary angles in it.
TEST_P(Golden, DoublePrecisionAgreesWithPyTorch) { compare(DType::f64, 2e-6); }
TEST_P(Golden, SinglePrecisionAgreesWithPyTorch) { compare(DType::f32, 1e-5); }

}  // namespace
}  // namespace longhaul
