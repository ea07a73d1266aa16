#include "data/shards/manifest.h"

#include <nlohmann/json.hpp>

#include "core/io/file.h"
#include "data/shards/writer_lock.h"
#include "kernels/error.h"

namespace longhaul {
namespace {

constexpr const char* kFormat = "longhaul-dataset";
constexpr int64_t kVersion = 1;
// With target masks: a program that knows none must not train on tokens that are no targets.
constexpr int64_t kMaskedVersion = 2;

const char* type_name(H5Type type) { return type == H5Type::u8 ? "u8" : type == H5Type::u16 ? "u16" : "u32"; }

H5Type type_from_name(const std::string& name) {
  for (const H5Type type : {H5Type::u8, H5Type::u16, H5Type::u32}) {
    if (name == type_name(type)) return type;
  }
  throw user_error("found token type '{}', expected u8, u16 or u32", name);
}

// Everything but the checksum; keys are sorted, so equal content is equal text.
nlohmann::json content_of(const Manifest& manifest) {
  const TokenizerRecord& tokenizer = manifest.tokenizer;
  nlohmann::json shards = nlohmann::json::array();
  bool masked = false;
  for (const ShardEntry& shard : manifest.shards) {
    shards.push_back({{"name", shard.name},
                      {"split", shard.split},
                      {"bytes", shard.digest.bytes},
                      {"checksum", shard.digest.checksum},
                      {"documents", shard.documents},
                      {"tokens", shard.tokens}});
    if (!shard.targets) continue;
    shards.back()["targets"] = *shard.targets;
    masked = true;
  }
  return {{"format", kFormat},
          {"version", masked ? kMaskedVersion : kVersion},
          {"tokenizer",
           {{"name", tokenizer.name},
            {"vocab_size", tokenizer.vocab_size},
            {"end_of_text", tokenizer.end_of_text},
            {"fingerprint", tokenizer.fingerprint},
            {"file", tokenizer.file},
            {"bytes", tokenizer.digest.bytes},
            {"checksum", tokenizer.digest.checksum}}},
          {"token_type", type_name(manifest.token_type)},
          {"notes", manifest.notes},
          {"shards", std::move(shards)}};
}

std::string checksum_of(const nlohmann::json& content) {
  Checksum checksum;
  checksum.update(content.dump());
  return checksum.hex();
}

ShardEntry shard_from(const nlohmann::json& json) {
  ShardEntry shard;
  shard.name = json.at("name").get<std::string>();
  shard.split = json.at("split").get<std::string>();
  shard.digest = {json.at("bytes").get<int64_t>(), json.at("checksum").get<std::string>()};
  shard.documents = json.at("documents").get<int64_t>();
  shard.tokens = json.at("tokens").get<int64_t>();
  if (json.contains("targets")) shard.targets = json.at("targets").get<int64_t>();
  if (shard.name.empty() || shard.name.find('/') != std::string::npos) {
    throw user_error("found shard name '{}', expected a plain file name", shard.name);
  }
  if (shard.tokens < 0 || shard.documents < 0 || (shard.tokens == 0) != (shard.documents == 0)) {
    throw user_error("shard {}: found {} documents and {} tokens", shard.name, shard.documents, shard.tokens);
  }
  if (shard.targets && (*shard.targets < 0 || *shard.targets > shard.tokens)) {
    throw user_error("shard {}: found {} targets among {} tokens", shard.name, *shard.targets, shard.tokens);
  }
  return shard;
}

Manifest manifest_from(const nlohmann::json& json) {
  Manifest manifest;
  const auto& tokenizer = json.at("tokenizer");
  manifest.tokenizer.name = tokenizer.at("name").get<std::string>();
  manifest.tokenizer.vocab_size = tokenizer.at("vocab_size").get<int64_t>();
  manifest.tokenizer.end_of_text = tokenizer.at("end_of_text").get<int32_t>();
  manifest.tokenizer.fingerprint = tokenizer.at("fingerprint").get<std::string>();
  manifest.tokenizer.file = tokenizer.at("file").get<std::string>();
  manifest.tokenizer.digest = {tokenizer.at("bytes").get<int64_t>(), tokenizer.at("checksum").get<std::string>()};
  manifest.token_type = type_from_name(json.at("token_type").get<std::string>());
  manifest.notes = json.at("notes").get<std::string>();
  for (const auto& shard : json.at("shards")) manifest.shards.push_back(shard_from(shard));
  const int64_t vocab_size = manifest.tokenizer.vocab_size;
  if (vocab_size < 1 || size_of(manifest.token_type) < size_of(token_type_for(vocab_size))) {
    throw user_error("token type {} is too small for a vocabulary of {}, expected {}", type_name(manifest.token_type),
                     vocab_size, type_name(token_type_for(std::max<int64_t>(vocab_size, 1))));
  }
  return manifest;
}

bool has_writer_leftovers(const fs::path& directory) {
  for (const auto& entry : fs::directory_iterator(directory)) {
    if (WriterLock::is_writer_file(entry.path().filename().string())) return true;
  }
  return false;
}

}  // namespace

H5Type token_type_for(int64_t vocab_size) {
  if (vocab_size <= int64_t{1} << 8) return H5Type::u8;
  if (vocab_size <= int64_t{1} << 16) return H5Type::u16;
  if (vocab_size <= int64_t{1} << 31) return H5Type::u32;
  throw user_error("vocabulary of {} tokens, expected at most 2^31", vocab_size);
}

std::string Manifest::checksum() const { return checksum_of(content_of(*this)); }

std::string Manifest::to_json() const {
  nlohmann::json content = content_of(*this);
  content["checksum"] = checksum_of(content);
  return content.dump(1) + "\n";
}

Manifest Manifest::from_json(const std::string& text, const std::string& origin) {
  nlohmann::json json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object() || json.value("format", nlohmann::json()) != kFormat) {
    throw user_error("{}: found no dataset manifest, expected one written by `longhaul tokenize`", origin);
  }
  const nlohmann::json version = json.value("version", nlohmann::json());
  if (version != kVersion && version != kMaskedVersion) {
    throw user_error("{}: manifest of version {}, this program reads versions {} and {}", origin, version.dump(),
                     kVersion, kMaskedVersion);
  }
  const nlohmann::json recorded = json.value("checksum", nlohmann::json());
  json.erase("checksum");
  if (recorded != checksum_of(json)) {
    throw user_error("{}: the manifest is damaged (its checksum differs); restore it or tokenize again", origin);
  }
  try {
    return manifest_from(json);
  } catch (const nlohmann::json::exception& error) {
    throw user_error("{}: the manifest lacks a value: {}", origin, error.what());
  } catch (const Error& error) {
    throw error.within(origin);
  }
}

Manifest read_manifest(const fs::path& directory) {
  std::error_code ignored;
  if (!fs::is_directory(directory, ignored)) {
    throw user_error("dataset {}: found no directory, expected one made by `longhaul tokenize`", directory.string());
  }
  const fs::path path = directory / Manifest::kFileName;
  if (!fs::is_regular_file(path, ignored)) {
    if (has_writer_leftovers(directory)) {
      throw user_error(
          "dataset {}: a shard is being written (or its writer was killed): there is no {} yet; wait for `longhaul "
          "tokenize` to end, or run it again",
          directory.string(), Manifest::kFileName);
    }
    throw user_error("dataset {}: found no {}, expected a directory made by `longhaul tokenize`", directory.string(),
                     Manifest::kFileName);
  }
  return Manifest::from_json(read_file(path), path.string());
}

}  // namespace longhaul
