// The safetensors file format (huggingface/safetensors): a JSON header, then the bytes of all tensors without holes.
// Reading trusts nothing: every malformed file is one user_error naming the file and what is wrong with it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "core/io/file.h"
#include "core/tensor/tensor.h"

namespace longhaul {

using SafetensorsMetadata = std::map<std::string, std::string>;

/// A tensor to be written under a name. f32, f64, bf16, i32 and i64 can be written.
struct NamedTensor {
  std::string name;
  Tensor tensor;
};

/// Writes `tensors` durably (beside `path`, then renamed). Tensors are stored by falling alignment, then by name, as
/// the reference writer does. internal_error for a repeated name.
void write_safetensors(const std::filesystem::path& path, std::vector<NamedTensor> tensors,
                       const SafetensorsMetadata& metadata = {});

/// One entry of the header.
struct SafetensorsEntry {
  std::string dtype;             ///< as in the file: "F32", "BF16", ...
  std::vector<int64_t> extents;  ///< empty: a scalar
  int64_t begin = 0, end = 0;    ///< bytes, relative to the start of the data
};

/// An open file whose header has been checked completely: types, sizes, no hole, no overlap, no byte left over.
class SafetensorsFile {
 public:
  static SafetensorsFile open(const std::filesystem::path& path);

  const std::map<std::string, SafetensorsEntry>& entries() const { return entries_; }
  const SafetensorsMetadata& metadata() const { return metadata_; }
  bool contains(const std::string& name) const { return entries_.contains(name); }
  /// The tensor as stored; F16 comes as f32. user_error for a missing name or a type that Tensor cannot hold.
  Tensor read(const std::string& name) const;
  const std::filesystem::path& path() const { return file_.path(); }

 private:
  explicit SafetensorsFile(File file) : file_(std::move(file)) {}
  mutable File file_;
  int64_t data_begin_ = 0;
  std::map<std::string, SafetensorsEntry> entries_;
  SafetensorsMetadata metadata_;
};

}  // namespace longhaul
