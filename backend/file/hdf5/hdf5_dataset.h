#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "backend/file/element.h"
#include "backend/file/hdf5/hdf5_chunks.h"
#include "backend/file/hdf5/hdf5_heap.h"
#include "backend/file/hdf5/hdf5_object.h"

namespace foxscope {

/// The data of a dataset: contiguous, compact, or in chunks with the filters shuffle and deflate. What was never
/// written reads as the dataset's fill value, 0 where it names none, as in other readers.
class Hdf5Dataset {
 public:
  explicit Hdf5Dataset(const Hdf5Object& object);

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] const std::vector<std::uint64_t>& dims() const { return shape_.dims; }
  [[nodiscard]] std::uint64_t count() const { return count_; }
  [[nodiscard]] const Hdf5Type& type() const { return type_; }

  /// "float32 [4, 60]", for messages.
  [[nodiscard]] std::string form() const;
  /// The form that `require` asks for.
  static std::string form(Element element, const std::vector<std::uint64_t>& dims);
  /// @throws Error naming what was expected and what was found
  void require(Element element, const std::vector<std::uint64_t>& dims) const;

  /// Bytes of the numbers, and those that they take in the file.
  [[nodiscard]] std::uint64_t bytes() const { return hdf5_product(shape_.dims, type_.size); }
  [[nodiscard]] std::uint64_t stored_bytes() const;
  /// A list has at most as many entries as its file has bytes, or kShortList.
  /// @throws Error naming both
  void require_list() const;
  static constexpr std::uint64_t kShortList = std::uint64_t{1} << 20U;
  /// Arrays that are read whole hold at most so many times the bytes of their file, and kSmallArray: deflate alone
  /// would allow a thousand times, and a file of losses, where short windows are filled up with NaN, comes to 150.
  static constexpr std::uint64_t kMostInflation = 256;
  static constexpr std::uint64_t kSmallArray = std::uint64_t{64} << 20U;
  /// @throws Error naming the shape and the file's size
  void require_inflation(std::uint64_t most) const;

  /// All numbers, C order; the size is that of T, and the type must have been required before.
  /// @throws Error where they are damaged, and for more than kMostInflation allows
  template <typename T>
  [[nodiscard]] std::vector<T> values() const {
    require_inflation(kMostInflation);
    std::vector<T> result(count_);
    read(std::as_writable_bytes(std::span(result)));
    return result;
  }
  /// Whether a row, along the last axis, is read without the others.
  [[nodiscard]] bool has_rows() const;
  /// Some numbers that follow one another, in C order; of chunks, those alone that hold some of them are read. @throws
  /// Error likewise
  template <typename T>
  [[nodiscard]] std::vector<T> values(std::uint64_t begin, std::uint64_t count) const {
    require_inflation(kMostInflation);
    std::vector<T> result(count);
    read_part(begin, std::as_writable_bytes(std::span(result)));
    return result;
  }
  /// Whether all numbers, float64, are 0: read piece by piece, and no further than to one that is not.
  /// @throws Error where what is read is damaged
  [[nodiscard]] bool is_zero() const;
  /// @throws Error where they are no strings or damaged, or the list is too long for its file
  std::vector<std::string> texts(Hdf5Heap& heap) const;

  /// Where the numbers lie in the file, one after the other.
  /// @throws Error if they are in chunks
  [[nodiscard]] std::uint64_t offset() const;

 private:
  enum class Layout { compact, contiguous, chunked };

  void decode_layout(Hdf5Cursor cursor);
  void decode_filters(Hdf5Cursor cursor);
  void decode_fill(const Hdf5Object& object);
  /// Whether some or all of the numbers were never written.
  [[nodiscard]] bool has_gaps() const;
  void fill(std::span<std::byte> bytes) const;
  void read(std::span<std::byte> bytes) const;
  void read_part(std::uint64_t begin, std::span<std::byte> bytes) const;
  class Unpacking;
  std::span<const std::byte> unpack(const Hdf5Chunk& chunk, Unpacking& memory) const;
  template <typename Visit>
  void visit_rows(const Hdf5Chunk& chunk, Visit visit) const;

  std::shared_ptr<const Hdf5File> file_;
  std::string path_;
  Hdf5Type type_;
  Hdf5Shape shape_;
  std::uint64_t count_ = 0;
  Layout layout_ = Layout::contiguous;
  std::vector<std::byte> compact_;
  std::uint64_t offset_ = kHdf5Undefined;  ///< of contiguous data; undefined: never written
  std::vector<std::byte> fill_;            ///< what never written numbers are; empty: 0
  Hdf5Chunking chunking_;
  std::vector<std::uint16_t> filters_;
};

/// The bytes that one reading has taken from a file. A file that names one thing many times must not be read as often:
/// models and layers are groups of their own, and arrays do not share bytes.
class Hdf5Account {
 public:
  explicit Hdf5Account(const Hdf5File& file) : file_(file) {}

  /// @throws Error for a group that was taken before, under another name
  void take(const Hdf5Object& group);
  /// An array that stays in the file. @throws Error when such arrays are longer than the file
  void take_stored(const Hdf5Dataset& dataset);
  /// An array that is read whole. @throws Error when all of them hold more than `most` times the bytes of the file
  void take_values(const Hdf5Dataset& dataset, std::uint64_t most = Hdf5Dataset::kMostInflation);

 private:
  const Hdf5File& file_;
  std::set<std::uint64_t> groups_;
  std::uint64_t stored_ = 0;
  std::uint64_t values_ = 0;
};

}  // namespace foxscope
