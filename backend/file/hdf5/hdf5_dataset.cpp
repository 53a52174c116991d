#include "backend/file/hdf5/hdf5_dataset.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <iterator>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "backend/base/error.h"
#include "backend/file/hdf5/chunk_codec.h"
#include "backend/file/hdf5/hdf5_messages.h"

namespace foxscope {
namespace {

constexpr std::uint16_t kDeflate = 1;
constexpr std::uint16_t kShuffle = 2;
constexpr std::uint16_t kFirstForeign = 256;  ///< filters below are of the HDF5 library itself
constexpr std::size_t kMostFilters = 32;

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

}  // namespace

Hdf5Dataset::Hdf5Dataset(const Hdf5Object& object) : file_(object.file_), path_(object.path_) {
  const std::vector<std::byte>* type = object.message(hdf5::kDatatype);
  const std::vector<std::byte>* space = object.message(hdf5::kDataspace);
  const std::vector<std::byte>* layout = object.message(hdf5::kLayout);
  if (type == nullptr || space == nullptr || layout == nullptr) file_->fail_damaged(path_, "is not a dataset");
  if (object.message(hdf5::kExternalFiles) != nullptr) {
    file_->fail_unsupported(path_, "data in other files, which are not opened", kHdf5Gather);
  }
  type_ = object.decode_type({*file_, path_, *type});
  if (type_.size == 0) file_->fail_damaged(path_, "has numbers of no bytes");
  shape_ = object.decode_space({*file_, path_, *space});
  count_ = hdf5_product(shape_.dims, 1);
  if (const std::vector<std::byte>* filters = object.message(hdf5::kFilters)) {
    decode_filters({*file_, path_, *filters});
  }
  decode_layout({*file_, path_, *layout});
  if (has_gaps()) decode_fill(object);
}

void Hdf5Dataset::decode_fill(const Hdf5Object& object) {
  std::uint32_t size = 0;
  std::span<const std::byte> value;
  if (const std::vector<std::byte>* fill = object.message(hdf5::kFillValue)) {
    Hdf5Cursor cursor(*file_, path_, *fill);
    const std::uint8_t version = cursor.u8();
    if (version < 1 || version > 3) file_->fail_unsupported(path_, "an unknown kind of fill value");
    cursor.skip(version == 3 ? 0 : 2);  // when space is allocated, and when it is filled
    constexpr unsigned kDefined = 1U << 5U;
    const std::uint8_t flags = cursor.u8();
    const bool defined = version == 3 ? (flags & kDefined) != 0 : flags != 0;
    if (defined) size = cursor.u32();
    value = cursor.take(size);
  } else if (const std::vector<std::byte>* old = object.message(hdf5::kOldFillValue)) {
    Hdf5Cursor cursor(*file_, path_, *old);
    size = cursor.u32();
    value = cursor.take(size);
  }
  if (size != 0 && size != type_.size) file_->fail_damaged(path_, "its fill value has another size than its numbers");
  fill_.assign(value.begin(), value.end());
}

bool Hdf5Dataset::has_gaps() const {
  if (layout_ == Layout::contiguous) return offset_ == kHdf5Undefined;
  return layout_ == Layout::chunked && !chunking_.whole;
}

void Hdf5Dataset::fill(std::span<std::byte> bytes) const {
  if (fill_.empty()) {
    std::ranges::fill(bytes, std::byte{0});
    return;
  }
  for (std::size_t at = 0; at < bytes.size(); at += fill_.size()) {
    std::ranges::copy(fill_, bytes.begin() + static_cast<std::ptrdiff_t>(at));
  }
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
    if (id != kDeflate && id != kShuffle) {
      file_->fail_unsupported(path_, fmt::format("the filter number {}", id),
                              id < kFirstForeign ? kHdf5Unfilter : kHdf5Replace);
    }
    filters_.push_back(id);
  }
}

