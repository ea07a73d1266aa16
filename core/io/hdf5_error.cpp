#include "core/io/hdf5_error.h"

#include <algorithm>
#include <string_view>

#include "kernels/error.h"

namespace longhaul::hdf5 {

namespace {

/// The mutex, and the library's first call: without H5dont_atexit it closes, when the program ends, whatever a full
/// disk kept it from closing before, and dies of it. All files are closed by their owners.
struct Library {
  Library() { H5dont_atexit(); }
  std::recursive_mutex mutex;
};

Library& library() {
  static Library instance;
  return instance;
}

herr_t take_first(unsigned, const H5E_error2_t* error, void* reason) {
  auto* text = static_cast<std::string*>(reason);
  if (text->empty() && error->desc != nullptr) *text = error->desc;
  return 0;
}

/// "file write failed: time = ..., errno = 28, error message = 'No space left on device', buf = ..." keeps what a
/// person needs: "file write failed: No space left on device".
std::string shortened(const std::string& reason) {
  static constexpr std::string_view kMark = "error message = '";
  const size_t mark = reason.find(kMark), colon = reason.find(':');
  if (mark == std::string::npos || colon == std::string::npos) return reason;
  const size_t begin = mark + kMark.size();
  return reason.substr(0, colon + 2) + reason.substr(begin, reason.find('\'', begin) - begin);
}

}  // namespace

Hold::Hold() : lock_(library().mutex) { H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr); }

std::string error_reason() {
  std::string reason;
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, take_first, &reason);
  std::replace(reason.begin(), reason.end(), '\n', ' ');
  return reason.empty() ? "no reason given" : shortened(reason);
}

void throw_failure(const std::string& file, const std::string& object, const char* call) {
  const std::string reason = error_reason();
  if (object.empty()) throw system_error("{}: {} failed: {}", file, call, reason);
  throw system_error("{}: dataset '{}': {} failed: {}", file, object, call, reason);
}

}  // namespace longhaul::hdf5
