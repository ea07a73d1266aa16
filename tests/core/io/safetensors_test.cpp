#include "core/io/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <fstream>

namespace longhaul {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class Safetensors : public ::testing::Test {
 protected:
  fs::path directory_ = fs::temp_directory_path() / ("longhaul-safetensors-" + std::to_string(getpid()));
  fs::path path_ = directory_ / "file.safetensors";
  void SetUp() override { fs::create_directories(directory_); }
  void TearDown() override { fs::remove_all(directory_); }

  /// A file with this header (its length in front) and so many bytes of data.
  void write_raw(const std::string& header, const std::string& data, int64_t stated_length = -1) const {
    std::ofstream out(path_, std::ios::binary);
    const uint64_t length = stated_length >= 0 ? static_cast<uint64_t>(stated_length) : header.size();
    out.write(reinterpret_cast<const char*>(&length), 8);
    out << header << data;
  }
  std::string complaint() const {
    try {
      SafetensorsFile::open(path_);
    } catch (const Error& error) {
      EXPECT_EQ(error.fault(), Fault::kUser) << error.what();
      EXPECT_THAT(error.what(), HasSubstr(path_.string()));
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
      return error.what();
    }
    return "no error";
  }
};

TEST_F(Safetensors, RoundTripKeepsEveryTypeShapeAndMetadata) {
  std::vector<NamedTensor> tensors = {{"b", Tensor::from<float>({2, 3}, {1, -2, 3, 4, 5, 6.5f})},
                                      {"a", Tensor::from<double>({1}, {0.1})},
                                      {"scalar", Tensor::from<float>(Shape{}, {7})},
                                      {"empty", Tensor::empty({0, 4}, DType::f32)},
                                      {"ids", Tensor::from<int32_t>({2}, {-1, 50256})},
                                      {"long", Tensor::from<int64_t>({1}, {int64_t{1} << 40})},
                                      {"half", Tensor::from<bf16>({2}, {bf16(1.5f), bf16(-3.0f)})}};
  write_safetensors(path_, tensors, {{"format", "pt"}, {"note", "caf\xC3\xA9"}});

  const SafetensorsFile file = SafetensorsFile::open(path_);

  EXPECT_EQ(file.entries().size(), tensors.size());
  EXPECT_EQ(file.metadata().at("note"), "caf\xC3\xA9");
  for (const NamedTensor& entry : tensors) {
    const Tensor found = file.read(entry.name);
    EXPECT_EQ(found.dtype(), entry.tensor.dtype()) << entry.name;
    EXPECT_EQ(found.shape(), entry.tensor.shape()) << entry.name;
    EXPECT_EQ(std::string(reinterpret_cast<const char*>(found.raw()), static_cast<size_t>(found.bytes())),
              std::string(reinterpret_cast<const char*>(entry.tensor.raw()), static_cast<size_t>(found.bytes())))
        << entry.name;
  }
  EXPECT_FALSE(fs::exists(path_.string() + ".tmp"));
}

TEST_F(Safetensors, WriterSortsByAlignmentThenNameAndPadsTheHeader) {
  write_safetensors(path_, {{"z", Tensor::from<double>({1}, {1})},
                            {"c", Tensor::from<bf16>({1}, {bf16(1.0f)})},
                            {"b", Tensor::from<float>({1}, {1})},
                            {"a", Tensor::from<float>({1}, {1})}});
  const SafetensorsFile file = SafetensorsFile::open(path_);
  EXPECT_EQ(file.entries().at("z").begin, 0);
  EXPECT_EQ(file.entries().at("a").begin, 8);
  EXPECT_EQ(file.entries().at("b").begin, 12);
  EXPECT_EQ(file.entries().at("c").begin, 16);
  uint64_t header = 0;
  std::ifstream(path_, std::ios::binary).read(reinterpret_cast<char*>(&header), 8);
  EXPECT_EQ(header % 8, 0u);
}

TEST_F(Safetensors, HalfPrecisionIsReadExactly) {
  const uint16_t halves[] = {0x3C00, 0xC100, 0x0001, 0x8000, 0x7BFF, 0x7C00, 0x03FF};
  write_raw(R"({"h":{"dtype":"F16","shape":[7],"data_offsets":[0,14]}})",
            std::string(reinterpret_cast<const char*>(halves), 14));
  const std::vector<float> found = SafetensorsFile::open(path_).read("h").to_vector<float>();
  EXPECT_THAT(found, ::testing::ElementsAre(1.0f, -2.5f, 0x1p-24f, -0.0f, 65504.0f, INFINITY, 1023 * 0x1p-24f));
  EXPECT_TRUE(std::signbit(found[3]));
}

TEST_F(Safetensors, TypesThatCannotBeHeldAreListedButNotRead) {
  write_raw(R"({"mask":{"dtype":"BOOL","shape":[2],"data_offsets":[0,2]}})", "ab");
  const SafetensorsFile file = SafetensorsFile::open(path_);
  EXPECT_TRUE(file.contains("mask"));
  EXPECT_THROW(file.read("mask"), Error);
  EXPECT_THROW(file.read("absent"), Error);
}

TEST_F(Safetensors, EveryTruncationIsRefused) {
  write_safetensors(path_, {{"a", Tensor::from<float>({3}, {1, 2, 3})}});
  const auto size = static_cast<int64_t>(fs::file_size(path_));
  for (int64_t kept = size - 1; kept >= 0; --kept) {
    fs::resize_file(path_, static_cast<uintmax_t>(kept));
    EXPECT_THAT(complaint(), HasSubstr("not a valid safetensors file")) << kept;
  }
}

TEST_F(Safetensors, MalformedHeadersAreRefusedByReason) {
  const std::string four = "abcd";
  const auto expect = [&](const std::string& header, const char* reason, const std::string& data = "abcd") {
    write_raw(header, data);
    EXPECT_THAT(complaint(), HasSubstr(reason)) << header;
  };
  const std::string good = R"("a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]})";
  expect("{" + good + "," + good + "}", "occurs twice");
  expect("[]", "does not begin with '{'");
  expect(" {" + good + "}", "does not begin with '{'");
  expect("{" + good, "syntax error");
  expect("{" + good + "}", "the file holds 5", "abcde");
  expect(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", "a hole", "abcdefgh");
  expect("{" + good + R"(,"b":{"dtype":"F32","shape":[1],"data_offsets":[2,6]}})", "an overlap", "abcdef");
  expect(R"({"a":{"dtype":"F33","shape":[1],"data_offsets":[0,4]}})", "unknown dtype 'F33'");
  expect(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", "needs 8 bytes");
  expect(R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", "not a non-negative integer");
  expect(R"({"a":{"dtype":"F32","shape":[1.0],"data_offsets":[0,4]}})", "not a non-negative integer");
  expect(R"({"a":{"dtype":"F32","shape":1,"data_offsets":[0,4]}})", "shape is not an array");
  expect(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", "end before they begin");
  expect(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0]}})", "not a pair");
  expect(R"({"a":{"dtype":"F32","shape":[1]}})", "expected exactly");
  expect(R"({"a":3})", "expected exactly");
  expect(R"({"a":{"dtype":"F32","shape":[4294967296,4294967296,4],"data_offsets":[0,4]}})", "overflows");
  expect(R"({"a":{"dtype":"F32","shape":[18446744073709551615],"data_offsets":[0,4]}})", "not a non-negative integer");
  expect(R"({"__metadata__":{"k":1},)" + good + "}", "not a string");
  expect(R"({"a":[[[[[[[]]]]]]]})", "nested too deeply");
  expect("{\"\xFF\":{}}", "invalid");
}

TEST_F(Safetensors, HugeStatedHeaderIsRefusedWithoutAllocatingIt) {
  write_raw("{}", "", int64_t{1} << 62);
  EXPECT_THAT(complaint(), HasSubstr("does not fit the file"));
}

TEST_F(Safetensors, FailedWriteLeavesNothingBehind) {
  EXPECT_THROW(write_safetensors(directory_ / "absent" / "x", {{"a", Tensor::from<float>({1}, {1})}}), Error);
  EXPECT_THROW(write_safetensors(path_, {{"a", Tensor::from<float>({1}, {1})}, {"a", Tensor::from<float>({1}, {1})}}),
               Error);
  EXPECT_TRUE(fs::is_empty(directory_));
}

}  // namespace
}  // namespace longhaul