void Hdf5Dataset::decode_layout(Hdf5Cursor cursor) {
  const std::uint8_t version = cursor.u8();
  if (version < 3 || version > 5) file_->fail_unsupported(path_, fmt::format("version {} of the layout", version));
  const std::uint8_t kind = cursor.u8();
  if (kind == 0) {
    layout_ = Layout::compact;
    const std::span<const std::byte> data = cursor.take(cursor.u16());
    compact_.assign(data.begin(), data.end());
    if (compact_.size() != bytes()) file_->fail_damaged(path_, "its size does not fit its shape");
  } else if (kind == 1) {
    offset_ = cursor.u64();
    const bool written = offset_ != kHdf5Undefined && bytes() > 0;
    if (written && (offset_ > file_->size() || bytes() > file_->size() - offset_)) {
      file_->fail_damaged(
          path_, fmt::format("its data, {} of {}, are not in the file", shape_text(shape_.dims), type_text(type_)));
    }
  } else if (kind == 2) {
    layout_ = Layout::chunked;
    const bool deflated = std::find(filters_.begin(), filters_.end(), kDeflate) != filters_.end();
    const Hdf5Packing packing = deflated           ? Hdf5Packing::deflated
                                : filters_.empty() ? Hdf5Packing::none
                                                   : Hdf5Packing::shuffled;
    chunking_ = read_hdf5_chunking(*file_, path_, version, cursor, shape_, type_.size, packing);
  } else {
    file_->fail_unsupported(path_, "data put together from other datasets", kHdf5Gather);
  }
}

std::uint64_t Hdf5Dataset::stored_bytes() const {
  if (layout_ != Layout::chunked) return has_gaps() ? 0 : bytes();
  std::uint64_t stored = 0;
  for (const Hdf5Chunk& chunk : chunking_.chunks) stored += chunk.size;
  return stored;
}

void Hdf5Dataset::require_list() const {
  if (count_ <= std::max(file_->size(), kShortList)) return;
  file_->fail_damaged(path_, fmt::format("has {} entries in a file of {} bytes", count_, file_->size()));
}

void Hdf5Dataset::require_inflation(std::uint64_t most) const {
  if (bytes() <= kSmallArray || (bytes() - kSmallArray) / most <= file_->size()) return;
  file_->fail_damaged(path_, fmt::format("{} of {} are too much for a file of {} bytes", shape_text(shape_.dims),
                                         type_text(type_), file_->size()));
}

void Hdf5Dataset::require(Element element, const std::vector<std::uint64_t>& dims) const {
  if (type_.element == element && shape_.dims == dims) return;
  file_->fail_damaged(path_, fmt::format("expected {}, found {}", form(element, dims), form()));
}

std::string Hdf5Dataset::form() const { return fmt::format("{} {}", type_text(type_), shape_text(shape_.dims)); }

std::string Hdf5Dataset::form(Element element, const std::vector<std::uint64_t>& dims) {
  return fmt::format("{} {}", to_string(element), shape_text(dims));
}

std::uint64_t Hdf5Dataset::offset() const {
  if (layout_ != Layout::contiguous) {
    file_->fail_unsupported(path_, "queries and keys in chunks", kHdf5Gather);
  }
  if (has_gaps()) file_->fail_damaged(path_, "its numbers were never written");
  return offset_;
}

/// Memory for chunks that are unpacked one after another.
class Hdf5Dataset::Unpacking {
 public:
  /// @param size  of the largest form of a chunk, in the file or before a filter
  void hold(std::size_t size) {
    if (size <= size_) return;
    now_ = std::make_unique_for_overwrite<std::byte[]>(size);
    next_ = std::make_unique_for_overwrite<std::byte[]>(size);
    size_ = size;
  }
  [[nodiscard]] std::byte* now() const { return now_.get(); }
  [[nodiscard]] std::byte* next() const { return next_.get(); }
  void swap() { std::swap(now_, next_); }

 private:
  std::unique_ptr<std::byte[]> now_;
  std::unique_ptr<std::byte[]> next_;
  std::size_t size_ = 0;
};

