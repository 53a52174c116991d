#include "backend/file/hdf5/hdf5_writer.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <map>
#include <utility>

#include <fmt/format.h>
#include <hdf5.h>
#include <hdf5_hl.h>

#include "backend/base/error.h"
#include "backend/file/hdf5/hdf5_driver.h"
#include "backend/file/hdf5/hdf5_library.h"
#include "backend/text/tokenizer.h"

namespace foxscope {

using hdf5::dataset_properties;
using hdf5::element_type;
using hdf5::Handle;
using hdf5::library_mutex;
using hdf5::link_properties;
using hdf5::make_space;
using hdf5::string_type;

static_assert(std::endian::native == std::endian::little, "arrays are written as they lie in memory");

namespace {

/// Below this a chunk index costs more than compression saves.
constexpr std::uint64_t kSmallestChunkedBytes = 2048;
/// The parameter of the filter; readers do not care.
constexpr unsigned kDeflateLevel = 1;
/// Large arrays begin where the system's pages of 64 KiB do: q and k are written past libhdf5 in pieces of that size.
constexpr hsize_t kAlignmentThreshold = 1024 * 1024;
constexpr hsize_t kLargeAlignment = 64 * 1024;
constexpr unsigned kSkipDeflate = 1U << 1U;  // bit of the second filter

/// A string as HDF5 can hold it: NUL is spelled out, what is not UTF-8 (part of a character, a file's name) replaced.
std::string as_hdf5_string(std::string_view text) {
  std::string escaped;
  for (const char c : text) c == '\0' ? escaped.append("\\x00") : escaped.append(1, c);
  return find_invalid_utf8(escaped) ? replace_invalid_utf8(escaped) : escaped;
}

std::vector<std::string> as_hdf5_strings(std::span<const std::string> values) {
  std::vector<std::string> strings;
  strings.reserve(values.size());
  for (const std::string& value : values) strings.push_back(as_hdf5_string(value));
  return strings;
}

std::vector<const char*> pointers(std::span<const std::string> values) {
  std::vector<const char*> result;
  result.reserve(values.size());
  for (const std::string& value : values) result.push_back(value.c_str());
  return result;
}

}  // namespace

struct Hdf5Writer::Chunked {
  Handle id;
  ChunkedShape shape;
  bool sparse;
};

struct Hdf5Writer::State {
  Hdf5DriverTarget target;
  Handle file{-1, H5Fclose};
  std::map<std::string, Chunked> chunked;  ///< datasets being filled, by path
};

Hdf5Writer::Hdf5Writer(const AtomicFile& file) : file_(file), state_(std::make_unique<State>()) {
  const std::lock_guard lock(library_mutex());
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  state_->target.file = &file;
  const Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
  check(set_atomic_file_driver(access.get(), &state_->target) >= 0, "/", "driver");
  H5Pset_libver_bounds(access.get(), H5F_LIBVER_EARLIEST, H5F_LIBVER_LATEST);
  H5Pset_alignment(access.get(), kAlignmentThreshold, kLargeAlignment);
  const Handle creation(H5Pcreate(H5P_FILE_CREATE), H5Pclose);
  H5Pset_obj_track_times(creation.get(), false);
  state_->file = Handle(H5Fcreate("run", H5F_ACC_TRUNC, creation.get(), access.get()), H5Fclose);
  check(state_->file.valid(), "/", "create");
}

Hdf5Writer::~Hdf5Writer() {
  const std::lock_guard lock(library_mutex());
  state_->chunked.clear();
  state_->file.reset();
}

void Hdf5Writer::check(bool succeeded, const std::string& path, const char* what) const {
  if (state_->target.error_number != 0) file_.throw_write_error(state_->target.error_number);
  if (succeeded) return;
  throw Error(fmt::format("{}: libhdf5 failed ({} of {}): check that the disk is sound, or write elsewhere",
                          file_.target().string(), what, path));
}

void Hdf5Writer::group(const std::string& path) {
  const std::lock_guard lock(library_mutex());
  const Handle links = link_properties();
  const Handle id(H5Gcreate2(state_->file.get(), path.c_str(), links.get(), H5P_DEFAULT, H5P_DEFAULT), H5Gclose);
  check(id.valid(), path, "group");
}

void Hdf5Writer::write_attribute(const std::string& path, const char* name, Element element,
                                 std::span<const std::uint64_t> dims, const void* data) {
  const std::lock_guard lock(library_mutex());
  const Handle type = element_type(element);
  const Handle space = make_space(dims);
  const Handle id(H5Acreate_by_name(state_->file.get(), path.c_str(), name, type.get(), space.get(), H5P_DEFAULT,
                                    H5P_DEFAULT, H5P_DEFAULT),
                  H5Aclose);
  check(id.valid() && H5Awrite(id.get(), type.get(), data) >= 0, path, name);
}

void Hdf5Writer::attribute(const std::string& path, const char* name, std::int64_t value) {
  write_attribute(path, name, Element::int64, {}, &value);
}

void Hdf5Writer::attribute(const std::string& path, const char* name, double value) {
  write_attribute(path, name, Element::float64, {}, &value);
}

void Hdf5Writer::attribute(const std::string& path, const char* name, std::span<const std::int64_t> values) {
  const std::uint64_t count = values.size();
  write_attribute(path, name, Element::int64, std::span(&count, 1), values.data());
}

void Hdf5Writer::attribute(const std::string& path, const char* name, std::span<const double> values) {
  const std::uint64_t count = values.size();
  write_attribute(path, name, Element::float64, std::span(&count, 1), values.data());
}

void Hdf5Writer::write_string_attribute(const std::string& path, const char* name, std::span<const char* const> values,
                                        bool scalar) {
  const std::lock_guard lock(library_mutex());
  const Handle type = string_type();
  const std::uint64_t count = values.size();
  const Handle space = make_space(scalar ? std::span<const std::uint64_t>{} : std::span(&count, 1));
  const Handle id(H5Acreate_by_name(state_->file.get(), path.c_str(), name, type.get(), space.get(), H5P_DEFAULT,
                                    H5P_DEFAULT, H5P_DEFAULT),
                  H5Aclose);
  check(id.valid() && H5Awrite(id.get(), type.get(), values.data()) >= 0, path, name);
}

void Hdf5Writer::attribute(const std::string& path, const char* name, std::string_view value) {
  const std::string terminated = as_hdf5_string(value);
  const char* const pointer = terminated.c_str();
  write_string_attribute(path, name, std::span(&pointer, 1), true);
}

void Hdf5Writer::attribute(const std::string& path, const char* name, std::span<const std::string> values) {
  write_string_attribute(path, name, pointers(as_hdf5_strings(values)), false);
}

void Hdf5Writer::write_strings(const std::string& path, std::span<const char* const> values, bool scalar) {
  const std::lock_guard lock(library_mutex());
  const Handle type = string_type();
  const std::uint64_t count = values.size();
  const Handle space = make_space(scalar ? std::span<const std::uint64_t>{} : std::span(&count, 1));
  const Handle creation = dataset_properties();
  const Handle links = link_properties();
  const Handle id(
      H5Dcreate2(state_->file.get(), path.c_str(), type.get(), space.get(), links.get(), creation.get(), H5P_DEFAULT),
      H5Dclose);
  check(id.valid() && H5Dwrite(id.get(), type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()) >= 0, path,
        "strings");
}

void Hdf5Writer::text(const std::string& path, const std::string& value) {
  const char* const pointer = value.c_str();
  write_strings(path, std::span(&pointer, 1), true);
}

void Hdf5Writer::strings(const std::string& path, std::span<const std::string> values) {
  write_strings(path, pointers(as_hdf5_strings(values)), false);
}

std::uint64_t Hdf5Writer::reserve(const std::string& path, Element element, const std::vector<std::uint64_t>& dims) {
  const std::lock_guard lock(library_mutex());
  const Handle type = element_type(element);
  const Handle space = make_space(dims);
  const Handle creation = dataset_properties();
  H5Pset_layout(creation.get(), H5D_CONTIGUOUS);
  H5Pset_alloc_time(creation.get(), H5D_ALLOC_TIME_EARLY);
  H5Pset_fill_time(creation.get(), H5D_FILL_TIME_NEVER);
  const Handle links = link_properties();
  const Handle id(
      H5Dcreate2(state_->file.get(), path.c_str(), type.get(), space.get(), links.get(), creation.get(), H5P_DEFAULT),
      H5Dclose);
  const haddr_t offset = id.valid() ? H5Dget_offset(id.get()) : HADDR_UNDEF;
  check(offset != HADDR_UNDEF, path, "dataset");
  return offset;
}

void Hdf5Writer::array(const std::string& path, Element element, const std::vector<std::uint64_t>& dims,
                       const void* data, kernels::Executor* executor) {
  std::uint64_t bytes = size_of(element);
  for (const std::uint64_t extent : dims) bytes *= extent;
  if (bytes >= kSmallestChunkedBytes) {
    create_chunked(path, {element, dims, chunk_shape(dims, size_of(element))}, false);
    write_chunks(path, 0, dims[0], data, executor);
    const std::lock_guard lock(library_mutex());
    state_->chunked.erase(path);
    return;
  }
  const std::uint64_t offset = reserve(path, element, dims);
  if (const int error = file_.try_write_at(offset, data, bytes); error != 0) file_.throw_write_error(error);
}

void Hdf5Writer::create_chunked(const std::string& path, const ChunkedShape& shape, bool sparse) {
  const std::lock_guard lock(library_mutex());
  const Handle type = element_type(shape.element);
  const Handle space = make_space(shape.dims);
  const Handle creation = dataset_properties();
  const std::vector<hsize_t> chunk(shape.chunk.begin(), shape.chunk.end());
  H5Pset_chunk(creation.get(), static_cast<int>(chunk.size()), chunk.data());
  H5Pset_shuffle(creation.get());
  H5Pset_deflate(creation.get(), kDeflateLevel);
  if (sparse) {
    const float absent = std::numeric_limits<float>::quiet_NaN();
    H5Pset_fill_value(creation.get(), H5T_NATIVE_FLOAT, &absent);
  }
  const Handle links = link_properties();
  Handle id(
      H5Dcreate2(state_->file.get(), path.c_str(), type.get(), space.get(), links.get(), creation.get(), H5P_DEFAULT),
      H5Dclose);
  check(id.valid(), path, "dataset");
  state_->chunked.emplace(path, Chunked{std::move(id), shape, sparse});
}

void Hdf5Writer::write_chunks(const std::string& path, std::uint64_t first_row, std::uint64_t rows, const void* data,
                              kernels::Executor* executor) {
  const Chunked& dataset = state_->chunked.at(path);
  const std::vector<PackedChunk> chunks = pack_chunks(dataset.shape, first_row, rows, data, dataset.sparse, executor);
  const std::lock_guard lock(library_mutex());
  for (const PackedChunk& chunk : chunks) {
    if (chunk.left_out) continue;
    const std::vector<hsize_t> first(chunk.first.begin(), chunk.first.end());
    check(H5Dwrite_chunk(dataset.id.get(), H5P_DEFAULT, chunk.deflated ? 0 : kSkipDeflate, first.data(),
                         chunk.bytes.size(), chunk.bytes.data()) >= 0,
          path, "chunk");
  }
}

void Hdf5Writer::begin_image(const std::string& path, std::uint64_t rows, std::uint64_t columns) {
  // Nearly square, so that columns of a picture are read as fast as rows.
  constexpr std::uint64_t kRows = 128;
  constexpr std::uint64_t kColumns = 256;
  const std::vector<std::uint64_t> chunk = {std::min(rows, kRows), std::min(columns, kColumns)};
  create_chunked(path, {Element::float32, {rows, columns}, chunk}, true);
}

std::uint64_t Hdf5Writer::image_chunk_rows(const std::string& path) const {
  return state_->chunked.at(path).shape.chunk[0];
}

void Hdf5Writer::image_rows(const std::string& path, std::uint64_t first_row, std::uint64_t rows, const float* data,
                            kernels::Executor* executor) {
  write_chunks(path, first_row, rows, data, executor);
}

void Hdf5Writer::link(const std::string& existing, const std::string& path) {
  const std::lock_guard lock(library_mutex());
  const Handle links = link_properties();
  check(H5Lcreate_hard(state_->file.get(), existing.c_str(), state_->file.get(), path.c_str(), links.get(),
                       H5P_DEFAULT) >= 0,
        path, "link");
}

void Hdf5Writer::make_scale(const std::string& path, const char* name) {
  const std::lock_guard lock(library_mutex());
  const Handle id(H5Dopen2(state_->file.get(), path.c_str(), H5P_DEFAULT), H5Dclose);
  check(id.valid() && H5DSset_scale(id.get(), name) >= 0, path, "scale");
}

void Hdf5Writer::attach_scale(const std::string& path, unsigned dimension, const std::string& scale) {
  const std::lock_guard lock(library_mutex());
  const Handle id(H5Dopen2(state_->file.get(), path.c_str(), H5P_DEFAULT), H5Dclose);
  const Handle scale_id(H5Dopen2(state_->file.get(), scale.c_str(), H5P_DEFAULT), H5Dclose);
  check(id.valid() && scale_id.valid() && H5DSattach_scale(id.get(), scale_id.get(), dimension) >= 0, path,
        "dimension");
}

void Hdf5Writer::close() {
  const std::lock_guard lock(library_mutex());
  state_->chunked.clear();
  check(state_->file.reset() >= 0, "/", "close");
}

}  // namespace foxscope
