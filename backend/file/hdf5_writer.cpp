#include "backend/file/hdf5_writer.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <new>
#include <utility>

#include <fmt/format.h>
#include <hdf5.h>
#include <hdf5_hl.h>

#include "backend/base/error.h"
#include "backend/file/chunk_codec.h"
#include "backend/file/hdf5_driver.h"
#include "kernels/executor.h"

namespace foxscope {

static_assert(std::endian::native == std::endian::little, "arrays are written as they lie in memory");

namespace {

constexpr std::uint64_t kChunkBytes = 128 * 1024;
/// Below this a chunk index costs more than compression saves.
constexpr std::uint64_t kSmallestChunkedBytes = 2048;
/// What the filter says of itself; readers do not care.
constexpr unsigned kDeflateLevel = 1;
/// q and k begin at page boundaries: they are written and read past libhdf5 in large pieces.
constexpr hsize_t kAlignmentThreshold = 64 * 1024;
constexpr hsize_t kAlignment = 4096;
constexpr unsigned kSkipDeflate = 1U << 1U;  // bit of the second filter

/// libhdf5 as Debian builds it must not be entered by two threads.
std::mutex& library_mutex() {
  static std::mutex mutex;
  return mutex;
}

/// A handle of libhdf5 with the function that closes it.
class Handle {
 public:
  using Close = herr_t (*)(hid_t);
  Handle(hid_t id, Close close) : id_(id), close_(close) {}
  Handle(Handle&& other) noexcept : id_(std::exchange(other.id_, -1)), close_(other.close_) {}
  Handle& operator=(Handle&& other) noexcept {
    std::swap(id_, other.id_);
    std::swap(close_, other.close_);
    return *this;
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle() { reset(); }

  herr_t reset() {
    const hid_t id = std::exchange(id_, -1);
    return id < 0 ? 0 : close_(id);
  }
  [[nodiscard]] hid_t get() const { return id_; }
  [[nodiscard]] bool valid() const { return id_ >= 0; }

 private:
  hid_t id_;
  Close close_;
};

/// One type for all strings: variable length, UTF-8.
Handle string_type() {
  Handle type(H5Tcopy(H5T_C_S1), H5Tclose);
  H5Tset_size(type.get(), H5T_VARIABLE);
  H5Tset_cset(type.get(), H5T_CSET_UTF8);
  return type;
}

Handle element_type(Element element) {
  switch (element) {
    case Element::int32:
      return {H5Tcopy(H5T_STD_I32LE), H5Tclose};
    case Element::int64:
      return {H5Tcopy(H5T_STD_I64LE), H5Tclose};
    case Element::float32:
      return {H5Tcopy(H5T_IEEE_F32LE), H5Tclose};
    case Element::float64:
      return {H5Tcopy(H5T_IEEE_F64LE), H5Tclose};
    case Element::bfloat16:
      break;
  }
  // Sign in bit 15, exponent in bits 7 to 14 with bias 127, mantissa in bits 0 to 6.
  Handle type(H5Tcopy(H5T_IEEE_F32LE), H5Tclose);
  H5Tset_fields(type.get(), 15, 7, 8, 0, 7);
  H5Tset_size(type.get(), 2);
  H5Tset_ebias(type.get(), 127);
  return type;
}

Handle make_space(std::span<const std::uint64_t> dims) {
  const std::vector<hsize_t> extent(dims.begin(), dims.end());
  return {extent.empty() ? H5Screate(H5S_SCALAR)
                         : H5Screate_simple(static_cast<int>(extent.size()), extent.data(), nullptr),
          H5Sclose};
}

/// How every dataset is created: nothing in it depends on the time, so that equal runs give equal files.
Handle dataset_properties() {
  Handle list(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
  H5Pset_obj_track_times(list.get(), false);
  return list;
}

Handle link_properties() {
  Handle list(H5Pcreate(H5P_LINK_CREATE), H5Pclose);
  H5Pset_create_intermediate_group(list.get(), 1);
  return list;
}

std::vector<const char*> pointers(std::span<const std::string> values) {
  std::vector<const char*> result;
  result.reserve(values.size());
  for (const std::string& value : values) result.push_back(value.c_str());
  return result;
}

/// Whether a chunk of a map holds absent entries only.
bool is_absent(std::span<const std::byte> chunk, Element element) {
  if (element != Element::float32) return false;
  for (std::size_t n = 0; n < chunk.size(); n += sizeof(float)) {
    float value = 0;
    std::memcpy(&value, chunk.data() + n, sizeof(float));
    if (!std::isnan(value)) return false;
  }
  return true;
}

/// Shuffled and compressed bytes of one chunk; not compressed where that would not be shorter.
struct PackedChunk {
  std::vector<std::byte> bytes;
  bool deflated = true;
  bool left_out = false;  ///< holds only the fill value, which libhdf5 gives for chunks that are not there
};

PackedChunk pack(std::span<const std::byte> chunk, Element element) {
  PackedChunk packed;
  packed.left_out = is_absent(chunk, element);
  if (packed.left_out) return packed;
  std::vector<std::byte> shuffled(chunk.size());
  shuffle(chunk, size_of(element), shuffled);
  const bool whole_numbers = element == Element::int32 || element == Element::int64;
  packed.bytes = deflate_chunk(shuffled, whole_numbers ? Effort::matches : Effort::runs);
  packed.deflated = !packed.bytes.empty();
  if (!packed.deflated) packed.bytes = std::move(shuffled);
  return packed;
}

}  // namespace

struct Hdf5Writer::Chunked {
  Handle id;
  Element element;
  std::vector<std::uint64_t> dims;
  std::vector<std::uint64_t> chunk;
};

struct Hdf5Writer::State {
  Hdf5DriverTarget target;
  Handle file{-1, H5Fclose};
  std::map<std::string, Chunked> images;
};

std::vector<std::uint64_t> chunk_shape(const std::vector<std::uint64_t>& dims, std::size_t element_size) {
  std::vector<std::uint64_t> chunk(dims.size(), 1);
  std::uint64_t left = kChunkBytes / element_size;
  for (std::size_t axis = dims.size(); axis-- > 0;) {
    chunk[axis] = std::clamp<std::uint64_t>(left, 1, std::max<std::uint64_t>(1, dims[axis]));
    left /= chunk[axis];
  }
  return chunk;
}

Hdf5Writer::Hdf5Writer(const AtomicFile& file) : file_(file), state_(std::make_unique<State>()) {
  const std::lock_guard lock(library_mutex());
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  state_->target.file = &file;
  const Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
  check(set_atomic_file_driver(access.get(), &state_->target) >= 0, "/", "driver");
  H5Pset_libver_bounds(access.get(), H5F_LIBVER_EARLIEST, H5F_LIBVER_LATEST);
  H5Pset_alignment(access.get(), kAlignmentThreshold, kAlignment);
  const Handle creation(H5Pcreate(H5P_FILE_CREATE), H5Pclose);
  H5Pset_obj_track_times(creation.get(), false);
  state_->file = Handle(H5Fcreate("run", H5F_ACC_TRUNC, creation.get(), access.get()), H5Fclose);
  check(state_->file.valid(), "/", "create");
}

Hdf5Writer::~Hdf5Writer() {
  const std::lock_guard lock(library_mutex());
  state_->images.clear();
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
  const std::string terminated(value);
  const char* const pointer = terminated.c_str();
  write_string_attribute(path, name, std::span(&pointer, 1), true);
}

void Hdf5Writer::attribute(const std::string& path, const char* name, std::span<const std::string> values) {
  write_string_attribute(path, name, pointers(values), false);
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
  write_strings(path, pointers(values), false);
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
    create_chunked(path, element, dims, chunk_shape(dims, size_of(element)));
    write_chunks(state_->images.at(path), path, 0, dims[0], static_cast<const std::byte*>(data), executor);
    const std::lock_guard lock(library_mutex());
    state_->images.erase(path);
    return;
  }
  const std::uint64_t offset = reserve(path, element, dims);
  if (const int error = file_.try_write_at(offset, data, bytes); error != 0) file_.throw_write_error(error);
}

void Hdf5Writer::create_chunked(const std::string& path, Element element, const std::vector<std::uint64_t>& dims,
                                const std::vector<std::uint64_t>& chunk) {
  const std::lock_guard lock(library_mutex());
  const Handle type = element_type(element);
  const Handle space = make_space(dims);
  const Handle creation = dataset_properties();
  const std::vector<hsize_t> extent(chunk.begin(), chunk.end());
  H5Pset_chunk(creation.get(), static_cast<int>(extent.size()), extent.data());
  H5Pset_shuffle(creation.get());
  H5Pset_deflate(creation.get(), kDeflateLevel);
  if (element == Element::float32) {
    const float absent = std::numeric_limits<float>::quiet_NaN();
    H5Pset_fill_value(creation.get(), H5T_NATIVE_FLOAT, &absent);
  }
  const Handle links = link_properties();
  Handle id(
      H5Dcreate2(state_->file.get(), path.c_str(), type.get(), space.get(), links.get(), creation.get(), H5P_DEFAULT),
      H5Dclose);
  check(id.valid(), path, "dataset");
  state_->images.emplace(path, Chunked{std::move(id), element, dims, chunk});
}

void Hdf5Writer::begin_image(const std::string& path, std::uint64_t rows, std::uint64_t columns) {
  // Nearly square, so that columns of a picture are read as fast as rows.
  constexpr std::uint64_t kRows = 128;
  constexpr std::uint64_t kColumns = 256;
  create_chunked(path, Element::float32, {rows, columns}, {std::min(rows, kRows), std::min(columns, kColumns)});
}

std::uint64_t Hdf5Writer::image_chunk_rows(const std::string& path) const { return state_->images.at(path).chunk[0]; }

void Hdf5Writer::image_rows(const std::string& path, std::uint64_t first_row, std::uint64_t rows, const float* data,
                            kernels::Executor* executor) {
  write_chunks(state_->images.at(path), path, first_row, rows, reinterpret_cast<const std::byte*>(data), executor);
}

namespace {

/// A dataset of one or two axes as a table of chunks; one axis counts as columns.
struct ChunkTable {
  std::uint64_t columns, chunk_rows, chunk_columns, across;
  std::size_t element_size;