/// @returns the numbers of a chunk, which stay until the next one is unpacked
std::span<const std::byte> Hdf5Dataset::unpack(const Hdf5Chunk& chunk, Unpacking& memory) const {
  memory.hold(std::max<std::size_t>(chunk.size, chunking_.bytes));
  std::span<std::byte> data(memory.now(), chunk.size);
  file_->read(chunk.address, data, path_);
  for (std::size_t n = filters_.size(); n-- > 0;) {
    if ((chunk.filter_mask >> n & 1U) != 0) continue;
    const std::span<std::byte> before(memory.next(), chunking_.bytes);
    if (filters_[n] == kDeflate) {
      if (!inflate_chunk(data, before)) file_->fail_damaged(path_, "a chunk cannot be decompressed");
    } else {
      if (data.size() != before.size()) file_->fail_damaged(path_, "a chunk has the wrong size");
      unshuffle(data, type_.size, before);
    }
    memory.swap();
    data = before;
  }
  if (data.size() != chunking_.bytes) file_->fail_damaged(path_, "a chunk has the wrong size");
  return data;
}

/// The part of a chunk that lies within the array, row by row of its last axis.
/// @param visit  gets of each row its first element in the chunk, its first in the array, and how many there are
template <typename Visit>
void Hdf5Dataset::visit_rows(const Hdf5Chunk& chunk, Visit visit) const {
  const std::vector<std::uint64_t>& dims = shape_.dims;
  const std::vector<std::uint64_t> first = chunking_.first(dims, chunk.number);
  const std::size_t last = dims.size() - 1;
  // Rows within the array alone are visited: a chunk may be much longer than what it holds.
  std::vector<std::uint64_t> inside(dims.size());
  for (std::size_t axis = 0; axis <= last; ++axis) {
    inside[axis] = std::min(chunking_.dims[axis], dims[axis] - first[axis]);
  }
  std::uint64_t rows = 1;
  for (std::size_t axis = 0; axis < last; ++axis) rows *= inside[axis];
  for (std::uint64_t row = 0; row < rows; ++row) {
    std::uint64_t rest = row;
    std::uint64_t source = 0;
    std::uint64_t target = first[last];
    std::uint64_t source_step = chunking_.dims[last];
    std::uint64_t target_step = dims[last];
    for (std::size_t axis = last; axis-- > 0;) {
      const std::uint64_t index = rest % inside[axis];
      rest /= inside[axis];
      source += index * source_step;
      target += (first[axis] + index) * target_step;
      source_step *= chunking_.dims[axis];
      target_step *= dims[axis];
    }
    visit(source, target, inside[last]);
  }
}

void Hdf5Dataset::read(std::span<std::byte> bytes) const {
  if (has_gaps()) fill(bytes);
  switch (layout_) {
    case Layout::compact:
      std::copy(compact_.begin(), compact_.end(), bytes.begin());
      return;
    case Layout::contiguous:
      if (!has_gaps()) file_->read(offset_, bytes, path_);
      return;
    case Layout::chunked:
      for (Unpacking memory; const Hdf5Chunk& chunk : chunking_.chunks) {
        const std::span<const std::byte> data = unpack(chunk, memory);
        visit_rows(chunk, [&](std::uint64_t source, std::uint64_t target, std::uint64_t count) {
          std::memcpy(bytes.data() + target * type_.size, data.data() + source * type_.size, count * type_.size);
        });
      }
  }
}

bool Hdf5Dataset::has_rows() const {
  if (layout_ != Layout::chunked) return true;
  return std::ranges::all_of(chunking_.dims.begin(), std::prev(chunking_.dims.end()),
                             [](std::uint64_t extent) { return extent == 1; });
}

