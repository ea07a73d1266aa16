// Mutants of small shards (reliability.md, R4): each is refused with its name and a reason, or its tokens are the true
// ones.
#include <gtest/gtest.h>

#include <cstring>

#include "data/shards/dataset.h"
#include "tests/data/data_test_support.h"

namespace longhaul {
namespace {

class Dice {
 public:
  explicit Dice(uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15ull + 1) {}
  size_t below(size_t bound) {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return static_cast<size_t>(state_ % bound);
  }

 private:
  uint64_t state_;
};

std::string mutate(std::string content, const std::string& other, Dice& dice) {
  switch (dice.below(7)) {
    case 0:  // bits
      for (size_t i = 0; i <= dice.below(4); ++i)
        content[dice.below(content.size())] ^= static_cast<char>(1 << dice.below(8));
      break;
    case 1:  // cut
      content.resize(dice.below(content.size()));
      break;
    case 2:  // grown
      content.append(1 + dice.below(5000), static_cast<char>(dice.below(256)));
      break;
    case 3: {  // splice of another shard
      const size_t at = dice.below(std::min(content.size(), other.size()));
      content = content.substr(0, at) + other.substr(at);
      break;
    }
    case 4: {  // header edit: superblock, object headers
      const size_t at = dice.below(std::min<size_t>(content.size(), 800));
      content[at] = static_cast<char>(dice.below(256));
      break;
    }
    case 5: {  // huge number somewhere
      const size_t at = dice.below(content.size() - 8);
      std::memset(content.data() + at, dice.below(2) == 0 ? 0xFF : 0x7F, 8);
      break;
    }
    default:
      content.clear();
  }
  return content;
}

struct Seed {
  std::string content;
  std::vector<int32_t> ids;
};

TEST(ShardFuzz, SixHundredMutantsAreRefusedOrEqual) {
  constexpr int64_t kSeeds = 20, kMutants = 600;
  const TemporaryDirectory directory;
  std::vector<Seed> seeds;
  for (int64_t i = 0; i < kSeeds; ++i) {
    const auto documents = numbered_documents(3 + i * 7, 3 + i * 2);
    const fs::path set = directory / fmt::format("set{}", i);
    write_dataset(set, documents, ByteTokenizer(), int64_t{1} << 20);
    Seed seed{read_file(set / "train-00000.h5"), {}};
    for (const auto& document : documents) seed.ids.insert(seed.ids.end(), document.begin(), document.end());
    seeds.push_back(seed);
  }
  int64_t refused = 0, equal = 0;
  for (int64_t mutant = 0; mutant < kMutants; ++mutant) {
    Dice dice(static_cast<uint64_t>(mutant) + 1);
    const int64_t which = mutant % kSeeds;
    const Seed& seed = seeds[static_cast<size_t>(which)];
    const fs::path set = directory / fmt::format("set{}", which);
    write_text(set / "train-00000.h5", mutate(seed.content, seeds[dice.below(kSeeds)].content, dice));
    try {
      Dataset dataset(set, ShardVerification::kChecksum, 1);
      std::vector<int32_t> ids(seed.ids.size());
      dataset.shard(0).read(0, ids);
      EXPECT_TRUE(ids == seed.ids) << "mutant " << mutant << " changed tokens silently";
      ++equal;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("train-00000.h5"), std::string::npos) << error.what();
      ++refused;
    }
  }
  RecordProperty("refused", static_cast<int>(refused));
  RecordProperty("equal", static_cast<int>(equal));
  EXPECT_EQ(refused + equal, kMutants);
  EXPECT_GT(refused, kMutants * 9 / 10);
}

}  // namespace
}  // namespace longhaul
