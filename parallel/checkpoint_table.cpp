#include "parallel/checkpoint_table.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "kernels/error.h"

namespace longhaul {

using nlohmann::json;

std::string RankTable::encode() const {
  json rows = json::array();
  for (const RankPiece& piece : pieces) {
    const auto extents = piece.shape.extents();
    rows.push_back({piece.name, std::vector<int64_t>(extents.begin(), extents.end()), name_of(piece.dtype),
                    piece.offset, piece.count});
  }
  return json{{"file", file.name}, {"bytes", file.digest.bytes}, {"checksum", file.digest.checksum}, {"pieces", rows}}
      .dump();
}

RankTable RankTable::decode(const std::string& text) {
  try {
    const json document = json::parse(text);
    RankTable table;
    table.file = {document.at("file").get<std::string>(),
                  {document.at("bytes").get<int64_t>(), document.at("checksum").get<std::string>()}};
    for (const json& row : document.at("pieces")) {
      table.pieces.push_back({row.at(0).get<std::string>(), Shape(row.at(1).get<std::vector<int64_t>>()),
                              dtype_from_name(row.at(2).get<std::string>()), row.at(3).get<int64_t>(),
                              row.at(4).get<int64_t>()});
    }
    return table;
  } catch (const json::exception& error) {
    throw internal_error("checkpoint table of a rank: {}", error.what());
  }
}

void merge_tables(std::span<const RankTable> tables, CheckpointManifest& manifest) {
  for (const RankTable& table : tables) {
    const auto file = static_cast<int64_t>(manifest.files.size());
    manifest.files.push_back(table.file);
    for (const RankPiece& piece : table.pieces) {
      const auto [entry, added] = manifest.tensors.try_emplace(piece.name, TensorEntry{piece.shape, piece.dtype, {}});
      if (!added && (entry->second.shape != piece.shape || entry->second.dtype != piece.dtype)) {
        throw internal_error("tensor '{}' is {} {} on one rank and {} {} on another", piece.name,
                             name_of(entry->second.dtype), entry->second.shape.text(), name_of(piece.dtype),
                             piece.shape.text());
      }
      if (piece.count > 0) entry->second.pieces.push_back({file, piece.offset, piece.count});
    }
  }
  for (auto& [name, entry] : manifest.tensors) {
    std::sort(entry.pieces.begin(), entry.pieces.end(),
              [](const TensorPiece& a, const TensorPiece& b) { return a.offset < b.offset; });
  }
}

}  // namespace longhaul
