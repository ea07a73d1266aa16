#include "core/io/checksum.h"

#include <gtest/gtest.h>

#include <set>

#include "core/io/file.h"
#include "tests/core/io/temporary_directory.h"

namespace longhaul {
namespace {

using testing::TemporaryDirectory;

std::string hex_of(const std::string& text) {
  Checksum checksum;
  checksum.update(text);
  return checksum.hex();
}

TEST(Checksum, MatchesThePublishedValueOfTheEmptyInput) {
  EXPECT_EQ(Checksum().hex(), "99aa06d3014798d86001c324468d497f");  // XXH3_128bits of nothing, seed 0
}

TEST(Checksum, PiecesGiveTheSameAsTheWhole) {
  const std::string text(100'003, 'q');
  Checksum pieces;
  for (size_t begin = 0; begin < text.size(); begin += 997) pieces.update(text.substr(begin, 997));
  EXPECT_EQ(pieces.hex(), hex_of(text));
}

TEST(Checksum, EveryFlippedBitChangesIt) {
  const std::string text = "parameter/wte.weight";
  std::set<std::string> seen{hex_of(text)};
  for (size_t bit = 0; bit < 8 * text.size(); ++bit) {
    std::string flipped = text;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
    EXPECT_TRUE(seen.insert(hex_of(flipped)).second) << bit;
  }
}

TEST(Checksum, DigestOfAFileIsItsSizeAndContent) {
  TemporaryDirectory directory;
  const std::string text(3'000'001, 'z');  // more than one read buffer, odd
  write_file_durably(directory / "a", text);
  const FileDigest digest = digest_file(directory / "a");
  EXPECT_EQ(digest.bytes, 3'000'001);
  EXPECT_EQ(digest.checksum, hex_of(text));
}

}  // namespace
}  // namespace longhaul
