#include <algorithm>
#include <cstring>
#include <limits>

#include <fmt/format.h>

#include "backend/file/chunk_codec.h"
#include "backend/file/hdf5_messages.h"
#include "backend/file/hdf5_object.h"

namespace foxscope {
namespace {

constexpr std::uint16_t kDeflate = 1;
constexpr std::uint16_t kShuffle = 2;
constexpr std::uint64_t kNodePrefix = 24;
constexpr std::size_t kMostFilters = 32;
/// Deflate makes data at most 1032 times shorter (zlib's technical notes); a claim of more is a lie.
constexpr std::uint64_t kLargestExpansion = 1032;

std::string shape_text(const std::vector<std::uint64_t>& dims) { return fmt::format("[{}]", fmt::join(dims, ", ")); }

std::string type_text(const Hdf5Type& type) {
  if (type.element) return to_string(*type.element);
  switch (type.kind) {
    case Hdf5Type::Kind::integer:
      return fmt::format("{}int{}", type.is_signed ? "" : "u", 8 * type.size);
    case Hdf5Type::Kind::fixed_text:
    case Hdf5Type::Kind::variable_text:
      return "strings";
    case Hdf5Type::Kind::real:
    case Hdf5Type::Kind::other:
      break;
  }
  return "another type";
}

/// Product of sizes; the largest number where it would be larger.
std::uint64_t product(const std::vector<std::uint64_t>& dims, std::uint64_t start) {
  std::uint64_t result = start;
  for (const std::uint64_t extent : dims) {
    if (__builtin_mul_overflow(result, extent, &result)) return std::numeric_limits<std::uint64_t>::max();
  }
  return result;
}

}  // namespace

Hdf5Dataset::Hdf5Dataset(const Hdf5Object& object) : file_(object.file_), path_(object.path_) {
  const std::vector<std::byte>* type = object.message(hdf5::kDatatype);
  const std::vector<std::byte>* space = object.message(hdf5::kDataspace);
  const std::vector<std::byte>* layout = object.message(hdf5::kLayout);
  if (type == nullptr || space == nullptr || layout == nullptr) file_->fail_damaged(path_, "is not a dataset");
  if (object.message(hdf5::kExternalFiles) != nullptr) {
    file_->fail_unsupported(path_, "data in other files, which are not opened");
  }
  type_ = object.decode_type({*file_, path_, *type});
  if (type_.size == 0) file_->fail_damaged(path_, "has numbers of no bytes");
  dims_ = object.decode_space({*file_, path_, *space});
  count_ = product(dims_, 1);
  if (const std::vector<std::byte>* filters = object.message(hdf5::kFilters)) {
    decode_filters({*file_, path_, *filters});
  }
  decode_layout({*file_, path_, *layout});
}

void Hdf5Dataset::decode_filters(Hdf5Cursor cursor) {
  const std::uint8_t version = cursor.u8();
  const std::uint8_t count = cursor.u8();
  if (version < 1 || version > 2 || count > kMostFilters) file_->fail_unsupported(path_, "an unknown kind of filter");
  if (version == 1) cursor.skip(6);
  for (unsigned n = 0; n < count; ++n) {
    const std::uint16_t id = cursor.u16();
    const std::uint16_t name = version == 1 || id >= 256 ? cursor.u16() : 0;
    cursor.skip(2);  // flags
    const std::uint16_t values = cursor.u16();
    cursor.skip(name);
    cursor.skip(std::uint64_t{values} * 4 + (version == 1 && values % 2 == 1 ? 4 : 0));
    if (id != kDeflate && id != kShuffle) file_->fail_unsupported(path_, fmt::format("the filter number {}", id));
    filters_.push_back(id);
  }
}

void Hdf5Dataset::decode_layout(Hdf5Cursor cursor) {
  const std::uint8_t version = cursor.u8();
  if (version < 3 || version > 4) file_->fail_unsupported(path_, fmt::format("version {} of the layout", version));
  const std::uint64_t bytes = product(dims_, type_.size);
  const std::uint8_t kind = cursor.u8();
  if (kind == 0) {
    layout_ = Layout::compact;
    const std::span<const std::byte> data = cursor.take(cursor.u16());
    compact_.assign(data.begin(), data.end());
    if (compact_.size() != bytes) file_->fail_damaged(path_, "its size is not that of its shape");
  } else if (kind == 1) {
    offset_ = cursor.u64();
    if (bytes > 0 && (offset_ > file_->size() || bytes > file_->size() - offset_)) {
      file_->fail_damaged(path_,
                          fmt::format("its data, {} of {}, are not in the file", shape_text(dims_), type_text(type_)));
    }
  } else if (kind == 2 && version == 3) {
    layout_ = Layout::chunked;
    const std::uint8_t axes = cursor.u8();
    const std::uint64_t index = cursor.u64();
    if (axes != dims_.size() + 1 || dims_.empty()) file_->fail_damaged(path_, "its chunks have other axes");
    for (std::size_t axis = 0; axis < dims_.size(); ++axis) chunk_dims_.push_back(cursor.u32());
    chunk_bytes_ = product(chunk_dims_, type_.size);
    if (cursor.u32() != type_.size || chunk_bytes_ == 0) file_->fail_damaged(path_, "its chunks have no size");
    if (index != kHdf5Undefined && count_ > 0) read_chunk_index(index, -1);
    check_chunks();
  } else {
    file_->fail_unsupported(path_, kind == 3 ? "data put together from other datasets" : "chunks in the newest form");
  }
}

void Hdf5Dataset::read_chunk_index(std::uint64_t address, int parent_level) {
  if (++nodes_visited_ > file_->size() / kNodePrefix) file_->fail_damaged(path_, "its chunks have no end");
  const std::vector<std::byte> prefix = file_->read(address, kNodePrefix, path_);
  Hdf5Cursor cursor(*file_, path_, prefix);
  cursor.signature("TREE");
  const std::uint8_t type = cursor.u8();
  const int level = cursor.u8();
  const std::uint16_t used = cursor.u16();
  if (type != 1 || (parent_level >= 0 && level != parent_level - 1)) {
    file_->fail_damaged(path_, "its table of chunks is none");
  }
  const std::uint64_t key = 8 + 8 * (dims_.size() + 1);
  const std::vector<std::byte> bytes = file_->read(address + kNodePrefix, used * (key + 8), path_);
  Hdf5Cursor entries(*file_, path_, bytes);
  for (unsigned n = 0; n < used; ++n) {
    Chunk chunk;
    chunk.size = entries.u32();
    chunk.filter_mask = entries.u32();
    for (std::size_t axis = 0; axis < dims_.size(); ++axis) chunk.first.push_back(entries.u64());
    entries.skip(8);  // position within a number
    chunk.address = entries.u64();
    if (level > 0) {
      read_chunk_index(chunk.address, level);
    } else {
      chunks_.push_back(std::move(chunk));
    }
  }
}

/// Chunks must tile the array: each at its place once, and together no longer than the file.
void Hdf5Dataset::check_chunks() const {
  std::uint64_t expected = count_ == 0 ? 0 : 1;
  for (std::size_t axis = 0; axis < dims_.size() && expected != 0; ++axis) {
    const std::uint64_t along = dims_[axis] / chunk_dims_[axis] + (dims_[axis] % chunk_dims_[axis] != 0 ? 1 : 0);
    if (__builtin_mul_overflow(expected, along, &expected)) expected = std::numeric_limits<std::uint64_t>::max();
  }
  if (chunks_.size() != expected) {
    file_->fail_damaged(path_, fmt::format("{} of its {} chunks are missing or too many", chunks_.size(), expected));
  }
  const bool deflated = std::find(filters_.begin(), filters_.end(), kDeflate) != filters_.end();
  std::uint64_t stored = 0;
  std::vector<std::vector<std::uint64_t>> places;
  for (const Chunk& chunk : chunks_) {
    for (std::size_t axis = 0; axis < dims_.size(); ++axis) {
      if (chunk.first[axis] % chunk_dims_[axis] != 0 || chunk.first[axis] >= dims_[axis]) {
        file_->fail_damaged(path_, "a chunk lies outside of its shape");
      }
    }
    stored += chunk.size;
    if (chunk.size > file_->size() || stored > file_->size() || chunk.address > file_->size() - chunk.size ||
        chunk_bytes_ / kLargestExpansion > chunk.size || (!deflated && chunk.size != chunk_bytes_)) {
      file_->fail_damaged(path_, "the data of a chunk are not in the file");
    }
    places.push_back(chunk.first);
  }
  std::sort(places.begin(), places.end());
  if (std::adjacent_find(places.begin(), places.end()) != places.end()) {
    file_->fail_damaged(path_, "two chunks are at one place");
  }
}

void Hdf5Dataset::require(Element element, const std::vector<std::uint64_t>& dims) const {
  if (type_.element == element && dims_ == dims) return;
  file_->fail_damaged(path_, fmt::format("expected {} {}, found {} {}", to_string(element), shape_text(dims),
                                         type_text(type_), shape_text(dims_)));
}

std::uint64_t Hdf5Dataset::offset() const {
  if (layout_ != Layout::contiguous) {
    file_->fail_unsupported(path_, "queries and keys in chunks (h5repack's option is -l CONTI)");
  }
  return offset_;
}

std::vector<std::byte> Hdf5Dataset::unpack(const Chunk& chunk) const {
  std::vector<std::byte> data = file_->read(chunk.address, chunk.size, path_);
  for (std::size_t n = filters_.size(); n-- > 0;) {
    if ((chunk.filter_mask >> n & 1U) != 0) continue;
    std::vector<std::byte> before(chunk_bytes_);
    if (filters_[n] == kDeflate) {
      if (!inflate_chunk(data, before)) file_->fail_damaged(path_, "a chunk cannot be decompressed");
    } else {
      if (data.size() != before.size()) file_->fail_damaged(path_, "a chunk has the wrong size");
      unshuffle(data, type_.size, before);
    }
    data = std::move(before);
  }
  if (data.size() != chunk_bytes_) file_->fail_damaged(path_, "a chunk has the wrong size");
  return data;
}

/// Copies the part of a chunk that lies within the array, row by row of its last axis.
void Hdf5Dataset::place(const Chunk& chunk, std::span<const std::byte> data, std::span<std::byte> bytes) const {
  const std::size_t last = dims_.size() - 1;
  const std::uint64_t row_bytes = std::min(chunk_dims_[last], dims_[last] - chunk.first[last]) * type_.size;
  const std::uint64_t rows = chunk_bytes_ / type_.size / chunk_dims_[last];
  for (std::uint64_t row = 0; row < rows; ++row) {
    std::uint64_t rest = row;
    std::uint64_t stride = dims_[last];
    std::uint64_t target = chunk.first[last];
    bool inside = true;
    for (std::size_t axis = last; axis-- > 0;) {
      const std::uint64_t index = chunk.first[axis] + rest % chunk_dims_[axis];
      rest /= chunk_dims_[axis];
      inside = inside && index < dims_[axis];
      target += index * stride;
      stride *= dims_[axis];
    }
    if (inside) {
      std::memcpy(bytes.data() + target * type_.size, data.data() + row * chunk_dims_[last] * type_.size, row_bytes);
    }
  }
}

void Hdf5Dataset::read(std::span<std::byte> bytes) const {
  switch (layout_) {
    case Layout::compact:
      std::copy(compact_.begin(), compact_.end(), bytes.begin());
      return;
    case Layout::contiguous:
      file_->read(offset_, bytes, path_);
      return;
    case Layout::chunked:
      for (const Chunk& chunk : chunks_) place(chunk, unpack(chunk), bytes);
  }
}

std::vector<std::string> Hdf5Dataset::texts(Hdf5Heap& heap) const {
  if (type_.kind != Hdf5Type::Kind::variable_text) {
    file_->fail_damaged(path_, fmt::format("expected strings of variable length, found {}", type_text(type_)));
  }
  std::vector<std::byte> references(count_ * type_.size);
  read(references);
  std::vector<std::string> texts;
  texts.reserve(count_);
  for (std::uint64_t n = 0; n < count_; ++n) {
    texts.push_back(heap.text(std::span(references).subspan(n * type_.size, type_.size), path_));
  }
  return texts;
}

}  // namespace foxscope
