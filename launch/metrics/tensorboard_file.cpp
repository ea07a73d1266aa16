#include "launch/metrics/tensorboard_file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <chrono>

#include "launch/metrics/event.pb.h"

namespace longhaul {
namespace {

constexpr std::array<uint32_t, 256> make_crc_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t value = byte;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1u) != 0 ? 0x82F63B78u : 0u);
    table[byte] = value;
  }
  return table;
}

constexpr std::array<uint32_t, 256> kCrcTable = make_crc_table();

std::string little_endian(uint64_t value, int bytes) {
  std::string result;
  for (int i = 0; i < bytes; ++i) result += static_cast<char>((value >> (8 * i)) & 0xFF);
  return result;
}

std::string masked_crc(std::string_view bytes) {
  const uint32_t crc = crc32c(bytes);
  return little_endian(((crc >> 15) | (crc << 17)) + 0xA282EAD8u, 4);
}

double wall_time() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string event_file_name() {
  std::array<char, 256> host{};
  if (gethostname(host.data(), host.size() - 1) != 0) host[0] = '\0';
  return fmt::format("events.out.tfevents.{:.6f}.{}.{}", wall_time(), host.data(), getpid());
}

File create_in(const std::filesystem::path& directory) {
  create_directories_durably(directory);
  return File::create(directory / event_file_name());
}

}  // namespace

uint32_t crc32c(std::string_view bytes) {
  uint32_t value = 0xFFFFFFFFu;
  for (const char byte : bytes) value = kCrcTable[(value ^ static_cast<unsigned char>(byte)) & 0xFF] ^ (value >> 8);
  return ~value;
}

std::string tfrecord(std::string_view bytes) {
  const std::string length = little_endian(bytes.size(), 8);
  return length + masked_crc(length) + std::string(bytes) + masked_crc(bytes);
}

TensorboardFile::TensorboardFile(const std::filesystem::path& directory, int64_t first_step)
    : file_(create_in(directory)) {
  events::Event version;
  version.set_wall_time(wall_time());
  version.set_file_version("brain.Event:2");
  events::Event start;
  start.set_wall_time(wall_time());
  start.set_step(first_step);
  start.mutable_session_log()->set_status(events::SessionLog::START);
  file_.write(tfrecord(version.SerializeAsString()) + tfrecord(start.SerializeAsString()));
}

void TensorboardFile::write(int64_t step, const std::vector<std::pair<std::string, double>>& scalars) {
  events::Event event;
  event.set_wall_time(wall_time());
  event.set_step(step);
  for (const auto& [tag, value] : scalars) {
    events::Summary::Value* item = event.mutable_summary()->add_value();
    item->set_tag(tag);
    item->set_simple_value(static_cast<float>(value));
  }
  file_.write(tfrecord(event.SerializeAsString()));
}

}  // namespace longhaul
