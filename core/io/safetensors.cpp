#include "core/io/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>

namespace longhaul {
namespace {

using Json = nlohmann::json;
constexpr int64_t kLongestHeader = 100'000'000;  // the reference implementation's limit

struct ElementType {
  const char* name;
  int bits;
};
/// Every type of the format; Tensor can hold some of them (tensor_dtype).
constexpr ElementType kElementTypes[] = {
    {"BOOL", 8},        {"U8", 8},   {"I8", 8},      {"I16", 16},    {"U16", 16},    {"F16", 16},
    {"BF16", 16},       {"I32", 32}, {"U32", 32},    {"F32", 32},    {"C64", 64},    {"F64", 64},
    {"I64", 64},        {"U64", 64}, {"F8_E4M3", 8}, {"F8_E5M2", 8}, {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8},
    {"F8_E5M2FNUZ", 8}, {"F4", 4},   {"F6_E2M3", 6}, {"F6_E3M2", 6}};

int bits_of(const std::string& dtype) {
  for (const ElementType& type : kElementTypes) {
    if (dtype == type.name) return type.bits;
  }
  return 0;
}

const char* safetensors_name(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return "F32";
    case DType::f64:
      return "F64";
    case DType::bf16:
      return "BF16";
    case DType::i32:
      return "I32";
    case DType::i64:
      return "I64";
  }
  throw internal_error("safetensors: unknown dtype {}", static_cast<int>(dtype));
}

/// Parses the header, refusing repeated keys (nlohmann keeps the last one silently) and nesting no valid header has.
Json parse_header(const std::string& text) {
  std::vector<std::set<std::string>> keys;
  const auto watch = [&keys](int depth, Json::parse_event_t event, Json& value) {
    if (depth > 4) throw std::runtime_error("nested too deeply");
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end) keys.pop_back();
    if (event == Json::parse_event_t::key && !keys.back().insert(value.get<std::string>()).second) {
      throw std::runtime_error("key '" + value.get<std::string>() + "' occurs twice");
    }
    return true;
  };
  return Json::parse(text, watch);
}

/// A non-negative integer that fits int64.
int64_t natural(const Json& value, const char* what) {
  if (!value.is_number_unsigned() ||
      value.get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
    throw std::runtime_error(fmt::format("{} is not a non-negative integer", what));
  }
  return value.get<int64_t>();
}

/// Bytes of a tensor; throws on overflow and on a number of bits that is no whole number of bytes.
int64_t byte_count(const std::vector<int64_t>& extents, int bits) {
  int64_t total = bits;
  for (int64_t extent : extents) {
    if (__builtin_mul_overflow(total, extent, &total)) throw std::runtime_error("its shape overflows 64 bits");
  }
  if (total % 8 != 0) throw std::runtime_error("it does not fill whole bytes");
  return total / 8;
}

SafetensorsEntry parse_entry(const Json& value) {
  if (!value.is_object() || value.size() != 3 || !value.contains("dtype") || !value.contains("shape") ||
      !value.contains("data_offsets")) {
    throw std::runtime_error("expected exactly dtype, shape and data_offsets");
  }
  SafetensorsEntry entry;
  if (!value["dtype"].is_string()) throw std::runtime_error("dtype is not a string");
  entry.dtype = value["dtype"].get<std::string>();
  const int bits = bits_of(entry.dtype);
  if (bits == 0) throw std::runtime_error("unknown dtype '" + entry.dtype + "'");
  if (!value["shape"].is_array()) throw std::runtime_error("shape is not an array");
  for (const Json& extent : value["shape"]) entry.extents.push_back(natural(extent, "an extent of its shape"));
  const Json& offsets = value["data_offsets"];
  if (!offsets.is_array() || offsets.size() != 2) throw std::runtime_error("data_offsets is not a pair");
  entry.begin = natural(offsets[0], "data_offsets");
  entry.end = natural(offsets[1], "data_offsets");
  if (entry.end < entry.begin) throw std::runtime_error("data_offsets end before they begin");
  const int64_t needed = byte_count(entry.extents, bits);
  if (entry.end - entry.begin != needed) {
    throw std::runtime_error(
        fmt::format("its shape needs {} bytes, data_offsets span {}", needed, entry.end - entry.begin));
  }
  return entry;
}

SafetensorsMetadata parse_metadata(const Json& value) {
  if (!value.is_object()) throw std::runtime_error("__metadata__ is not an object");
  SafetensorsMetadata metadata;
  for (const auto& [key, text] : value.items()) {
    if (!text.is_string()) throw std::runtime_error("__metadata__ holds a value that is not a string");
    metadata[key] = text.get<std::string>();
  }
  return metadata;
}

/// Tensors must cover [0, data_bytes) without hole or overlap.
void check_coverage(const std::map<std::string, SafetensorsEntry>& entries, int64_t data_bytes) {
  std::vector<std::pair<std::string, SafetensorsEntry>> order(entries.begin(), entries.end());
  std::sort(order.begin(), order.end(), [](const auto& a, const auto& b) {
    return std::pair(a.second.begin, a.second.end) < std::pair(b.second.begin, b.second.end);
  });
  int64_t expected = 0;
  for (const auto& [name, entry] : order) {
    if (entry.begin != expected) {
      throw std::runtime_error(fmt::format("tensor '{}' begins at byte {}, expected {} ({})", name, entry.begin,
                                           expected, entry.begin > expected ? "a hole" : "an overlap"));
    }
    expected = entry.end;
  }
  if (expected != data_bytes) {
    throw std::runtime_error(
        fmt::format("the tensors end at byte {} of the data, the file holds {}", expected, data_bytes));
  }
}

