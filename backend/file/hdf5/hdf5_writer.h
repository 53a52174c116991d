#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backend/base/atomic_file.h"
#include "backend/file/element.h"
#include "backend/file/hdf5/chunk_packing.h"

namespace foxscope {

/// Writes the groups, attributes and datasets that Foxscope's files are made of. Paths are absolute; missing groups on
/// the way are created. Calls into libhdf5, which knows no threads, are made one at a time in the whole process.
/// Every method throws Error naming the file when the disk is full or libhdf5 fails.
class Hdf5Writer {
 public:
  /// @param file  must outlive the writer; after close() it holds a whole HDF5 file
  explicit Hdf5Writer(const AtomicFile& file);
  ~Hdf5Writer();
  Hdf5Writer(const Hdf5Writer&) = delete;
  Hdf5Writer& operator=(const Hdf5Writer&) = delete;

  void group(const std::string& path);
  void attribute(const std::string& path, const char* name, std::string_view value);
  void attribute(const std::string& path, const char* name, std::int64_t value);
  void attribute(const std::string& path, const char* name, double value);
  void attribute(const std::string& path, const char* name, std::span<const std::int64_t> values);
  void attribute(const std::string& path, const char* name, std::span<const double> values);
  void attribute(const std::string& path, const char* name, std::span<const std::string> values);

  /// One variable-length UTF-8 string, or a list of them, in which, as in attributes, what is not UTF-8 is replaced.
  void text(const std::string& path, const std::string& value);
  void strings(const std::string& path, std::span<const std::string> values);

  /// A whole dataset, C order: in compressed chunks, or in one piece when small.
  /// @param executor  compresses the chunks; null: the calling thread does
  void array(const std::string& path, Element element, const std::vector<std::uint64_t>& dims, const void* data,
             kernels::Executor* executor);

  /// A dataset without a filter whose place in the file is fixed at once, for the caller to fill past libhdf5.
  /// @returns offset of its first byte
  std::uint64_t reserve(const std::string& path, Element element, const std::vector<std::uint64_t>& dims);

  /// A dataset [rows, columns] of float32 in compressed chunks, to be filled by stripes of rows; NaN where nothing is.
  void begin_image(const std::string& path, std::uint64_t rows, std::uint64_t columns);
  /// Rows of chunks; stripes begin at multiples of it.
  [[nodiscard]] std::uint64_t image_chunk_rows(const std::string& path) const;
  void image_rows(const std::string& path, std::uint64_t first_row, std::uint64_t rows, const float* data,
                  kernels::Executor* executor);

  /// A second name for an object.
  void link(const std::string& existing, const std::string& path);
  /// Makes a dataset a dimension scale.
  void make_scale(const std::string& path, const char* name);
  /// Says which scale belongs to a dimension of a dataset.
  void attach_scale(const std::string& path, unsigned dimension, const std::string& scale);

  /// Completes the file. No other call may follow.
  void close();

 private:
  struct State;
  struct Chunked;

  void check(bool succeeded, const std::string& path, const char* what) const;
  void write_string_attribute(const std::string& path, const char* name, std::span<const char* const> values,
                              bool scalar);
  void write_attribute(const std::string& path, const char* name, Element element, std::span<const std::uint64_t> dims,
                       const void* data);
  void write_strings(const std::string& path, std::span<const char* const> values, bool scalar);
  void create_chunked(const std::string& path, const ChunkedShape& shape, bool sparse);
  void write_chunks(const std::string& path, std::uint64_t first_row, std::uint64_t rows, const void* data,
                    kernels::Executor* executor);

  const AtomicFile& file_;
  std::unique_ptr<State> state_;
};

}  // namespace foxscope
