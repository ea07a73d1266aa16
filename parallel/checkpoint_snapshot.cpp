#include "parallel/checkpoint_snapshot.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <numeric>
#include <tuple>

#include "core/io/checksum.h"
#include "core/io/file.h"
#include "core/io/hdf5_file.h"
#include "kernels/error.h"

namespace longhaul {

namespace {

constexpr int64_t kAlignment = 64;

void require_valid(const TensorSlice& slice) {
  const int64_t total = slice.shape.count();
  if (slice.kind.empty() || slice.name.empty()) throw internal_error("checkpoint: a slice without kind or name");
  if (slice.offset < 0 || slice.count < 0 || slice.offset > total - slice.count) {
    throw internal_error("checkpoint: slice [{}, {}) of tensor '{}' {} with {} elements", slice.offset,
                         slice.offset + slice.count, slice.key(), slice.shape.text(), total);
  }
}

/// True when `slice` goes on where `piece` ends.
bool adjoins(const RankPiece& piece, const TensorSlice& slice) {
  return piece.name == slice.key() && piece.shape == slice.shape && piece.dtype == slice.dtype &&
         piece.offset + piece.count == slice.offset;
}

}  // namespace

CheckpointSnapshot::CheckpointSnapshot(std::span<const TensorSlice> slices) {
  std::for_each(slices.begin(), slices.end(), require_valid);
  std::vector<size_t> order(slices.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    const TensorSlice &left = slices[a], &right = slices[b];
    return std::tie(left.kind, left.name, left.offset, a) < std::tie(right.kind, right.name, right.offset, b);
  });
  std::vector<int64_t> destinations(slices.size());
  int64_t bytes = 0;
  for (const size_t index : order) {
    const TensorSlice& slice = slices[index];
    if (!pieces_.empty() && pieces_.back().name == slice.key() &&
        slice.offset < pieces_.back().offset + pieces_.back().count) {
      throw internal_error("checkpoint: two slices of tensor '{}' hold element {}", slice.key(), slice.offset);
    }
    if (!pieces_.empty() && adjoins(pieces_.back(), slice)) {
      pieces_.back().count += slice.count;
    } else {
      bytes = (bytes + kAlignment - 1) / kAlignment * kAlignment;
      pieces_.push_back({slice.key(), slice.shape, slice.dtype, slice.offset, slice.count});
      starts_.push_back(bytes);
    }
    destinations[index] = bytes;
    bytes += slice.count * size_of(slice.dtype);
  }
  memory_.reset(new (std::nothrow) std::byte[static_cast<size_t>(bytes)]);
  if (!memory_) throw system_error("checkpoint: no memory for a snapshot of {} bytes", bytes);
  for (size_t index = 0; index < slices.size(); ++index) {
    const TensorSlice& slice = slices[index];
    if (slice.count == 0) continue;
    std::memcpy(memory_.get() + destinations[index], slice.data,
                static_cast<size_t>(slice.count * size_of(slice.dtype)));
  }
}

RankTable CheckpointSnapshot::write(const fs::path& directory, const std::string& name, const std::string& run_id,
                                    int64_t step) const {
  const fs::path path = directory / name;
  Hdf5File file = Hdf5File::create(path);
  file.set_attribute("/", "run_id", run_id);
  file.set_attribute("/", "step", step);
  for (size_t index = 0; index < pieces_.size(); ++index) {
    const RankPiece& piece = pieces_[index];
    if (piece.count == 0) continue;
    const int64_t count = piece.count;
    file.write(piece_dataset(piece.name, piece.offset), h5_type_of(piece.dtype), std::span(&count, 1),
               memory_.get() + starts_[index]);
  }
  file.close();
  sync_file(path);
  sync_directory(directory);
  return {{name, digest_file(path)}, pieces_};
}

}  // namespace longhaul
