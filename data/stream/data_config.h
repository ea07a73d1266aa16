// What a run reads: datasets with weights, how rows are cut, what is verified.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "data/shards/shard_verification.h"

namespace longhaul {

struct DatasetChoice {
  std::filesystem::path directory;  ///< made by `longhaul tokenize`
  double weight = 1.0;              ///< > 0; share of the rows = weight / sum of the weights
};

struct DataConfig {
  std::vector<DatasetChoice> datasets;  ///< at least one; all with the same tokenizer
  int64_t context = 1024;               ///< tokens per row
  bool document_mask = true;            ///< documents in one row do not see each other
  bool shuffle = true;                  ///< false: rows in the order they lie in
  uint64_t seed = 1;                    ///< order of the rows; equal on all ranks
  ShardVerification verify = ShardVerification::kChecksum;
  int64_t open_shards = 16;  ///< open files per dataset and process at most
};

/// "NAME", "NAME=WEIGHT" items separated by commas, as written in a configuration: "data/books=3,data/news".
std::vector<DatasetChoice> parse_dataset_choices(const std::string& text);
/// Checksum over the manifests and weights of all datasets, in order: enters the configuration hash, so that ranks (and
/// a resumed run) that see other data are found out before the first step.
std::string data_fingerprint(const DataConfig& config);

}  // namespace longhaul