void Hdf5Dataset::read_part(std::uint64_t begin, std::span<std::byte> bytes) const {
  assert(begin + bytes.size() / type_.size <= count_);
  const std::uint64_t size = type_.size;
  if (layout_ == Layout::compact) {
    std::copy_n(compact_.begin() + static_cast<std::ptrdiff_t>(begin * size), bytes.size(), bytes.begin());
    return;
  }
  if (has_gaps()) fill(bytes);
  if (layout_ == Layout::contiguous) {
    if (!has_gaps()) file_->read(offset_ + begin * size, bytes, path_);
    return;
  }
  const std::uint64_t end = begin + bytes.size() / size;
  if (begin == end) return;
  // Numbers of chunks go in C order: those of some indices of the first axis follow one another.
  std::uint64_t slab = 1;  // chunks that lie side by side
  std::uint64_t step = 1;  // numbers of one index
  for (std::size_t axis = 1; axis < shape_.dims.size(); ++axis) {
    slab *= (shape_.dims[axis] + chunking_.dims[axis] - 1) / chunking_.dims[axis];
    step *= shape_.dims[axis];
  }
  const std::uint64_t first = begin / step / chunking_.dims[0] * slab;
  const std::uint64_t last = ((end - 1) / step / chunking_.dims[0] + 1) * slab;
  const auto begin_chunk = std::ranges::lower_bound(chunking_.chunks, first, {}, &Hdf5Chunk::number);
  const auto end_chunk = std::ranges::lower_bound(chunking_.chunks, last, {}, &Hdf5Chunk::number);
  for (Unpacking memory; const Hdf5Chunk& chunk : std::span(begin_chunk, end_chunk)) {
    std::span<const std::byte> data;
    visit_rows(chunk, [&](std::uint64_t source, std::uint64_t target, std::uint64_t count) {
      const std::uint64_t from = std::max(begin, target);
      const std::uint64_t to = std::min(end, target + count);
      if (from >= to) return;
      if (data.empty()) data = unpack(chunk, memory);
      std::memcpy(bytes.data() + (from - begin) * size, data.data() + (source + from - target) * size,
                  (to - from) * size);
    });
  }
}

bool Hdf5Dataset::is_zero() const {
  constexpr std::uint64_t kPiece = std::uint64_t{128} << 10U;
  const auto are_zero = [](std::span<const std::byte> bytes) {
    for (std::size_t at = 0; at < bytes.size(); at += sizeof(double)) {
      double number = 0;
      std::memcpy(&number, bytes.data() + at, sizeof(double));
      if (number != 0) return false;
    }
    return true;
  };
  if (layout_ == Layout::compact) return are_zero(compact_);
  if (has_gaps() && !are_zero(fill_)) return false;
  if (layout_ == Layout::contiguous) {
    if (has_gaps()) return true;
    std::vector<std::byte> piece;
    for (std::uint64_t at = 0; at < bytes(); at += kPiece) {
      piece.resize(std::min(kPiece, bytes() - at));
      file_->read(offset_ + at, piece, path_);
      if (!are_zero(piece)) return false;
    }
    return true;
  }
  Unpacking memory;
  return std::ranges::all_of(chunking_.chunks, [&](const Hdf5Chunk& chunk) {
    const std::span<const std::byte> data = unpack(chunk, memory);
    bool zero = true;
    visit_rows(chunk, [&](std::uint64_t source, std::uint64_t /*target*/, std::uint64_t count) {
      zero = zero && are_zero(data.subspan(source * type_.size, count * type_.size));
    });
    return zero;
  });
}

std::vector<std::string> Hdf5Dataset::texts(Hdf5Heap& heap) const {
  if (type_.kind != Hdf5Type::Kind::variable_text) {
    file_->fail_damaged(path_, fmt::format("expected strings of variable length, found {}", type_text(type_)));
  }
  require_list();
  std::vector<std::byte> references(count_ * type_.size);
  read(references);
  std::vector<std::string> texts;
  texts.reserve(count_);
  for (std::uint64_t n = 0; n < count_; ++n) {
    texts.push_back(heap.text(std::span(references).subspan(n * type_.size, type_.size), path_));
  }
  return texts;
}

void Hdf5Account::take(const Hdf5Object& group) {
  if (!groups_.insert(group.address()).second)
    file_.fail_damaged(group.path(), "is another's group under a second name");
}

void Hdf5Account::take_stored(const Hdf5Dataset& dataset) {
  stored_ += dataset.stored_bytes();
  if (stored_ > file_.size()) file_.fail_damaged(dataset.path(), "shares its bytes with other arrays");
}

void Hdf5Account::take_values(const Hdf5Dataset& dataset, std::uint64_t most) {
  dataset.require_inflation(most);
  values_ += dataset.bytes();
  if (values_ <= Hdf5Dataset::kSmallArray || (values_ - Hdf5Dataset::kSmallArray) / most <= file_.size()) return;
  file_.fail_damaged(dataset.path(),
                     fmt::format("its arrays together are too much for a file of {} bytes", file_.size()));
}

}  // namespace foxscope
