#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backend/train/id_numbers.h"

namespace foxscope {

/// Largest chunk of a zarr array that is read, in bytes.
inline constexpr std::size_t kLargestZarrChunk = std::size_t{1} << 28;

/// An array of token ids in zarr's format 2, in a folder: `.zarray` describes it, and every chunk is a file `j` of one
/// axis, or `i.j` of two. Chunks are in C order, as they are or compressed by blosc or zstd.
class ZarrArray {
 public:
  /// @throws Error naming the file: no array of format 2; filters, an order, a dtype or a compressor that is not read;
  ///         sizes that are not sound
  explicit ZarrArray(const std::filesystem::path& folder, std::size_t largest_chunk = kLargestZarrChunk);

  [[nodiscard]] const std::filesystem::path& folder() const { return folder_; }
  [[nodiscard]] IdType type() const { return type_; }
  /// [T] or [D, T]
  [[nodiscard]] const std::vector<std::int64_t>& shape() const { return shape_; }
  /// Numbers of a chunk along each axis; the chunks at the end are as large as all others.
  [[nodiscard]] const std::vector<std::int64_t>& chunk_shape() const { return chunk_shape_; }
  /// Chunks along each axis.
  [[nodiscard]] const std::vector<std::int64_t>& chunk_counts() const { return chunk_counts_; }
  [[nodiscard]] std::size_t chunk_bytes() const { return chunk_bytes_; }
  /// The file of a chunk, whether it is there or not.
  /// @param index  one for each axis
  [[nodiscard]] std::filesystem::path chunk_file(std::span<const std::int64_t> index) const;

  /// The numbers of a chunk, chunk_bytes() of them; the fill value throughout where its file is missing. From any
  /// number of threads at once.
  /// @throws Error naming the file: unreadable, damaged, cut short, of another size; and missing without a fill value
  [[nodiscard]] std::unique_ptr<std::byte[]> read_chunk(std::span<const std::int64_t> index) const;

  /// SHA-256 over `.zarray` and over the beginnings and sizes of up to 256 chunk files that are spread evenly.
  [[nodiscard]] std::string fingerprint() const;

 private:
  enum class Compressor { none, blosc, zstd };
  void parse(const std::string& content, const std::string& name, std::size_t largest_chunk);
  void decompress(std::span<const char> file, std::span<std::byte> numbers, const std::string& name) const;

  std::filesystem::path folder_;
  std::string metadata_;  ///< content of .zarray
  IdType type_ = IdType::int64;
  std::vector<std::int64_t> shape_;
  std::vector<std::int64_t> chunk_shape_;
  std::vector<std::int64_t> chunk_counts_;
  std::size_t chunk_bytes_ = 0;
  Compressor compressor_ = Compressor::none;
  std::optional<std::int64_t> fill_value_;
  char separator_ = '.';
};

/// Whether a folder holds an array or a group of zarr, of whatever format.
bool is_zarr(const std::filesystem::path& folder);

}  // namespace foxscope
