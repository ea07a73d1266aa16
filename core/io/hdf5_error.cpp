#include "core/io/hdf5_error.h"

#include <algorithm>

#include "kernels/error.h"

namespace longhaul::hdf5 {

namespace {

std::recursive_mutex& library_mutex() {
  static std::recursive_mutex mutex;
  return mutex;
}

herr_t take_first(unsigned, const H5E_error2_t* error, void* reason) {
  auto* text = static_cast<std::string*>(reason);
  if (text->empty() && error->desc != nullptr) *text = error->desc;
  return 0;
}

}  // namespace

Hold::Hold() : lock_(library_mutex()) { H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr); }

std::string error_reason() {
  std::string reason;
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, take_first, &reason);
  std::replace(reason.begin(), reason.end(), '\n', ' ');
  return reason.empty() ? "no reason given" : reason;
}

void throw_failure(const std::string& file, const std::string& object, const char* call) {
  const std::string reason = error_reason();
  if (object.empty()) throw system_error("{}: {} failed: {}", file, call, reason);
  throw system_error("{}: dataset '{}': {} failed: {}", file, object, call, reason);
}

}  // namespace longhaul::hdf5
