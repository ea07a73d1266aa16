#include "core/io/hdf5_file.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "core/io/file_lock.h"
#include "core/io/hdf5_error.h"
#include "kernels/error.h"

namespace longhaul {

using namespace hdf5;  // the identifiers and checks of hdf5_error.h

struct Hdf5File::Handle {
  FileId id;
  std::string path;

  Context context(const std::string& object) const { return {path, object}; }
};

namespace {

constexpr const char* kTypeAttribute = "dtype";
constexpr const char* kBf16 = "bf16";
// One transfer moves at most this much, so that a reader beside the checkpoint writer waits for milliseconds only.
constexpr int64_t kPieceBytes = int64_t{16} << 20;
const std::string kWholeFile;

hid_t native_type(H5Type type) {
  switch (type) {
    case H5Type::u8:
      return H5T_NATIVE_UINT8;
    case H5Type::u16:
      return H5T_NATIVE_UINT16;
    case H5Type::u32:
      return H5T_NATIVE_UINT32;
    case H5Type::i32:
      return H5T_NATIVE_INT32;
    case H5Type::i64:
      return H5T_NATIVE_INT64;
    case H5Type::u64:
      return H5T_NATIVE_UINT64;
    case H5Type::f32:
      return H5T_NATIVE_FLOAT;
    case H5Type::f64:
      return H5T_NATIVE_DOUBLE;
    case H5Type::bf16:
      return H5T_NATIVE_UINT16;
  }
  throw internal_error("hdf5: unknown element type {}", static_cast<int>(type));
}

hid_t file_type(H5Type type) {
  switch (type) {
    case H5Type::u8:
      return H5T_STD_U8LE;
    case H5Type::u16:
      return H5T_STD_U16LE;
    case H5Type::u32:
      return H5T_STD_U32LE;
    case H5Type::i32:
      return H5T_STD_I32LE;
    case H5Type::i64:
      return H5T_STD_I64LE;
    case H5Type::u64:
      return H5T_STD_U64LE;
    case H5Type::f32:
      return H5T_IEEE_F32LE;
    case H5Type::f64:
      return H5T_IEEE_F64LE;
    case H5Type::bf16:
      return H5T_STD_U16LE;
  }
  throw internal_error("hdf5: unknown element type {}", static_cast<int>(type));
}

const char* text_of(H5Type type) {
  static constexpr const char* kNames[] = {"u8", "u16", "u32", "i32", "i64", "u64", "f32", "f64", kBf16};
  return kNames[static_cast<int>(type)];
}

/// True when every value of `from` exists in `to`: HDF5 itself would clamp silently.
bool converts_exactly(H5Type from, H5Type to) {
  if (from == to) return true;
  const auto is_unsigned = [](H5Type type) {
    return type == H5Type::u8 || type == H5Type::u16 || type == H5Type::u32 || type == H5Type::u64;
  };
  const bool integers =
      (is_unsigned(from) || from == H5Type::i32) && (is_unsigned(to) || to == H5Type::i32 || to == H5Type::i64);
  if (integers) return size_of(from) < size_of(to) && (is_unsigned(from) || !is_unsigned(to));
  return from == H5Type::f32 && to == H5Type::f64;
}

PropertiesId access_properties(const Context& context) {
  PropertiesId properties(context.check(H5Pcreate(H5P_FILE_ACCESS), "H5Pcreate"));
  context.check(H5Pset_fclose_degree(properties.get(), H5F_CLOSE_STRONG), "H5Pset_fclose_degree");
  // Locks of the library are not needed (files get their final name only when complete) and fail on many cluster file
  // systems. Before 1.10.7 the environment is the only switch.
#if H5_VERSION_GE(1, 10, 7)
  context.check(H5Pset_file_locking(properties.get(), 0, 1), "H5Pset_file_locking");
#else
  setenv("HDF5_USE_FILE_LOCKING", "FALSE", 1);
#endif
  return properties;
}

DatasetId open_dataset(hid_t file, const Context& context) {
  return DatasetId(context.check(H5Dopen2(file, context.object.c_str(), H5P_DEFAULT), "H5Dopen"));
}

std::vector<hsize_t> extents_of(hid_t dataset, const Context& context) {
  SpaceId space(context.check(H5Dget_space(dataset), "H5Dget_space"));
  const int rank = context.check(H5Sget_simple_extent_ndims(space.get()), "H5Sget_simple_extent_ndims");
  std::vector<hsize_t> extents(static_cast<size_t>(rank));
  context.check(H5Sget_simple_extent_dims(space.get(), extents.data(), nullptr), "H5Sget_simple_extent_dims");
  return extents;
}

/// Creates attribute `key` on `object` (replacing an old one) and writes it.
void write_attribute(hid_t object, const std::string& key, hid_t type, hid_t memory_type, const void* value,
                     const Context& context) {
  if (context.check(H5Aexists(object, key.c_str()), "H5Aexists") > 0) {
    context.check(H5Adelete(object, key.c_str()), "H5Adelete");
  }
  SpaceId space(context.check(H5Screate(H5S_SCALAR), "H5Screate"));
  AttributeId attribute(
      context.check(H5Acreate2(object, key.c_str(), type, space.get(), H5P_DEFAULT, H5P_DEFAULT), "H5Acreate"));
  context.check(H5Awrite(attribute.get(), memory_type, value), "H5Awrite");
}

void write_text_attribute(hid_t object, const std::string& key, const std::string& value, const Context& context) {
  TypeId type(context.check(H5Tcopy(H5T_C_S1), "H5Tcopy"));
  context.check(H5Tset_size(type.get(), value.size() + 1), "H5Tset_size");
  context.check(H5Tset_cset(type.get(), H5T_CSET_UTF8), "H5Tset_cset");
  write_attribute(object, key, type.get(), type.get(), value.c_str(), context);
}

std::string read_text_attribute(hid_t object, const std::string& key, const Context& context) {
  AttributeId attribute(context.check(H5Aopen(object, key.c_str(), H5P_DEFAULT), "H5Aopen"));
  TypeId type(context.check(H5Aget_type(attribute.get()), "H5Aget_type"));
  SpaceId space(context.check(H5Aget_space(attribute.get()), "H5Aget_space"));
  const bool fixed_text = H5Tget_class(type.get()) == H5T_STRING && H5Tis_variable_str(type.get()) == 0;
  if (!fixed_text || H5Sget_simple_extent_npoints(space.get()) != 1) {
    throw user_error("{}: attribute '{}' of '{}' is not a text of fixed length", context.file, key, context.object);
  }
  std::string value(H5Tget_size(type.get()), '\0');
  context.check(H5Aread(attribute.get(), type.get(), value.data()), "H5Aread");
  return value.substr(0, value.find('\0'));
}

ObjectId open_object(hid_t file, const Context& context) {
  return ObjectId(context.check(H5Oopen(file, context.object.c_str(), H5P_DEFAULT), "H5Oopen"));
}

/// Creates the dataset with its groups. Times are not stored, so that equal content means equal bytes.
DatasetId create_dataset(hid_t file, H5Type type, std::span<const hsize_t> extents, int64_t chunk, bool growing,
                         const Context& context) {
  PropertiesId links(context.check(H5Pcreate(H5P_LINK_CREATE), "H5Pcreate"));
  context.check(H5Pset_create_intermediate_group(links.get(), 1), "H5Pset_create_intermediate_group");
  PropertiesId creation(context.check(H5Pcreate(H5P_DATASET_CREATE), "H5Pcreate"));
  context.check(H5Pset_obj_track_times(creation.get(), 0), "H5Pset_obj_track_times");
  context.check(H5Pset_fill_time(creation.get(), H5D_FILL_TIME_NEVER), "H5Pset_fill_time");
  if (chunk > 0) {
    const hsize_t size = static_cast<hsize_t>(chunk);
    context.check(H5Pset_chunk(creation.get(), 1, &size), "H5Pset_chunk");
  }
  const hsize_t unlimited = H5S_UNLIMITED;
  SpaceId space(extents.empty() ? context.check(H5Screate(H5S_SCALAR), "H5Screate")
                                : context.check(H5Screate_simple(static_cast<int>(extents.size()), extents.data(),
                                                                 growing ? &unlimited : nullptr),
                                                "H5Screate_simple"));
  DatasetId dataset(context.check(
      H5Dcreate2(file, context.object.c_str(), file_type(type), space.get(), links.get(), creation.get(), H5P_DEFAULT),
      "H5Dcreate"));
  if (type == H5Type::bf16) write_text_attribute(dataset.get(), kTypeAttribute, kBf16, context);
  return dataset;
}

enum class Direction { read, write };

/// Moves rows [begin, begin + rows) of the first axis. `data` points at row `begin`.
void transfer_rows(hid_t dataset, H5Type type, std::span<const hsize_t> extents, hsize_t begin, hsize_t rows,
                   void* data, Direction direction, const Context& context) {
  std::vector<hsize_t> start(extents.size(), 0), count(extents.begin(), extents.end());
  start[0] = begin;
  count[0] = rows;
  SpaceId file_space(context.check(H5Dget_space(dataset), "H5Dget_space"));
  context.check(H5Sselect_hyperslab(file_space.get(), H5S_SELECT_SET, start.data(), nullptr, count.data(), nullptr),
                "H5Sselect_hyperslab");
  SpaceId memory_space(
      context.check(H5Screate_simple(static_cast<int>(count.size()), count.data(), nullptr), "H5Screate_simple"));
  if (direction == Direction::write) {
    context.check(H5Dwrite(dataset, native_type(type), memory_space.get(), file_space.get(), H5P_DEFAULT, data),
                  "H5Dwrite");
  } else {
    context.check(H5Dread(dataset, native_type(type), memory_space.get(), file_space.get(), H5P_DEFAULT, data),
                  "H5Dread");
  }
}

/// The rows [begin, end) in pieces of about kPieceBytes, the library free between pieces. Takes Hold itself.
void transfer(hid_t dataset, H5Type type, std::span<const hsize_t> extents, int64_t begin, int64_t end, void* data,
              Direction direction, const Context& context) {
  int64_t row_bytes = size_of(type);
  for (size_t axis = 1; axis < extents.size(); ++axis) row_bytes *= static_cast<int64_t>(extents[axis]);
  if (row_bytes == 0) return;
  const int64_t piece_rows = std::max<int64_t>(1, kPieceBytes / row_bytes);
  auto* bytes = static_cast<std::byte*>(data);
  for (int64_t row = begin; row < end; row += piece_rows) {
    const int64_t rows = std::min(piece_rows, end - row);
    const Hold hold;
    transfer_rows(dataset, type, extents, static_cast<hsize_t>(row), static_cast<hsize_t>(rows),
                  bytes + (row - begin) * row_bytes, direction, context);
  }
}

H5Type type_of_dataset(hid_t dataset, const Context& context) {
  TypeId type(context.check(H5Dget_type(dataset), "H5Dget_type"));
  const size_t bytes = H5Tget_size(type.get());
  const H5T_class_t kind = H5Tget_class(type.get());
  if (kind == H5T_FLOAT && bytes == 4) return H5Type::f32;
  if (kind == H5T_FLOAT && bytes == 8) return H5Type::f64;
  if (kind == H5T_INTEGER) {
    const bool is_signed = H5Tget_sign(type.get()) == H5T_SGN_2;
    if (bytes == 1 && !is_signed) return H5Type::u8;
    if (bytes == 2 && !is_signed) {
      const bool marked = context.check(H5Aexists(dataset, kTypeAttribute), "H5Aexists") > 0;
      const bool bf16 = marked && read_text_attribute(dataset, kTypeAttribute, context) == kBf16;
      return bf16 ? H5Type::bf16 : H5Type::u16;
    }
    if (bytes == 4) return is_signed ? H5Type::i32 : H5Type::u32;
    if (bytes == 8) return is_signed ? H5Type::i64 : H5Type::u64;
  }
  throw user_error(
      "{}: dataset '{}' has an element type of class {} and {} bytes, expected u8, u16, u32, u64, i32, i64, "
      "f32, f64 or bf16",
      context.file, context.object, static_cast<int>(kind), bytes);
}

void require_exact(H5Type stored, H5Type wanted, const Context& context) {
  if (converts_exactly(stored, wanted)) return;
  throw user_error("{}: dataset '{}' holds {}, which {} cannot represent exactly", context.file, context.object,
                   text_of(stored), text_of(wanted));
}

herr_t collect_dataset(hid_t, const char* name, const H5O_info_t* info, void* names) {
  if (info->type == H5O_TYPE_DATASET) static_cast<std::vector<std::string>*>(names)->emplace_back(name);
  return 0;
}

}  // namespace

H5Type h5_type_of(DType type) {
  switch (type) {
    case DType::f32:
      return H5Type::f32;
    case DType::f64:
      return H5Type::f64;
    case DType::bf16:
      return H5Type::bf16;
    case DType::i32:
      return H5Type::i32;
    case DType::i64:
      return H5Type::i64;
  }
  throw internal_error("hdf5: tensor type {} has no file type", static_cast<int>(type));
}

int64_t size_of(H5Type type) {
  static constexpr int64_t kSizes[] = {1, 2, 4, 4, 8, 8, 4, 8, 2};
  return kSizes[static_cast<int>(type)];
}

Hdf5File::Hdf5File(std::unique_ptr<Handle> handle) : handle_(std::move(handle)) {}
Hdf5File::Hdf5File(Hdf5File&&) noexcept = default;

Hdf5File& Hdf5File::operator=(Hdf5File&& other) noexcept {
  std::swap(handle_, other.handle_);
  return *this;
}

Hdf5File::~Hdf5File() {
  const Hold hold;
  handle_.reset();
}

Hdf5File Hdf5File::create(const std::filesystem::path& path) {
  const Hold hold;
  const std::string text = path.string();
  const Context context{text, kWholeFile};
  const PropertiesId access = access_properties(context);
  FileId id(context.check(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access.get()), "H5Fcreate"));
  return Hdf5File(std::make_unique<Handle>(Handle{std::move(id), text}));
}

