// Thin RAII over HDF5 identifiers and return codes, for core/io/hdf5_file.cpp.
#pragma once

#include <hdf5.h>

#include <mutex>
#include <string>
#include <utility>

namespace longhaul::hdf5 {

/// Holds the library for the calling thread and silences its own error printing there. The library may be built without
/// thread support, and the checkpoint writer runs beside the token stream; callers keep each hold short.
class Hold {
 public:
  Hold();

 private:
  std::unique_lock<std::recursive_mutex> lock_;
};

/// Innermost reason on the HDF5 error stack of this thread, in one line; "no reason given" when the stack is empty.
std::string error_reason();

/// Throws Error(kSystem) "FILE: dataset 'NAME': CALL failed: reason" (the dataset part only when `object` is not
/// empty).
[[noreturn]] void throw_failure(const std::string& file, const std::string& object, const char* call);

/// What a call concerns, for its error message.
struct Context {
  const std::string& file;
  const std::string& object;

  /// `result` unless it is negative, which HDF5 uses for failure.
  template <typename Result>
  Result check(Result result, const char* call) const {
    if (result < 0) throw_failure(file, object, call);
    return result;
  }
};

/// An HDF5 identifier closed by `Close` (H5Dclose, ...). Closing by the destructor is unchecked and may happen outside
/// Hold.
template <herr_t (*Close)(hid_t)>
class Identifier {
 public:
  explicit Identifier(hid_t value) : value_(value) {}
  Identifier(Identifier&& other) noexcept : value_(std::exchange(other.value_, -1)) {}
  Identifier& operator=(Identifier&& other) noexcept {
    std::swap(value_, other.value_);
    return *this;
  }
  ~Identifier() {
    if (value_ < 0) return;
    const Hold hold;
    Close(value_);
  }
  hid_t get() const { return value_; }
  herr_t close() { return Close(std::exchange(value_, -1)); }

 private:
  hid_t value_;
};

using FileId = Identifier<H5Fclose>;
using DatasetId = Identifier<H5Dclose>;
using SpaceId = Identifier<H5Sclose>;
using TypeId = Identifier<H5Tclose>;
using PropertiesId = Identifier<H5Pclose>;
using AttributeId = Identifier<H5Aclose>;
using ObjectId = Identifier<H5Oclose>;

}  // namespace longhaul::hdf5