/// IEEE binary16 to float, exact.
float half_to_float(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16;
  const uint32_t exponent = (half >> 10) & 0x1fu, fraction = half & 0x3ffu;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000u | (fraction << 13));
  if (exponent != 0) return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (fraction << 13));
  const float magnitude = static_cast<float>(fraction) * 0x1p-24f;  // zero and subnormal numbers
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(magnitude));
}

}  // namespace

SafetensorsFile SafetensorsFile::open(const std::filesystem::path& path) {
  static_assert(std::endian::native == std::endian::little, "safetensors data are little-endian");
  SafetensorsFile result(File::open_read(path));
  try {
    const int64_t size = result.file_.size();
    if (size < 8) throw std::runtime_error(fmt::format("{} bytes are too few for a header", size));
    uint64_t header_bytes = 0;
    result.file_.read_at(0, std::as_writable_bytes(std::span(&header_bytes, 1)));
    if (header_bytes > kLongestHeader || static_cast<int64_t>(header_bytes) > size - 8) {
      throw std::runtime_error(fmt::format(
          "header of {} bytes does not fit the file of {} bytes (truncated, or not safetensors)", header_bytes, size));
    }
    std::string text(header_bytes, '\0');
    result.file_.read_at(8, std::as_writable_bytes(std::span(text)));
    if (text.empty() || text.front() != '{') throw std::runtime_error("the header does not begin with '{'");
    const Json header = parse_header(text);
    for (const auto& [name, value] : header.items()) {
      if (name == "__metadata__") {
        result.metadata_ = parse_metadata(value);
        continue;
      }
      try {
        result.entries_[name] = parse_entry(value);
      } catch (const std::runtime_error& error) {
        throw std::runtime_error(fmt::format("tensor '{}': {}", name, error.what()));
      }
    }
    result.data_begin_ = 8 + static_cast<int64_t>(header_bytes);
    check_coverage(result.entries_, size - result.data_begin_);
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    std::string reason = error.what();
    std::replace_if(
        reason.begin(), reason.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20; }, ' ');
    throw user_error("{}: not a valid safetensors file: {}; fetch or write it again", path.string(), reason);
  }
  return result;
}

Tensor SafetensorsFile::read(const std::string& name) const {
  const auto found = entries_.find(name);
  if (found == entries_.end()) throw user_error("{}: tensor '{}' is missing", path().string(), name);
  const SafetensorsEntry& entry = found->second;
  if (entry.extents.size() > Shape::kMaxRank) {
    throw user_error("{}: tensor '{}' has {} dimensions; at most {} are supported", path().string(), name,
                     entry.extents.size(), Shape::kMaxRank);
  }
  const Shape shape{std::span<const int64_t>(entry.extents)};
  const auto read_into = [&](std::span<std::byte> bytes) { file_.read_at(data_begin_ + entry.begin, bytes); };
  for (DType dtype : {DType::f32, DType::f64, DType::bf16, DType::i32, DType::i64}) {
    if (entry.dtype != safetensors_name(dtype)) continue;
    const Tensor tensor = Tensor::empty(shape, dtype);
    read_into({tensor.raw(), static_cast<size_t>(tensor.bytes())});
    return tensor;
  }
  if (entry.dtype != "F16") {
    throw user_error("{}: tensor '{}' has type {}; expected F32, F64, BF16, F16, I32 or I64", path().string(), name,
                     entry.dtype);
  }
  std::vector<uint16_t> halves(static_cast<size_t>(shape.count()));
  read_into(std::as_writable_bytes(std::span(halves)));
  const Tensor tensor = Tensor::empty(shape, DType::f32);
  std::transform(halves.begin(), halves.end(), tensor.data<float>(), half_to_float);
  return tensor;
}

void write_safetensors(const std::filesystem::path& path, std::vector<NamedTensor> tensors,
                       const SafetensorsMetadata& metadata) {
  std::sort(tensors.begin(), tensors.end(), [](const NamedTensor& a, const NamedTensor& b) {
    return std::pair(-size_of(a.tensor.dtype()), std::string_view(a.name)) <
           std::pair(-size_of(b.tensor.dtype()), std::string_view(b.name));
  });
  Json header = Json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  int64_t offset = 0;
  for (const NamedTensor& entry : tensors) {
    if (header.contains(entry.name)) throw internal_error("{}: tensor '{}' given twice", path.string(), entry.name);
    const auto extents = entry.tensor.shape().extents();
    header[entry.name] = {{"dtype", safetensors_name(entry.tensor.dtype())},
                          {"shape", std::vector<int64_t>(extents.begin(), extents.end())},
                          {"data_offsets", {offset, offset + entry.tensor.bytes()}}};
    offset += entry.tensor.bytes();
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const uint64_t header_bytes = text.size();

  std::filesystem::path temporary = path;
  temporary += ".tmp";
  try {
    File file = File::create(temporary);
    file.write(std::as_bytes(std::span(&header_bytes, 1)));
    file.write(text);
    for (const NamedTensor& entry : tensors)
      file.write({entry.tensor.raw(), static_cast<size_t>(entry.tensor.bytes())});
    file.sync();
    file.close();
    rename_durably(temporary, path);
  } catch (...) {
    std::error_code ignored;  // the first error is the one to report
    std::filesystem::remove(temporary, ignored);
    throw;
  }
}

}  // namespace longhaul
