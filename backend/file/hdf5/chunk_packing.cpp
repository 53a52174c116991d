#include "backend/file/hdf5/chunk_packing.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>
#include <new>
#include <span>

#include "backend/base/index.h"
#include "backend/file/hdf5/chunk_codec.h"
#include "kernels/executor.h"

namespace foxscope {
namespace {

constexpr std::uint64_t kChunkBytes = 128 * 1024;

bool all_nan(std::span<const std::byte> chunk) {
  for (std::size_t n = 0; n < chunk.size(); n += sizeof(float)) {
    float value = 0;
    std::memcpy(&value, chunk.data() + n, sizeof(float));
    if (!std::isnan(value)) return false;
  }
  return true;
}

/// The rows of one packing as a table of chunks, C order.
class ChunkTable {
 public:
  ChunkTable(const ChunkedShape& shape, std::uint64_t first_row, std::uint64_t rows, const void* data)
      : shape_(shape),
        element_bytes_(size_of(shape.element)),
        dims_(shape.dims),
        first_row_(first_row),
        data_(static_cast<const std::byte*>(data)) {
    dims_.front() = rows;
    for (std::size_t axis = 0; axis < dims_.size(); ++axis) {
      across_.push_back((dims_[axis] + shape.chunk[axis] - 1) / shape.chunk[axis]);
      count_ *= across_.back();
      chunk_elements_ *= shape.chunk[axis];
    }
  }

  [[nodiscard]] std::uint64_t count() const { return count_; }

  [[nodiscard]] PackedChunk pack(std::uint64_t index, bool sparse) const {
    PackedChunk packed;
    packed.first = first_of(index);
    const std::vector<std::byte> chunk = gather(packed.first);
    packed.first.front() += first_row_;
    packed.left_out = sparse && all_nan(chunk);
    if (packed.left_out) return packed;
    std::vector<std::byte> shuffled(chunk.size());
    shuffle(chunk, element_bytes_, shuffled);
    const bool whole_numbers = shape_.element == Element::int32 || shape_.element == Element::int64;
    packed.bytes = deflate_chunk(shuffled, element_bytes_, Effort::runs);
    if (whole_numbers) {
      // Counts repeat, and lower bytes of sums do not.
      std::vector<std::byte> other = deflate_chunk(shuffled, element_bytes_, Effort::matches);
      if (!other.empty() && (packed.bytes.empty() || other.size() < packed.bytes.size()))
        packed.bytes = std::move(other);
    }
    packed.deflated = !packed.bytes.empty();
    if (!packed.deflated) packed.bytes = std::move(shuffled);
    return packed;
  }

 private:
  /// Where a chunk begins among the rows.
  [[nodiscard]] std::vector<std::uint64_t> first_of(std::uint64_t index) const {
    std::vector<std::uint64_t> first(dims_.size());
    for (std::size_t axis = dims_.size(); axis-- > 0; index /= across_[axis]) {
      first[axis] = index % across_[axis] * shape_.chunk[axis];
    }
    return first;
  }

  /// The chunk's elements; beyond the array's edges there is what compresses best and nobody reads.
  [[nodiscard]] std::vector<std::byte> gather(const std::vector<std::uint64_t>& first) const {
    std::vector<std::byte> chunk(chunk_elements_ * element_bytes_);
    if (shape_.element == Element::float32) {
      const float absent = std::numeric_limits<float>::quiet_NaN();
      for (std::size_t n = 0; n < chunk.size(); n += sizeof(float)) std::memcpy(chunk.data() + n, &absent, 4);
    }
    copy_axis(0, first, 0, 0, chunk);
    return chunk;
  }

  /// Copies what the array has of a chunk along an axis and those behind it.
  /// @param from, to  elements before it, of the array and of the chunk, in units of the axis
  void copy_axis(std::size_t axis, const std::vector<std::uint64_t>& first, std::uint64_t from, std::uint64_t to,
                 std::vector<std::byte>& chunk) const {
    from = from * dims_[axis] + first[axis];
    to *= shape_.chunk[axis];
    const std::uint64_t width = std::min(shape_.chunk[axis], dims_[axis] - first[axis]);
    if (axis + 1 == dims_.size()) {
      std::memcpy(chunk.data() + to * element_bytes_, data_ + from * element_bytes_, width * element_bytes_);
      return;
    }
    for (std::uint64_t n = 0; n < width; ++n) copy_axis(axis + 1, first, from + n, to + n, chunk);
  }

  const ChunkedShape& shape_;
  std::size_t element_bytes_;
  std::vector<std::uint64_t> dims_;    ///< of the rows that are packed
  std::vector<std::uint64_t> across_;  ///< chunks along each axis
  std::uint64_t count_ = 1;
  std::uint64_t chunk_elements_ = 1;
  std::uint64_t first_row_;
  const std::byte* data_;
};

}  // namespace

std::vector<std::uint64_t> chunk_shape(const std::vector<std::uint64_t>& dims, std::size_t element_size) {
  std::vector<std::uint64_t> chunk(dims.size(), 1);
  std::uint64_t left = kChunkBytes / element_size;
  for (std::size_t axis = dims.size(); axis-- > 0;) {
    chunk[axis] = std::clamp<std::uint64_t>(left, 1, std::max<std::uint64_t>(1, dims[axis]));
    left /= chunk[axis];
  }
  return chunk;
}

std::vector<PackedChunk> pack_chunks(const ChunkedShape& shape, std::uint64_t first_row, std::uint64_t rows,
                                     const void* data, bool sparse, kernels::Executor* executor) {
  const ChunkTable table(shape, first_row, rows, data);
  std::vector<PackedChunk> packed(table.count());
  std::atomic<bool> out_of_memory = false;  // tasks of an executor must not throw
  const auto work = [&](std::int64_t task, int /*thread*/) {
    try {
      packed[index_of(task)] = table.pack(static_cast<std::uint64_t>(task), sparse);
    } catch (const std::bad_alloc&) {
      out_of_memory = true;
    }
  };
  const auto count = static_cast<std::int64_t>(packed.size());
  if (executor != nullptr) {
    executor->run(count, work);
  } else {
    for (std::int64_t n = 0; n < count; ++n) work(n, 0);
  }
  if (out_of_memory) throw std::bad_alloc();
  return packed;
}

}  // namespace foxscope
