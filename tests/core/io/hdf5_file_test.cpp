#include "core/io/hdf5_file.h"

#include <gmock/gmock.h>
#include <sys/file.h>

#include <array>
#include <functional>
#include <numeric>
#include <thread>

#include "core/io/checksum.h"
#include "core/io/file.h"
#include "kernels/error.h"
#include "tests/core/io/temporary_directory.h"

namespace longhaul {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::TemporaryDirectory;

std::string error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

template <typename T>
void write_vector(Hdf5File& file, const std::string& name, H5Type type, const std::vector<T>& values,
                  int64_t chunk = 0) {
  const std::array<int64_t, 1> extents{static_cast<int64_t>(values.size())};
  file.write(name, type, extents, values.data(), chunk);
}

TEST(Hdf5File, RoundTripsEveryTypeAndRank) {
  TemporaryDirectory directory;
  {
    Hdf5File file = Hdf5File::create(directory / "a.h5");
    write_vector<uint8_t>(file, "u8", H5Type::u8, {0, 255});
    write_vector<uint16_t>(file, "u16", H5Type::u16, {0, 65535, 7}, 2);
    write_vector<uint32_t>(file, "group/u32", H5Type::u32, {4294967295u});
    write_vector<int64_t>(file, "i64", H5Type::i64, {INT64_MIN, INT64_MAX});
    write_vector<uint16_t>(file, "bf16", H5Type::bf16, {0x3f80});
    const std::array<float, 6> matrix{1, 2, 3, 4, 5, 6};
    const std::array<int64_t, 2> extents{2, 3};
    file.write("deep/er/matrix", H5Type::f32, extents, matrix.data());
    const double scalar = 2.5;
    file.write("scalar", H5Type::f64, {}, &scalar);
    write_vector<float>(file, "empty", H5Type::f32, {}, 16);
    file.close();
  }
  const Hdf5File file = Hdf5File::open_read(directory / "a.h5");
  EXPECT_THAT(file.dataset_names(),
              ElementsAre("bf16", "deep/er/matrix", "empty", "group/u32", "i64", "scalar", "u16", "u8"));
  EXPECT_THAT(file.extents("deep/er/matrix"), ElementsAre(2, 3));
  EXPECT_THAT(file.extents("empty"), ElementsAre(0));
  EXPECT_EQ(file.type("bf16"), H5Type::bf16);
  EXPECT_EQ(file.type("u16"), H5Type::u16);
  std::array<float, 6> matrix{};
  file.read("deep/er/matrix", H5Type::f32, matrix.data());
  EXPECT_THAT(matrix, ElementsAre(1, 2, 3, 4, 5, 6));
  double scalar = 0;
  file.read("scalar", H5Type::f64, &scalar);
  EXPECT_EQ(scalar, 2.5);
  std::array<int64_t, 2> wide{};
  file.read_range("u16", H5Type::i64, 1, 2, wide.data());  // widened exactly
  EXPECT_THAT(wide, ElementsAre(65535, 7));
  EXPECT_TRUE(file.contains("deep/er/matrix"));
  EXPECT_FALSE(file.contains("deep/missing/matrix"));
}

TEST(Hdf5File, RefusesConversionsThatLoseValues) {
  TemporaryDirectory directory;
  Hdf5File writing = Hdf5File::create(directory / "a.h5");
  write_vector<uint32_t>(writing, "ids", H5Type::u32, {65536});
  writing.close();
  const Hdf5File file = Hdf5File::open_read(directory / "a.h5");
  uint16_t id = 0;
  EXPECT_THAT(error_of([&] { file.read("ids", H5Type::u16, &id); }),
              HasSubstr("holds u32, which u16 cannot represent"));
  EXPECT_THAT(error_of([&] { file.read("ids", H5Type::i32, &id); }), HasSubstr("cannot represent"));
  EXPECT_THAT(error_of([&] { file.read("ids", H5Type::f64, &id); }), HasSubstr("cannot represent"));
}

TEST(Hdf5File, GrowingDatasetHoldsAllAppendedElements) {
  TemporaryDirectory directory;
  Hdf5File writing = Hdf5File::create(directory / "a.h5");
  writing.create_growing("tokens", H5Type::u16, 4);
  std::vector<uint16_t> expected;
  for (uint16_t length : {3, 0, 5, 1, 9}) {
    std::vector<uint16_t> piece(length);
    std::iota(piece.begin(), piece.end(), static_cast<uint16_t>(expected.size()));
    writing.append("tokens", H5Type::u16, piece.data(), length);
    expected.insert(expected.end(), piece.begin(), piece.end());
  }
  writing.close();
  const Hdf5File file = Hdf5File::open_read(directory / "a.h5");
  std::vector<uint16_t> found(expected.size());
  ASSERT_THAT(file.extents("tokens"), ElementsAre(static_cast<int64_t>(expected.size())));
  file.read("tokens", H5Type::u16, found.data());
  EXPECT_EQ(found, expected);
}

TEST(Hdf5File, AttributesKeepTextAndIntegers) {
  TemporaryDirectory directory;
  Hdf5File writing = Hdf5File::create(directory / "a.h5");
  write_vector<float>(writing, "x", H5Type::f32, {1});
  writing.set_attribute("/", "tokenizer", std::string("gpt2 \xc3\xa9"));
  writing.set_attribute("/", "empty", std::string());
  writing.set_attribute("x", "vocabulary", int64_t{128256});
  writing.set_attribute("x", "vocabulary", int64_t{3'000'000'000});  // replaces
  writing.close();
  const Hdf5File file = Hdf5File::open_read(directory / "a.h5");
  EXPECT_EQ(file.text_attribute("/", "tokenizer"), "gpt2 \xc3\xa9");
  EXPECT_EQ(file.text_attribute("/", "empty"), "");
  EXPECT_EQ(file.int_attribute("x", "vocabulary"), 3'000'000'000);
  EXPECT_FALSE(file.has_attribute("/", "vocabulary"));
  EXPECT_THAT(error_of([&] { file.text_attribute("x", "vocabulary"); }), HasSubstr("'vocabulary'"));
  EXPECT_THAT(error_of([&] { file.int_attribute("/", "tokenizer"); }), HasSubstr("'tokenizer'"));
}

TEST(Hdf5File, EqualContentMeansEqualBytes) {
  TemporaryDirectory directory;
  for (const char* name : {"a.h5", "b.h5"}) {
    Hdf5File file = Hdf5File::create(directory / name);
    write_vector<float>(file, "group/x", H5Type::f32, {1, 2, 3}, 2);
    file.set_attribute("group/x", "key", int64_t{4});
    file.close();
  }
  EXPECT_EQ(digest_file(directory / "a.h5"), digest_file(directory / "b.h5"));
}

TEST(Hdf5File, ErrorsNameFileDatasetCallAndReason) {
  TemporaryDirectory directory;
  EXPECT_THAT(error_of([&] { Hdf5File::open_read(directory / "missing.h5"); }),
              HasSubstr("missing.h5: open failed: No such file or directory"));
  write_file_durably(directory / "text.h5", "this is a text, not HDF5");
  const std::string foreign = error_of([&] { Hdf5File::open_read(directory / "text.h5"); });
  EXPECT_THAT(foreign, HasSubstr("text.h5: H5Fopen failed"));
  EXPECT_THAT(foreign, HasSubstr("signature"));
  Hdf5File file = Hdf5File::create(directory / "a.h5");
  write_vector<float>(file, "x", H5Type::f32, {1, 2});
  float value = 0;
  EXPECT_THAT(error_of([&] { file.read("y", H5Type::f32, &value); }), HasSubstr("dataset 'y': H5Dopen failed"));
  EXPECT_THAT(error_of([&] { file.read_range("x", H5Type::f32, 1, 2, &value); }),
              HasSubstr("[1, 3) asked for, it has 2"));
  EXPECT_THAT(error_of([&] { write_vector<float>(file, "x", H5Type::f32, {3}); }), HasSubstr("H5Dcreate failed"));
  EXPECT_THAT(error_of([&] { Hdf5File::create(directory / "no/such/a.h5"); }), HasSubstr("H5Fcreate failed"));
}

TEST(Hdf5File, TruncatedFilesAreRefused) {
  TemporaryDirectory directory;
  Hdf5File writing = Hdf5File::create(directory / "a.h5");
  write_vector<float>(writing, "x", H5Type::f32, std::vector<float>(5000, 1.0f));
  writing.close();
  const auto whole = static_cast<int64_t>(fs::file_size(directory / "a.h5"));
  for (const int64_t bytes : {int64_t{0}, int64_t{96}, int64_t{2048}, whole - 1}) {
    fs::resize_file(directory / "a.h5", static_cast<uintmax_t>(bytes));
    EXPECT_THAT(error_of([&] { Hdf5File::open_read(directory / "a.h5"); }), HasSubstr("H5Fopen failed")) << bytes;
  }
}

TEST(Hdf5File, FileThatIsBeingWrittenIsRefused) {
  TemporaryDirectory directory;
  Hdf5File writing = Hdf5File::create(directory / "a.h5");
  writing.close();
  File other = File::open_read(directory / "a.h5");
  ASSERT_EQ(flock(other.descriptor(), LOCK_EX), 0);  // as another program's HDF5 does
  EXPECT_THAT(error_of([&] { Hdf5File::open_read(directory / "a.h5"); }), HasSubstr("another process is writing"));
}

TEST(Hdf5File, ReadOnlyDirectoryIsEnoughForReading) {
  TemporaryDirectory directory;
  Hdf5File writing = Hdf5File::create(directory / "a.h5");
  write_vector<float>(writing, "x", H5Type::f32, {1.5f});
  writing.close();
  fs::permissions(directory / "a.h5", fs::perms::owner_read);
  fs::permissions(directory.path(), fs::perms::owner_read | fs::perms::owner_exec);
  float value = 0;
  Hdf5File::open_read(directory / "a.h5").read("x", H5Type::f32, &value);
  EXPECT_EQ(value, 1.5f);
}

TEST(Hdf5File, WriterAndReaderThreadsWorkSideBySide) {
  TemporaryDirectory directory;
  Hdf5File shard = Hdf5File::create(directory / "shard.h5");
  write_vector<float>(shard, "x", H5Type::f32, std::vector<float>(1000, 3.0f));
  shard.close();
  std::thread writer([&] {
    Hdf5File file = Hdf5File::create(directory / "checkpoint.h5");
    for (int piece = 0; piece < 20; ++piece) {
      write_vector<float>(file, "piece" + std::to_string(piece), H5Type::f32, std::vector<float>(300'000, 1.0f));
    }
    file.close();
  });
  for (int round = 0; round < 50; ++round) {
    std::vector<float> values(1000);
    Hdf5File::open_read(directory / "shard.h5").read("x", H5Type::f32, values.data());
    ASSERT_EQ(values[999], 3.0f);
    EXPECT_THAT(error_of([&] { Hdf5File::open_read(directory / "missing.h5"); }), HasSubstr("missing"));
  }
  writer.join();
  EXPECT_EQ(Hdf5File::open_read(directory / "checkpoint.h5").dataset_names().size(), 20u);
}

TEST(Hdf5File, VersionsAreThreeNumbers) {
  EXPECT_THAT(hdf5_version_compiled(), ::testing::MatchesRegex("[0-9]+\\.[0-9]+\\.[0-9]+"));
  EXPECT_EQ(hdf5_version_loaded(), hdf5_version_compiled());
}

}  // namespace
}  // namespace longhaul