  ChunkTable(const std::vector<std::uint64_t>& dims, const std::vector<std::uint64_t>& chunk, Element element)
      : columns(dims.back()),
        chunk_rows(chunk.size() == 2 ? chunk[0] : 1),
        chunk_columns(chunk.back()),
        across((columns + chunk_columns - 1) / chunk_columns),
        element_size(size_of(element)) {}

  /// Chunk (down, across) of `rows` rows of data, filled up at the edges.
  [[nodiscard]] std::vector<std::byte> gather(const std::byte* data, std::uint64_t rows, std::uint64_t row_of_chunks,
                                              std::uint64_t column_of_chunks, Element element) const {
    std::vector<std::byte> chunk(chunk_rows * chunk_columns * element_size);
    if (element == Element::float32) {
      const float absent = std::numeric_limits<float>::quiet_NaN();
      for (std::size_t n = 0; n < chunk.size(); n += sizeof(float)) std::memcpy(chunk.data() + n, &absent, 4);
    }
    const std::uint64_t first_row = row_of_chunks * chunk_rows;
    const std::uint64_t first_column = column_of_chunks * chunk_columns;
    const std::uint64_t width = std::min(chunk_columns, columns - first_column) * element_size;
    for (std::uint64_t row = first_row; row < std::min(rows, first_row + chunk_rows); ++row) {
      std::memcpy(chunk.data() + (row - first_row) * chunk_columns * element_size,
                  data + (row * columns + first_column) * element_size, width);
    }
    return chunk;
  }
};

}  // namespace

void Hdf5Writer::write_chunks(const Chunked& dataset, const std::string& path, std::uint64_t first_row,
                              std::uint64_t rows, const std::byte* data, kernels::Executor* executor) {
  const ChunkTable table(dataset.dims, dataset.chunk, dataset.element);
  if (dataset.dims.size() == 1) rows = 1;
  const std::uint64_t count = table.across * ((rows + table.chunk_rows - 1) / table.chunk_rows);
  std::vector<PackedChunk> packed(count);
  std::atomic<bool> out_of_memory = false;
  const auto work = [&](std::int64_t task, int /*thread*/) {
    const auto n = static_cast<std::uint64_t>(task);
    try {
      packed[n] = pack(table.gather(data, rows, n / table.across, n % table.across, dataset.element), dataset.element);
    } catch (const std::bad_alloc&) {
      out_of_memory = true;
    }
  };
  if (executor != nullptr) {
    executor->run(static_cast<std::int64_t>(count), work);
  } else {
    for (std::uint64_t n = 0; n < count; ++n) work(static_cast<std::int64_t>(n), 0);
  }
  if (out_of_memory) throw std::bad_alloc();

  const std::lock_guard lock(library_mutex());
  for (std::uint64_t n = 0; n < count; ++n) {
    if (packed[n].left_out) continue;
    std::vector<hsize_t> offset = {first_row + n / table.across * table.chunk_rows,
                                   n % table.across * table.chunk_columns};
    if (dataset.dims.size() == 1) offset.erase(offset.begin());
    check(H5Dwrite_chunk(dataset.id.get(), H5P_DEFAULT, packed[n].deflated ? 0 : kSkipDeflate, offset.data(),
                         packed[n].bytes.size(), packed[n].bytes.data()) >= 0,
          path, "chunk");
  }
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
  state_->images.clear();
  check(state_->file.reset() >= 0, "/", "close");
}

}  // namespace foxscope