Hdf5File Hdf5File::open_read(const std::filesystem::path& path) {
  if (locked_for_writing(path)) {
    throw user_error("{}: another process is writing this file; wait for it to end, then start again", path.string());
  }
  const Hold hold;
  const std::string text = path.string();
  const Context context{text, kWholeFile};
  const PropertiesId access = access_properties(context);
  FileId id(context.check(H5Fopen(path.c_str(), H5F_ACC_RDONLY, access.get()), "H5Fopen"));
  return Hdf5File(std::make_unique<Handle>(Handle{std::move(id), text}));
}

void Hdf5File::write(const std::string& name, H5Type type, std::span<const int64_t> extents, const void* data,
                     int64_t chunk) {
  const Context context = handle_->context(name);
  if (chunk > 0 && extents.size() != 1) {
    throw internal_error("{}: dataset '{}': chunks need rank 1, got {}", context.file, name, extents.size());
  }
  const std::vector<hsize_t> sizes(extents.begin(), extents.end());
  const int64_t rows = extents.empty() ? 1 : extents[0];
  const auto create = [&] {
    const Hold hold;
    return create_dataset(handle_->id.get(), type, sizes, std::min(chunk, rows), false, context);
  };
  DatasetId dataset = create();
  if (extents.empty()) {
    const Hold hold;
    context.check(H5Dwrite(dataset.get(), native_type(type), H5S_ALL, H5S_ALL, H5P_DEFAULT, data), "H5Dwrite");
  } else {
    transfer(dataset.get(), type, sizes, 0, rows, const_cast<void*>(data), Direction::write, context);
  }
  const Hold hold;
  context.check(dataset.close(), "H5Dclose");
}

