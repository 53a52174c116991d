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

/// The rows of one packing as a table of chunks.
class ChunkTable {
 public:
  ChunkTable(const ChunkedShape& shape, std::uint64_t first_row, std::uint64_t rows, const void* data)
      : shape_(shape),
        element_bytes_(size_of(shape.element)),
        columns_(shape.dims.back()),
        chunk_rows_(shape.chunk.size() == 2 ? shape.chunk[0] : 1),
        chunk_columns_(shape.chunk.back()),
        across_((columns_ + chunk_columns_ - 1) / chunk_columns_),
        first_row_(first_row),
        rows_(shape.dims.size() == 2 ? rows : 1),
        data_(static_cast<const std::byte*>(data)) {}

  [[nodiscard]] std::uint64_t count() const { return across_ * ((rows_ + chunk_rows_ - 1) / chunk_rows_); }

  [[nodiscard]] PackedChunk pack(std::uint64_t index, bool sparse) const {
    PackedChunk packed;
    packed.first = {first_row_ + index / across_ * chunk_rows_, index % across_ * chunk_columns_};
    if (shape_.dims.size() == 1) packed.first.erase(packed.first.begin());
    const std::vector<std::byte> chunk = gather(index);
    packed.left_out = sparse && all_nan(chunk);
    if (packed.left_out) return packed;
    std::vector<std::byte> shuffled(chunk.size());
    shuffle(chunk, element_bytes_, shuffled);
    const bool whole_numbers = shape_.element == Element::int32 || shape_.element == Element::int64;
    packed.bytes = deflate_chunk(shuffled, whole_numbers ? Effort::matches : Effort::runs);
    packed.deflated = !packed.bytes.empty();
    if (!packed.deflated) packed.bytes = std::move(shuffled);
    return packed;
  }

 private:
  /// The chunk's elements; beyond the array's edges there is what compresses best and nobody reads.
  [[nodiscard]] std::vector<std::byte> gather(std::uint64_t index) const {
    std::vector<std::byte> chunk(chunk_rows_ * chunk_columns_ * element_bytes_);
    if (shape_.element == Element::float32) {
      const float absent = std::numeric_limits<float>::quiet_NaN();
      for (std::size_t n = 0; n < chunk.size(); n += sizeof(float)) std::memcpy(chunk.data() + n, &absent, 4);
    }
    const std::uint64_t top = index / across_ * chunk_rows_;
    const std::uint64_t left = index % across_ * chunk_columns_;
    const std::uint64_t width = std::min(chunk_columns_, columns_ - left) * element_bytes_;
    for (std::uint64_t row = top; row < std::min(rows_, top + chunk_rows_); ++row) {
      std::memcpy(chunk.data() + (row - top) * chunk_columns_ * element_bytes_,
                  data_ + (row * columns_ + left) * element_bytes_, width);
    }
    return chunk;
  }

  const ChunkedShape& shape_;
  std::size_t element_bytes_;
  std::uint64_t columns_, chunk_rows_, chunk_columns_, across_, first_row_, rows_;
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
