#include "launch/metrics/tensorboard_file.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstring>

#include "launch/metrics/event.pb.h"

namespace longhaul {
namespace {

class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    char name[] = "/tmp/longhaul_events_XXXXXX";
    path_ = mkdtemp(name);
  }
  ~TemporaryDirectory() { std::filesystem::remove_all(path_); }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

uint64_t number_at(const std::string& bytes, size_t at, int count) {
  uint64_t value = 0;
  for (int i = 0; i < count; ++i)
    value |= static_cast<uint64_t>(static_cast<unsigned char>(bytes.at(at + i))) << (8 * i);
  return value;
}

uint32_t unmasked(uint32_t masked) {
  const uint32_t rotated = masked - 0xA282EAD8u;
  return (rotated >> 17) | (rotated << 15);
}

/// The events of a file, every checksum checked: what TensorBoard does.
std::vector<events::Event> read_events(const std::filesystem::path& path) {
  const std::string bytes = read_file(path);
  std::vector<events::Event> result;
  size_t at = 0;
  while (at < bytes.size()) {
    const uint64_t length = number_at(bytes, at, 8);
    EXPECT_EQ(unmasked(static_cast<uint32_t>(number_at(bytes, at + 8, 4))), crc32c(bytes.substr(at, 8)));
    const std::string data = bytes.substr(at + 12, length);
    EXPECT_EQ(unmasked(static_cast<uint32_t>(number_at(bytes, at + 12 + length, 4))), crc32c(data));
    events::Event event;
    EXPECT_TRUE(event.ParseFromString(data));
    result.push_back(event);
    at += 16 + length;
  }
  return result;
}

TEST(Crc32c, KnownValues) {
  EXPECT_EQ(crc32c("123456789"), 0xE3069283u);  // RFC 3720's check value
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AAu);
  EXPECT_EQ(crc32c(""), 0u);
}

TEST(TensorboardFile, WritesVersionSessionStartAndScalars) {
  const TemporaryDirectory directory;
  std::filesystem::path path;
  {
    TensorboardFile file(directory.path() / "tensorboard", 41);
    file.write(41, {{"train/loss", 2.5}, {"train/gradient_norm", 0.125}});
    file.write(42, {{"train/loss", 2.25}});
    path = file.path();
  }
  const auto events = read_events(path);
  ASSERT_EQ(events.size(), 4u);
  EXPECT_EQ(events[0].file_version(), "brain.Event:2");
  EXPECT_EQ(events[1].session_log().status(), events::SessionLog::START);
  EXPECT_EQ(events[1].step(), 41);
  ASSERT_EQ(events[2].summary().value_size(), 2);
  EXPECT_EQ(events[2].summary().value(1).tag(), "train/gradient_norm");
  EXPECT_EQ(events[2].summary().value(1).simple_value(), 0.125f);
  EXPECT_EQ(events[3].step(), 42);
  EXPECT_NE(path.filename().string().find("tfevents"), std::string::npos);
}

TEST(TensorboardFile, FieldNumbersAreTensorflows) {
  events::Event event;
  event.set_step(3);
  event.mutable_summary()->add_value()->set_tag("a");
  // field 2 varint 3; field 5 of 5 bytes: field 1 of 3 bytes: field 1 "a"
  EXPECT_EQ(event.SerializeAsString(), std::string("\x10\x03\x2A\x05\x0A\x03\x0A\x01"
                                                   "a",
                                                   9));
}

}  // namespace
}  // namespace longhaul
