#include "backend/file/hdf5_dense.h"

#include <algorithm>
#include <bit>
#include <vector>

#include <fmt/format.h>

namespace foxscope {
namespace {

constexpr std::uint8_t kLinksByName = 5;
constexpr std::uint8_t kAttributesByName = 8;
constexpr std::uint64_t kMostMessages = 1U << 20U;

/// Bytes that hold numbers up to `limit`.
std::size_t bytes_for(std::uint64_t limit) { return (static_cast<std::size_t>(std::bit_width(limit)) - 1) / 8 + 1; }

/// Objects of any size up to some kilobytes, in blocks of doubling size (format specification, III.G).
class FractalHeap {
 public:
  FractalHeap(const Hdf5File& file, const std::string& object, std::uint64_t address) : file_(file), object_(object) {
    constexpr std::uint64_t kHeaderBytes = 142;
    const std::vector<std::byte> bytes = file.read(address, kHeaderBytes, object);
    Hdf5Cursor cursor(file, object, bytes);
    cursor.signature("FRHP");
    cursor.skip(1);
    id_bytes_ = cursor.u16();
    if (cursor.u16() != 0) file.fail_unsupported(object, "compressed attributes or links");
    cursor.skip(1);
    const std::uint32_t largest_object = cursor.u32();
    cursor.skip(96);  // huge objects, free space, and how much there is of everything
    width_ = cursor.u16();
    first_size_ = cursor.u64();
    largest_direct_ = cursor.u64();
    const std::uint16_t bits = cursor.u16();
    cursor.skip(2);
    root_ = cursor.u64();
    rows_ = cursor.u16();
    if (width_ == 0 || bits > 64 || largest_object == 0 || largest_direct_ > file.size() || first_size_ == 0 ||
        first_size_ > largest_direct_ || !std::has_single_bit(first_size_) || !std::has_single_bit(largest_direct_)) {
      file.fail_damaged(object, "its heap has no such sizes");
    }
    offset_bytes_ = (bits + 7U) / 8;
    length_bytes_ =
        std::min((static_cast<std::size_t>(std::bit_width(largest_direct_)) + 6) / 8, bytes_for(largest_object));
    if (rows_ > 0) read_rows();
  }

  [[nodiscard]] std::size_t id_bytes() const { return id_bytes_; }

  /// The object of an id; nothing for one that is kept outside of the heap's blocks.
  [[nodiscard]] std::vector<std::byte> read(std::span<const std::byte> id) const {
    Hdf5Cursor cursor(file_, object_, id);
    const std::uint8_t kind = cursor.u8() >> 4U;
    if (kind != 0) return {};
    const std::uint64_t offset = cursor.number(offset_bytes_);
    const std::uint64_t length = cursor.number(length_bytes_);
    const Block block = find(offset);
    if (length > block.size || offset - block.offset > block.size - length) {
      file_.fail_damaged(object_, "a message leaves its block");
    }
    return file_.read(block.address + (offset - block.offset), length, object_);
  }

 private:
  struct Block {
    std::uint64_t address, offset, size;
  };

  [[nodiscard]] std::uint64_t row_size(std::uint64_t row) const { return first_size_ << (row == 0 ? 0 : row - 1); }

  /// Only direct blocks: half a megabyte of links or attributes fits into those of the root block.
  void read_rows() {
    const std::uint64_t direct_rows =
        static_cast<std::uint64_t>(std::bit_width(largest_direct_) - std::bit_width(first_size_)) + 2;
    const std::uint64_t rows = std::min<std::uint64_t>(rows_, direct_rows);
    const std::uint64_t prefix = 4 + 1 + 8 + offset_bytes_;
    const std::vector<std::byte> bytes = file_.read(root_, prefix + rows * width_ * 8, object_);
    Hdf5Cursor cursor(file_, object_, bytes);
    cursor.signature("FHIB");
    cursor.skip(prefix - 4);
    std::uint64_t offset = 0;
    for (std::uint64_t n = 0; n < rows * width_; ++n) {
      blocks_.push_back({cursor.u64(), offset, row_size(n / width_)});
      offset += row_size(n / width_);
    }
  }

  [[nodiscard]] Block find(std::uint64_t offset) const {
    if (rows_ == 0 && offset < first_size_) return {root_, 0, first_size_};
    const auto after = std::upper_bound(blocks_.begin(), blocks_.end(), offset,
                                        [](std::uint64_t place, const Block& block) { return place < block.offset; });
    if (after == blocks_.begin()) file_.fail_damaged(object_, "a message lies outside of its heap");
    const Block block = *(after - 1);
    if (block.address == kHdf5Undefined || offset - block.offset >= block.size || block.address > file_.size()) {
      file_.fail_damaged(object_, "a message lies outside of its heap");
    }
    return block;
  }