void Hdf5File::create_growing(const std::string& name, H5Type type, int64_t chunk) {
  const Hold hold;
  const Context context = handle_->context(name);
  if (chunk < 1) throw internal_error("{}: dataset '{}': chunk {} is not positive", context.file, name, chunk);
  const hsize_t nothing = 0;
  DatasetId dataset = create_dataset(handle_->id.get(), type, std::span(&nothing, 1), chunk, true, context);
  context.check(dataset.close(), "H5Dclose");
}

void Hdf5File::append(const std::string& name, H5Type type, const void* data, int64_t count) {
  const Hold hold;
  const Context context = handle_->context(name);
  DatasetId dataset = open_dataset(handle_->id.get(), context);
  std::vector<hsize_t> extents = extents_of(dataset.get(), context);
  if (extents.size() != 1) throw internal_error("{}: dataset '{}': append needs rank 1", context.file, name);
  require_exact(type, type_of_dataset(dataset.get(), context), context);
  const auto old = static_cast<int64_t>(extents[0]);
  extents[0] += static_cast<hsize_t>(count);
  context.check(H5Dset_extent(dataset.get(), extents.data()), "H5Dset_extent");
  transfer(dataset.get(), type, extents, old, old + count, const_cast<void*>(data), Direction::write, context);
  context.check(dataset.close(), "H5Dclose");
}

