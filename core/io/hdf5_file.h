// HDF5 (serial), wrapped once. Every return code is checked; the library's own error printing is off. File locking is
// off for reading (NFS, Lustre). Only files whose checksum has been verified may be opened for reading
// (reliability.md 1.8).
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/tensor/dtype.h"

namespace longhaul {

/// Integer and float element types a dataset can have in the file.
enum class H5Type : uint8_t {
  u8,
  u16,
  u32,
  i32,
  i64,
  u64,
  f32,
  f64,
  bf16 /* stored as u16 with attribute dtype="bf16" */
};
H5Type h5_type_of(DType type);
int64_t size_of(H5Type type);

/// An open HDF5 file. Errors are Error(kSystem) naming file, dataset and the HDF5 call.
class Hdf5File {
 public:
  static Hdf5File create(const std::filesystem::path& path);
  static Hdf5File open_read(const std::filesystem::path& path);
  Hdf5File(Hdf5File&&) noexcept;
  Hdf5File& operator=(Hdf5File&&) noexcept;
  ~Hdf5File();

  /// Creates a dataset (intermediate groups too) and writes all of it. chunk 0: contiguous; else chunked by `chunk`
  /// elements along the first axis (rank 1 only).
  void write(const std::string& name, H5Type type, std::span<const int64_t> extents, const void* data,
             int64_t chunk = 0);
  /// A rank-1 dataset that grows: created empty and chunked, then appended to.
  void create_growing(const std::string& name, H5Type type, int64_t chunk);
  void append(const std::string& name, H5Type type, const void* data, int64_t count);

  bool contains(const std::string& name) const;
  std::vector<std::string> dataset_names() const;  ///< full paths, sorted
  std::vector<int64_t> extents(const std::string& name) const;
  H5Type type(const std::string& name) const;                                ///< user_error for a type outside H5Type
  void read(const std::string& name, H5Type memory_type, void* data) const;  ///< whole dataset, converted
  /// Elements [begin, begin + count) of a rank-1 dataset, converted to memory_type.
  void read_range(const std::string& name, H5Type memory_type, int64_t begin, int64_t count, void* data) const;

  void set_attribute(const std::string& object, const std::string& key, int64_t value);
  void set_attribute(const std::string& object, const std::string& key, const std::string& value);
  bool has_attribute(const std::string& object, const std::string& key) const;
  int64_t int_attribute(const std::string& object, const std::string& key) const;
  std::string text_attribute(const std::string& object, const std::string& key) const;

  void close();  ///< checked: flush and close; the destructor closes without checking

 private:
  struct Handle;
  explicit Hdf5File(std::unique_ptr<Handle> handle);
  std::unique_ptr<Handle> handle_;
};

std::string hdf5_version_compiled();
std::string hdf5_version_loaded();

}  // namespace longhaul
