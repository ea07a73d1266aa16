#include "parallel/checkpoint_manifest.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/io/file.h"
#include "kernels/error.h"

namespace longhaul {

namespace {

using nlohmann::json;

json encode_tensor(const std::string& name, const TensorEntry& entry) {
  json pieces = json::array();
  for (const TensorPiece& piece : entry.pieces) pieces.push_back({piece.file, piece.offset, piece.count});
  const auto extents = entry.shape.extents();
  return {{"name", name},
          {"dtype", name_of(entry.dtype)},
          {"shape", std::vector<int64_t>(extents.begin(), extents.end())},
          {"pieces", std::move(pieces)}};
}

json encode_body(const CheckpointManifest& manifest) {
  json files = json::array();
  for (const CheckpointFile& file : manifest.files) {
    files.push_back({{"name", file.name}, {"bytes", file.digest.bytes}, {"checksum", file.digest.checksum}});
  }
  json tensors = json::array();
  for (const auto& [name, entry] : manifest.tensors) tensors.push_back(encode_tensor(name, entry));
  json body = {{"format_version", CheckpointManifest::kFormatVersion},
               {"run_id", manifest.run_id},
               {"step", manifest.step},
               {"data_position", manifest.extras.data_position},
               {"config_hash", manifest.extras.config_hash},
               {"configuration", manifest.extras.configuration},
               {"controller_state", manifest.extras.controller_state},
               {"files", std::move(files)},
               {"tensors", std::move(tensors)}};
  if (!manifest.extras.best_weights.empty()) body["best_weights"] = manifest.extras.best_weights;
  return body;
}

std::string checksum_of(const std::string& text) {
  Checksum checksum;
  checksum.update(text);
  return checksum.hex();
}

/// The whole file: the body, preceded by its checksum.
std::string seal(const json& body) {
  const std::string text = body.dump();
  return "{\"checksum\":\"" + checksum_of(text) + "\",\"manifest\":" + text + "}\n";
}

/// Empty when the pieces cover [0, count) exactly once, else what is wrong.
std::string coverage_problem(const TensorEntry& entry, size_t files) {
  int64_t covered = 0;
  for (const TensorPiece& piece : entry.pieces) {
    if (piece.file < 0 || piece.file >= static_cast<int64_t>(files)) return fmt::format("names file {}", piece.file);
    if (piece.count < 1) return fmt::format("has a piece of {} elements", piece.count);
    if (piece.offset < covered) return fmt::format("holds element {} twice", piece.offset);
    if (piece.offset > covered) return fmt::format("lacks elements [{}, {})", covered, piece.offset);
    if (piece.count > entry.shape.count() - covered) return "has a piece beyond its end";
    covered += piece.count;
  }
  if (covered != entry.shape.count()) return fmt::format("lacks elements [{}, {})", covered, entry.shape.count());
  return "";
}

TensorEntry decode_tensor(const json& source) {
  TensorEntry entry;
  const auto extents = source.at("shape").get<std::vector<int64_t>>();
  if (std::any_of(extents.begin(), extents.end(), [](int64_t extent) { return extent < 0; })) {
    throw user_error("negative extent");
  }
  entry.shape = Shape(extents);
  entry.dtype = dtype_from_name(source.at("dtype").get<std::string>());
  for (const json& piece : source.at("pieces")) {
    entry.pieces.push_back({piece.at(0).get<int64_t>(), piece.at(1).get<int64_t>(), piece.at(2).get<int64_t>()});
  }
  return entry;
}

CheckpointManifest decode_body(const json& body) {
  CheckpointManifest manifest;
  manifest.run_id = body.at("run_id").get<std::string>();
  manifest.step = body.at("step").get<int64_t>();
  manifest.extras.data_position = body.at("data_position").get<int64_t>();
  manifest.extras.config_hash = body.at("config_hash").get<std::string>();
  manifest.extras.configuration = body.at("configuration").get<std::string>();
  manifest.extras.controller_state = body.at("controller_state").get<std::string>();
  manifest.extras.best_weights = body.value("best_weights", "");
  for (const json& file : body.at("files")) {
    const auto name = file.at("name").get<std::string>();
    if (name.empty() || name.front() == '.' || name.find('/') != std::string::npos) {
      throw user_error("file name '{}' leaves the directory", name);
    }
    manifest.files.push_back({name, {file.at("bytes").get<int64_t>(), file.at("checksum").get<std::string>()}});
  }
  for (const json& tensor : body.at("tensors")) {
    const auto name = tensor.at("name").get<std::string>();
    const auto [entry, added] = manifest.tensors.emplace(name, decode_tensor(tensor));
    if (!added) throw user_error("tensor '{}' stands twice", name);
    const std::string problem = coverage_problem(entry->second, manifest.files.size());
    if (!problem.empty()) throw user_error("tensor '{}' {}", name, problem);
  }
  if (manifest.step < 0) throw user_error("step {} is negative", manifest.step);
  return manifest;
}

CheckpointManifest decode_sealed(const std::string& text) {
  const json document = json::parse(text);
  const json& body = document.at("manifest");
  if (seal(body) != text) throw user_error("its checksum does not match its content");
  const auto version = body.at("format_version").get<int64_t>();
  if (version != CheckpointManifest::kFormatVersion) {
    throw user_error("format version {}, this program reads version {}", version, CheckpointManifest::kFormatVersion);
  }
  return decode_body(body);
}

}  // namespace

std::string CheckpointManifest::encode() const {
  for (const auto& [name, entry] : tensors) {
    const std::string problem = coverage_problem(entry, files.size());
    if (!problem.empty()) throw internal_error("checkpoint of step {}: tensor '{}' {}", step, name, problem);
  }
  try {
    return seal(encode_body(*this));
  } catch (const json::exception& error) {  // text that is not UTF-8
    throw user_error("checkpoint of step {}: the configuration or a name cannot be stored: {}", step, error.what());
  }
}

CheckpointManifest CheckpointManifest::decode(const std::string& text, const std::filesystem::path& path) {
  try {
    return decode_sealed(text);
  } catch (const json::exception& error) {
    throw user_error("{}: not a complete checkpoint manifest ({} bytes): {}", path.string(), text.size(), error.what());
  } catch (const Error& error) {
    throw user_error("{}: damaged checkpoint manifest: {}", path.string(), error.what());
  }
}

CheckpointManifest CheckpointManifest::load(const std::filesystem::path& directory) {
  const std::filesystem::path path = directory / kFileName;
  if (!std::filesystem::exists(path)) {
    throw user_error("{}: no {}, so the checkpoint was never completed", directory.string(), kFileName);
  }
  return decode(read_file(path), path);
}

int64_t CheckpointManifest::tensor_bytes() const {
  int64_t bytes = 0;
  for (const auto& [name, entry] : tensors) bytes += entry.shape.count() * size_of(entry.dtype);
  return bytes;
}

std::string rank_file_name(int64_t rank, int64_t ranks) { return fmt::format("rank_{:05}_of_{:05}.h5", rank, ranks); }

std::string piece_dataset(const std::string& tensor, int64_t offset) { return fmt::format("{}/at_{}", tensor, offset); }

}  // namespace longhaul
