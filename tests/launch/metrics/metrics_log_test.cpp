#include "launch/metrics/metrics_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <limits>

#include "core/io/file.h"
#include "launch/metrics/progress.h"
#include "launch/metrics/throughput.h"

namespace longhaul {
namespace {

using testing::HasSubstr;

class MetricsLogTest : public testing::Test {
 protected:
  MetricsLogTest() {
    char name[] = "/tmp/longhaul_metrics_XXXXXX";
    directory_ = mkdtemp(name);
  }
  ~MetricsLogTest() override { std::filesystem::remove_all(directory_); }
  std::string lines() const { return read_file(directory_ / MetricsLog::kFileName); }

  std::filesystem::path directory_;
  MetricsConfig config_;
};

TEST_F(MetricsLogTest, OneJsonObjectPerLine) {
  config_.tensorboard = false;
  MetricsLog log(directory_, config_, 0);
  log.write({"train", 1, {{"loss", 2.5}, {"tokens", int64_t{64}}, {"decision", std::string("applied")}}});
  log.write({"train", 2, {{"loss", std::numeric_limits<double>::quiet_NaN()}}});
  EXPECT_EQ(lines(),
            "{\"kind\":\"train\",\"step\":1,\"loss\":2.5,\"tokens\":64,\"decision\":\"applied\"}\n"
            "{\"kind\":\"train\",\"step\":2,\"loss\":null}\n");
  EXPECT_FALSE(std::filesystem::exists(directory_ / MetricsLog::kTensorboardDirectory));
}

TEST_F(MetricsLogTest, AResumedRunHoldsEveryStepOnce) {
  write_file_durably(directory_ / MetricsLog::kFileName,
                     "{\"kind\":\"train\",\"step\":10}\n{\"kind\":\"train\",\"step\":11}\n{\"kind\":\"tra");
  MetricsLog log(directory_, config_, 10);
  log.write({"train", 11, {}});
  EXPECT_EQ(lines(), "{\"kind\":\"train\",\"step\":10}\n{\"kind\":\"train\",\"step\":11}\n");
}

TEST_F(MetricsLogTest, FailuresWarnAndNeverThrow) {
  testing::internal::CaptureStderr();
  MetricsLog log(directory_ / "missing", config_, 0);  // neither file can be made... the event directory can
  log.write({"train", 1, {{"loss", 1.0}}});
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("warning: metrics not written, training goes on"));
  EXPECT_GE(log.failed_writes(), 1);
}

TEST_F(MetricsLogTest, SettingsTurnTheFilesOff) {
  config_.jsonl = false;
  MetricsLog log(directory_, config_, 0);
  log.write({"train", 1, {{"loss", 1.0}}});
  EXPECT_FALSE(std::filesystem::exists(directory_ / MetricsLog::kFileName));
  EXPECT_TRUE(std::filesystem::exists(directory_ / MetricsLog::kTensorboardDirectory));
}

TEST(Progress, ShowsShareAndTimeLeft) {
  EXPECT_EQ(progress_bar("verify", 1, 4, 10), "verify [#####...............]  25 %  0:30 left");
  EXPECT_EQ(progress_bar("verify", 4, 4, 10), "verify [####################] 100 %  0:00 left");
  EXPECT_EQ(duration_text(3723), "1:02:03");
  EXPECT_EQ(duration_text(2 * 86400 + 61), "2 d 0:01:01");
}

TEST(Throughput, AveragesTheLastTwentySteps) {
  Throughput throughput(100, 6e3, 1e6);
  EXPECT_EQ(throughput.tokens_per_second(), 0);
  throughput.add_step(1000);
  for (int i = 0; i < 20; ++i) throughput.add_step(2);
  EXPECT_DOUBLE_EQ(throughput.seconds_per_step(), 2);
  EXPECT_DOUBLE_EQ(throughput.tokens_per_second(), 50);
  EXPECT_DOUBLE_EQ(throughput.utilisation(), 0.3);
}

}  // namespace
}  // namespace longhaul