  const Hdf5File& file_;
  const std::string& object_;
  std::size_t id_bytes_ = 0;
  std::size_t offset_bytes_ = 0;
  std::size_t length_bytes_ = 0;
  std::uint16_t width_ = 0;
  std::uint16_t rows_ = 0;
  std::uint64_t first_size_ = 0;
  std::uint64_t largest_direct_ = 0;
  std::uint64_t root_ = 0;
  std::vector<Block> blocks_;
};

/// A version 2 B-tree of links or attributes (format specification, III.A.2), walked from end to end.
class MessageIndex {
 public:
  MessageIndex(const Hdf5File& file, const std::string& object, const FractalHeap& heap,
               const std::function<void(std::span<const std::byte>)>& use)
      : file_(file), object_(object), heap_(heap), use_(use) {}

  void walk(std::uint64_t address) {
    constexpr std::uint64_t kHeaderBytes = 34;
    const std::vector<std::byte> bytes = file_.read(address, kHeaderBytes, object_);
    Hdf5Cursor cursor(file_, object_, bytes);
    cursor.signature("BTHD");
    cursor.skip(1);
    type_ = cursor.u8();
    const std::uint32_t node_bytes = cursor.u32();
    record_bytes_ = cursor.u16();
    const std::uint16_t depth = cursor.u16();
    cursor.skip(2);
    const std::uint64_t root = cursor.u64();
    const std::uint16_t records = cursor.u16();
    const std::size_t expected = heap_.id_bytes() + (type_ == kLinksByName ? 4 : 9);
    if ((type_ != kLinksByName && type_ != kAttributesByName) || record_bytes_ != expected || node_bytes < 64 ||
        node_bytes > file_.size() || depth > 8) {
      file_.fail_damaged(object_, "its index is none of links or attributes");
    }
    plan_levels(node_bytes, depth);
    if (root != kHdf5Undefined && records > 0) walk_node(root, depth, records);
  }

 private:
  /// Bytes of the counts beside a child's address depend on how many records can be below it.
  void plan_levels(std::uint64_t node_bytes, std::uint16_t depth) {
    constexpr std::uint64_t kOverhead = 10;  // signature, version, type, checksum
    std::uint64_t most = (node_bytes - kOverhead) / record_bytes_;
    count_bytes_ = bytes_for(most);
    std::uint64_t below = most;
    total_bytes_ = {0};
    for (std::uint16_t level = 1; level <= depth; ++level) {
      const std::uint64_t pointer = 8 + count_bytes_ + total_bytes_.back();
      if (node_bytes < kOverhead + pointer) file_.fail_damaged(object_, "its index has no such sizes");
      most = (node_bytes - kOverhead - pointer) / (record_bytes_ + pointer);
      if (__builtin_mul_overflow(most + 1, below, &below) || __builtin_add_overflow(below, most, &below)) {
        file_.fail_damaged(object_, "its index has no such sizes");
      }
      total_bytes_.push_back(bytes_for(below));
    }
  }

  void walk_node(std::uint64_t address, std::uint16_t depth, std::uint64_t records) {
    seen_ += records + 1;
    if (seen_ > std::min(kMostMessages, file_.size())) file_.fail_damaged(object_, "its index has no end");
    const std::uint64_t pointer = 8 + count_bytes_ + (depth > 0 ? total_bytes_[depth - 1U] : 0);
    const std::uint64_t pointers = depth > 0 ? (records + 1) * pointer : 0;
    const std::vector<std::byte> bytes = file_.read(address, 6 + records * record_bytes_ + pointers, object_);
    Hdf5Cursor cursor(file_, object_, bytes);
    cursor.signature(depth > 0 ? "BTIN" : "BTLF");
    cursor.skip(2);
    for (std::uint64_t n = 0; n < records; ++n) use_record(cursor.take(record_bytes_));
    for (std::uint64_t n = 0; depth > 0 && n <= records; ++n) {
      const std::uint64_t child = cursor.u64();
      const std::uint64_t count = cursor.number(count_bytes_);
      cursor.skip(pointer - 8 - count_bytes_);
      walk_node(child, static_cast<std::uint16_t>(depth - 1), count);
    }
  }

  void use_record(std::span<const std::byte> record) {
    const std::size_t hash_bytes = type_ == kLinksByName ? 4 : 0;  // a link's comes first, an attribute's last
    const std::vector<std::byte> message = heap_.read(record.subspan(hash_bytes, heap_.id_bytes()));
    bytes_ += message.size();
    if (bytes_ > file_.size()) file_.fail_damaged(object_, "its attributes or links are longer than the file");
    if (!message.empty()) use_(message);
  }

  const Hdf5File& file_;
  const std::string& object_;
  const FractalHeap& heap_;
  const std::function<void(std::span<const std::byte>)>& use_;
  std::uint8_t type_ = 0;
  std::uint16_t record_bytes_ = 0;
  std::size_t count_bytes_ = 0;
  std::vector<std::size_t> total_bytes_;  ///< by level
  std::uint64_t seen_ = 0;
  std::uint64_t bytes_ = 0;
};

}  // namespace

void for_each_dense_message(const Hdf5File& file, const std::string& object, const Hdf5DenseStorage& storage,
                            const std::function<void(std::span<const std::byte>)>& use) {
  const FractalHeap heap(file, object, storage.heap);
  MessageIndex(file, object, heap, use).walk(storage.index);
}

}  // namespace foxscope
