#include "core/comm/agreement.h"

#include <array>
#include <cstring>
#include <optional>
#include <set>
#include <vector>

#include "core/comm/rank_list.h"

namespace longhaul {
namespace {

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}
std::string text_of(std::span<const std::byte> bytes) {
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

/// First character of the exchanged text: the fault; nothing at all from a rank without failure.
std::string encode(const Error& error) { return std::to_string(static_cast<int>(error.fault())) + error.what(); }

void append_text(std::string& out, const std::string& text) {
  const int64_t size = static_cast<int64_t>(text.size());
  out.append(reinterpret_cast<const char*>(&size), sizeof size);
  out += text;
}
std::string take_text(std::string_view& in) {
  int64_t size = 0;
  std::memcpy(&size, in.data(), sizeof size);
  std::string text(in.substr(sizeof size, static_cast<size_t>(size)));
  in.remove_prefix(sizeof size + static_cast<size_t>(size));
  return text;
}
std::map<std::string, std::string> decode_map(const std::vector<std::byte>& bytes) {
  const std::string text = text_of(bytes);
  std::string_view rest = text;
  std::map<std::string, std::string> values;
  while (!rest.empty()) {
    std::string key = take_text(rest);
    values[std::move(key)] = take_text(rest);
  }
  return values;
}

/// "'4' on rank 0, '6' on ranks 1, 2, missing on rank 3"
std::string who_has_what(const std::vector<std::map<std::string, std::string>>& by_rank, const std::string& key) {
  std::map<std::optional<std::string>, std::vector<int>> holders;
  std::vector<std::optional<std::string>> order;
  for (size_t rank = 0; rank < by_rank.size(); ++rank) {
    const auto found = by_rank[rank].find(key);
    const std::optional<std::string> value = found == by_rank[rank].end() ? std::nullopt : std::optional(found->second);
    if (!holders.contains(value)) order.push_back(value);
    holders[value].push_back(static_cast<int>(rank));
  }
  std::string text;
  for (const auto& value : order) {
    text += fmt::format("{}{} on {}", text.empty() ? "" : ", ", value ? "'" + *value + "'" : "missing",
                        rank_list(holders[value]));
  }
  return text;
}

}  // namespace

void agree(Communicator& group, const std::string& phase, const std::function<void()>& action) {
  std::string failure;
  try {
    action();
  } catch (const Error& error) {
    failure = encode(error);
  } catch (const std::exception& error) {
    failure = encode(Error(Fault::kInternal, phase + ": " + error.what()));
  }
  std::array<int64_t, 1> failures{failure.empty() ? 0 : 1};
  group.sum(failures);
  if (failures[0] == 0) return;
  const auto all = group.gather_all(bytes_of(failure));
  for (int rank = 0; rank < group.size(); ++rank) {
    if (all[rank].empty()) continue;
    const std::string text = text_of(all[rank]);
    const std::string prefix = group.size() > 1 ? fmt::format("rank {}: ", rank) : "";
    throw AgreedError(static_cast<Fault>(text[0] - '0'), prefix + text.substr(1), rank);
  }
}

void require_equal(Communicator& group, const std::string& what, const std::map<std::string, std::string>& values) {
  if (group.size() == 1) return;
  std::string mine;
  for (const auto& [key, value] : values) {
    append_text(mine, key);
    append_text(mine, value);
  }
  const auto all = group.gather_all(bytes_of(mine));
  std::vector<std::map<std::string, std::string>> by_rank;
  std::set<std::string> keys;
  for (const auto& bytes : all) {
    by_rank.push_back(decode_map(bytes));
    for (const auto& [key, value] : by_rank.back()) keys.insert(key);
  }
  const auto value_on = [&](size_t rank, const std::string& key) {
    const auto found = by_rank[rank].find(key);
    return found == by_rank[rank].end() ? std::nullopt : std::optional(found->second);
  };
  for (const std::string& key : keys) {
    for (size_t rank = 1; rank < by_rank.size(); ++rank) {
      if (value_on(rank, key) == value_on(0, key)) continue;
      throw AgreedError(Fault::kUser,
                        fmt::format("{} differs between ranks: '{}' is {}; start every rank with the same {}", what,
                                    key, who_has_what(by_rank, key), what),
                        0);
    }
  }
}

}  // namespace longhaul
