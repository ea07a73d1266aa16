#include "launch/router_file.h"

#include <gtest/gtest.h>

#include "core/io/file.h"
#include "tests/core/error_check.h"
#include "tests/core/io/temporary_directory.h"

namespace longhaul {
namespace {

RouterSet two_routers() {
  RouterSet set{{GateRouter(3, 2), GateRouter(3, 2)}, "raw"};
  for (size_t gate = 0; gate < 2; ++gate) {
    const std::span<float> values = set.routers[gate].flat().span<float>();
    for (size_t i = 0; i < values.size(); ++i) values[i] = 0.1f * static_cast<float>(i) - static_cast<float>(gate);
  }
  return set;
}

class RouterFile : public ::testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directory(checkpoint_);
    write_file_durably(checkpoint_ / "manifest.json", "{}");
    write_routers(checkpoint_, two_routers());
  }
  std::string refusal(const std::string& weights = "raw") const {
    try {
      read_routers(checkpoint_, weights);
    } catch (const Error& error) {
      EXPECT_EQ(error.fault(), Fault::kUser);
      return error.what();
    }
    return "";
  }
  testing::TemporaryDirectory directory_;
  std::filesystem::path checkpoint_ = directory_.path() / "step_00000020";
};

TEST_F(RouterFile, ReadsBackExactlyFromBesideTheCheckpoint) {
  EXPECT_TRUE(std::filesystem::exists(directory_.path() / "step_00000020.router"));
  const RouterSet found = read_routers(checkpoint_.string() + "/", "raw");
  ASSERT_EQ(found.routers.size(), 2u);
  for (size_t gate = 0; gate < 2; ++gate) {
    EXPECT_EQ(found.routers[gate].flat().to_vector<float>(), two_routers().routers[gate].flat().to_vector<float>());
  }
}

TEST_F(RouterFile, OfAnotherCheckpointIsRefused) {
  write_file_durably(checkpoint_ / "manifest.json", "{\"step\": 21}");
  EXPECT_NE(refusal().find("belongs to another checkpoint"), std::string::npos);
}

TEST_F(RouterFile, ForOtherWeightsIsRefused) {
  EXPECT_NE(refusal("ema").find("was fitted to the raw weights, not to the ema ones"), std::string::npos);
}

TEST_F(RouterFile, DamageAndAbsenceAreNamed) {
  const std::filesystem::path path = router_path(checkpoint_);
  std::string bytes = read_file(path);
  bytes.back() ^= 1;
  write_file_durably(path, bytes);
  EXPECT_NE(refusal().find("it is damaged"), std::string::npos);
  bytes.resize(bytes.size() - 4);
  write_file_durably(path, bytes);
  EXPECT_NE(refusal().find(path.string()), std::string::npos);
  std::filesystem::remove(path);
  EXPECT_NE(refusal().find("longhaul fit-router --checkpoint"), std::string::npos);
}

}  // namespace
}  // namespace longhaul
