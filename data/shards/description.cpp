#include "data/shards/description.h"

#include "core/io/file.h"
#include "data/shards/dataset.h"
#include "data/shards/dataset_builder.h"
#include "data/tokenizers/tokenizer.h"
#include "kernels/error.h"

namespace longhaul {
namespace {

constexpr int64_t kShownTokens = 24;

/// Ids, target mask (if there is one) and text of the first tokens of a shard, each on a line.
std::string beginning_of(const Shard& shard, const Tokenizer& tokenizer) {
  std::vector<int32_t> ids(static_cast<size_t>(std::min(kShownTokens, shard.tokens())));
  shard.read(0, ids);
  std::string text, targets;
  for (const char c : tokenizer.decode(ids)) {
    if (static_cast<unsigned char>(c) >= 0x20) {
      text += c;
    } else {
      text += c == '\n' ? "\\n" : fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    }
  }
  if (shard.has_target_mask()) {
    std::vector<uint8_t> mask(ids.size());
    shard.read_target_mask(0, mask);
    targets = fmt::format("    mask  {}\n", fmt::join(mask, " "));
  }
  return fmt::format("    ids   {}\n{}    text  {}\n", fmt::join(ids, " "), targets, text);
}

/// "all tokens" or how many of the tokens may be targets.
std::string targets_of(const ShardEntry& entry) {
  return entry.targets ? fmt::format("{} of {} by the target mask", *entry.targets, entry.tokens) : "all tokens";
}

std::string describe_tokenizer(const TokenizerRecord& tokenizer) {
  return fmt::format("tokenizer     {}, {} tokens, end of text {}, fingerprint {}\n", tokenizer.name,
                     tokenizer.vocab_size, tokenizer.end_of_text, tokenizer.fingerprint);
}

std::string describe_split(Dataset& dataset, const std::string& split, const Tokenizer& tokenizer) {
  int64_t shards = 0, documents = 0, tokens = 0, bytes = 0, targets = 0, masked = 0;
  for (const ShardEntry& entry : dataset.manifest().shards) {
    if (entry.split != split) continue;
    ++shards;
    documents += entry.documents;
    tokens += entry.tokens;
    bytes += entry.digest.bytes;
    targets += entry.targets.value_or(entry.tokens);
    masked += entry.targets.has_value();
  }
  if (shards == 0) return {};
  std::string text =
      fmt::format("{:<14}{} tokens in {} documents, {} shards, {} bytes", split, tokens, documents, shards, bytes);
  if (masked > 0) text += fmt::format(", {} targets by the target masks of {} shards", targets, masked);
  const int64_t empty = dataset.empty_shards(split);
  text += empty > 0 ? fmt::format(", {} shards without documents are skipped\n", empty) : "\n";
  const std::vector<int64_t> used = dataset.shards_of(split);
  if (!used.empty()) text += beginning_of(dataset.shard(used.front()), tokenizer);
  return text;
}

}  // namespace

bool is_dataset_path(const fs::path& path) {
  std::error_code ignored;
  const fs::path directory = fs::is_directory(path, ignored) ? path : path.parent_path();
  return fs::exists(directory / Manifest::kFileName, ignored) &&
         read_file(directory / Manifest::kFileName).find("longhaul-dataset") != std::string::npos;
}

std::string describe_dataset(const fs::path& path) {
  const bool whole = fs::is_directory(path);
  const fs::path directory = whole ? path : path.has_parent_path() ? path.parent_path() : fs::path(".");
  Dataset dataset(directory, ShardVerification::kChecksum, 1);
  const Manifest& manifest = dataset.manifest();
  const auto tokenizer = restore_tokenizer(dataset.serialised_tokenizer(), directory.string());
  std::string text;
  if (whole) {
    text = fmt::format("dataset       {}\n", directory.string()) + describe_tokenizer(manifest.tokenizer) +
           fmt::format("ids           unsigned, {} bytes each\nmade from     {}\nmanifest      checksum {}\n",
                       size_of(manifest.token_type), manifest.notes, manifest.checksum());
    for (const char* split : kSplitNames) text += describe_split(dataset, split, *tokenizer);
    return text;
  }
  for (size_t i = 0; i < manifest.shards.size(); ++i) {
    const ShardEntry& entry = manifest.shards[i];
    if (entry.name != path.filename()) continue;
    text = fmt::format(
               "shard         {}\nsplit         {}\ncontent       {} tokens in {} documents, {} bytes, checksum {}\n"
               "targets       {}\n",
               path.string(), entry.split, entry.tokens, entry.documents, entry.digest.bytes, entry.digest.checksum,
               targets_of(entry)) +
           describe_tokenizer(manifest.tokenizer);
    if (entry.documents > 0) text += beginning_of(dataset.shard(static_cast<int64_t>(i)), *tokenizer);
    return text;
  }
  throw user_error("{}: not listed in the manifest beside it, expected a shard of the dataset", path.string());
}

}  // namespace longhaul