bool Hdf5File::contains(const std::string& name) const {
  const Hold hold;
  for (size_t end = name.find('/', 1);; end = name.find('/', end + 1)) {  // H5Lexists needs every group on the way
    const htri_t found = H5Lexists(handle_->id.get(), name.substr(0, end).c_str(), H5P_DEFAULT);
    if (found <= 0 || end == std::string::npos) return found > 0;
  }
}

std::vector<std::string> Hdf5File::dataset_names() const {
  const Hold hold;
  const Context context = handle_->context(kWholeFile);
  std::vector<std::string> names;
  context.check(H5Ovisit2(handle_->id.get(), H5_INDEX_NAME, H5_ITER_NATIVE, collect_dataset, &names, H5O_INFO_BASIC),
                "H5Ovisit");
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<int64_t> Hdf5File::extents(const std::string& name) const {
  const Hold hold;
  const Context context = handle_->context(name);
  const DatasetId dataset = open_dataset(handle_->id.get(), context);
  const std::vector<hsize_t> extents = extents_of(dataset.get(), context);
  return {extents.begin(), extents.end()};
}

H5Type Hdf5File::type(const std::string& name) const {
  const Hold hold;
  const Context context = handle_->context(name);
  return type_of_dataset(open_dataset(handle_->id.get(), context).get(), context);
}

void Hdf5File::read(const std::string& name, H5Type memory_type, void* data) const {
  const Context context = handle_->context(name);
  const auto open = [&] {
    const Hold hold;
    DatasetId dataset = open_dataset(handle_->id.get(), context);
    require_exact(type_of_dataset(dataset.get(), context), memory_type, context);
    std::vector<hsize_t> extents = extents_of(dataset.get(), context);
    return std::pair(std::move(dataset), std::move(extents));
  };
  const auto [dataset, extents] = open();
  if (extents.empty()) {
    const Hold hold;
    context.check(H5Dread(dataset.get(), native_type(memory_type), H5S_ALL, H5S_ALL, H5P_DEFAULT, data), "H5Dread");
  } else {
    transfer(dataset.get(), memory_type, extents, 0, static_cast<int64_t>(extents[0]), data, Direction::read, context);
  }
}

void Hdf5File::read_range(const std::string& name, H5Type memory_type, int64_t begin, int64_t count, void* data) const {
  const Hold hold;
  const Context context = handle_->context(name);
  const DatasetId dataset = open_dataset(handle_->id.get(), context);
  const std::vector<hsize_t> extents = extents_of(dataset.get(), context);
  if (extents.size() != 1)
    throw user_error("{}: dataset '{}' has rank {}, expected 1", context.file, name, extents.size());
  if (begin < 0 || count < 0 || begin > static_cast<int64_t>(extents[0]) - count) {
    throw user_error("{}: dataset '{}': elements [{}, {}) asked for, it has {}", context.file, name, begin,
                     begin + count, extents[0]);
  }
  require_exact(type_of_dataset(dataset.get(), context), memory_type, context);
  transfer(dataset.get(), memory_type, extents, begin, begin + count, data, Direction::read, context);
}

void Hdf5File::set_attribute(const std::string& object, const std::string& key, int64_t value) {
  const Hold hold;
  const Context context = handle_->context(object);
  write_attribute(open_object(handle_->id.get(), context).get(), key, H5T_STD_I64LE, H5T_NATIVE_INT64, &value, context);
}

void Hdf5File::set_attribute(const std::string& object, const std::string& key, const std::string& value) {
  const Hold hold;
  const Context context = handle_->context(object);
  write_text_attribute(open_object(handle_->id.get(), context).get(), key, value, context);
}

bool Hdf5File::has_attribute(const std::string& object, const std::string& key) const {
  const Hold hold;
  const Context context = handle_->context(object);
  return context.check(H5Aexists(open_object(handle_->id.get(), context).get(), key.c_str()), "H5Aexists") > 0;
}

int64_t Hdf5File::int_attribute(const std::string& object, const std::string& key) const {
  const Hold hold;
  const Context context = handle_->context(object);
  const ObjectId opened = open_object(handle_->id.get(), context);
  AttributeId attribute(context.check(H5Aopen(opened.get(), key.c_str(), H5P_DEFAULT), "H5Aopen"));
  TypeId type(context.check(H5Aget_type(attribute.get()), "H5Aget_type"));
  SpaceId space(context.check(H5Aget_space(attribute.get()), "H5Aget_space"));
  if (H5Tget_class(type.get()) != H5T_INTEGER || H5Sget_simple_extent_npoints(space.get()) != 1) {
    throw user_error("{}: attribute '{}' of '{}' is not one integer", context.file, key, object);
  }
  int64_t value = 0;
  context.check(H5Aread(attribute.get(), H5T_NATIVE_INT64, &value), "H5Aread");
  return value;
}

std::string Hdf5File::text_attribute(const std::string& object, const std::string& key) const {
  const Hold hold;
  const Context context = handle_->context(object);
  return read_text_attribute(open_object(handle_->id.get(), context).get(), key, context);
}

void Hdf5File::close() {
  if (!handle_) return;
  const Hold hold;
  const Context context = handle_->context(kWholeFile);
  context.check(H5Fflush(handle_->id.get(), H5F_SCOPE_LOCAL), "H5Fflush");
  context.check(handle_->id.close(), "H5Fclose");
  handle_.reset();
}

std::string hdf5_version_compiled() { return fmt::format("{}.{}.{}", H5_VERS_MAJOR, H5_VERS_MINOR, H5_VERS_RELEASE); }

std::string hdf5_version_loaded() {
  const Hold hold;
  unsigned major = 0, minor = 0, release = 0;
  H5get_libversion(&major, &minor, &release);
  return fmt::format("{}.{}.{}", major, minor, release);
}

}  // namespace longhaul
