#include "parallel/replica_check.h"

#include <array>
#include <charconv>
#include <map>
#include <string>
#include <vector>

#include "core/comm/agreement.h"
#include "core/comm/rank_list.h"
#include "core/io/checksum.h"

namespace longhaul {
namespace {

constexpr size_t kHexDigits = 32;

std::string hash_of(const Tensor& values) {
  Checksum checksum;
  checksum.update(std::span<const std::byte>(values.raw(), static_cast<size_t>(values.bytes())));
  return checksum.hex();
}

/// The first 64 bits of the hash of a text, as a number ranks can compare.
int64_t number_of(const std::string& text) {
  Checksum checksum;
  checksum.update(text);
  const std::string hex = checksum.hex();
  uint64_t number = 0;
  std::from_chars(hex.data(), hex.data() + 16, number, 16);
  return static_cast<int64_t>(number);
}

/// Ranks whose hash differs from the one most ranks have; from rank 0's when no hash has a majority.
std::vector<int> deviating(const std::vector<std::string>& hash_by_rank) {
  std::map<std::string, size_t> votes;
  for (const auto& hash : hash_by_rank) ++votes[hash];
  std::string reference = hash_by_rank[0];
  for (const auto& [hash, count] : votes) {
    if (2 * count > hash_by_rank.size()) reference = hash;
  }
  std::vector<int> ranks;
  for (size_t rank = 0; rank < hash_by_rank.size(); ++rank) {
    if (hash_by_rank[rank] != reference) ranks.push_back(static_cast<int>(rank));
  }
  return ranks;
}

}  // namespace

void check_replicas(Communicator& group, const ParameterStore& store) {
  if (group.size() == 1) return;
  std::string hashes;
  for (const Parameter& parameter : store.parameters()) hashes += hash_of(parameter.variable.value());
  const int64_t mine = number_of(hashes);
  std::array<int64_t, 2> extremes{mine, ~mine};  // ~ reverses the order: the maximum of ~x is ~ of the minimum of x
  group.max(extremes);
  if (extremes[0] == ~extremes[1]) return;

  const auto all = group.gather_all(std::as_bytes(std::span(hashes.data(), hashes.size())));
  for (size_t index = 0; index < store.parameters().size(); ++index) {
    std::vector<std::string> by_rank;
    for (const auto& bytes : all) {
      by_rank.emplace_back(reinterpret_cast<const char*>(bytes.data()) + index * kHexDigits, kHexDigits);
    }
    const auto ranks = deviating(by_rank);
    if (ranks.empty()) continue;
    throw AgreedError(Fault::kSystem,
                      fmt::format("replicas of parameter '{}' differ: {} of {} holds other values than the rest; "
                                  "suspect its memory, resume from the last checkpoint",
                                  store.parameters()[index].name, rank_list(ranks), group.size()),
                      ranks[0]);
  }
  throw internal_error("replica hashes differ but no parameter does");
}

}  // namespace longhaul
