#include "core/tensor/dtype.h"

#include <array>
#include <utility>

#include "kernels/error.h"

namespace longhaul {
namespace {

struct TypeFacts {
  DType type;
  std::string_view name;
  int64_t bytes;
};

constexpr std::array<TypeFacts, 5> kTypes = {{{DType::f32, "f32", 4},
                                              {DType::f64, "f64", 8},
                                              {DType::bf16, "bf16", 2},
                                              {DType::i32, "i32", 4},
                                              {DType::i64, "i64", 8}}};

const TypeFacts& facts(DType type) {
  for (const TypeFacts& entry : kTypes) {
    if (entry.type == type) return entry;
  }
  throw internal_error("element type number {} does not exist", static_cast<int>(type));
}

}  // namespace

int64_t size_of(DType type) { return facts(type).bytes; }

std::string_view name_of(DType type) { return facts(type).name; }

DType dtype_from_name(std::string_view name) {
  for (const TypeFacts& entry : kTypes) {
    if (entry.name == name) return entry.type;
  }
  throw user_error("element type '{}' is unknown; use f32, f64, bf16, i32 or i64", name);
}

}  // namespace longhaul
