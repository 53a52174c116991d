#include "backend/file/hdf5/hdf5_dense.h"

#include <algorithm>
#include <bit>
#include <map>
#include <vector>

#include <fmt/format.h>

namespace foxscope {
namespace {

constexpr std::uint64_t kBlockPrefix = 4 + 1 + 8;  // signature, version, the heap's address; the block's offset follows
constexpr std::uint64_t kLargestBlock = std::uint64_t{1} << 32U;

/// Objects of any size up to some kilobytes, in blocks of doubling size (format specification, III.G).
class FractalHeap {
 public:
  FractalHeap(const Hdf5File& file, const std::string& object, std::uint64_t address, Hdf5Claims& claims)
      : file_(file), object_(object), claims_(claims) {
    constexpr std::uint64_t kHeaderBytes = 142;
    claims_.claim(address, kHeaderBytes + 4, object);
    const std::vector<std::byte> bytes = file.read(address, kHeaderBytes + 4, object);
    Hdf5Cursor cursor(file, object, bytes);
    cursor.signature("FRHP");
    cursor.skip(1);
    id_bytes_ = cursor.u16();
    if (cursor.u16() != 0) file.fail_unsupported(object, "compressed attributes or links");
    with_checksums_ = (cursor.u8() & 2U) != 0;
    const std::uint32_t largest_object = cursor.u32();
    cursor.skip(96);  // huge objects, free space, and how much there is of everything
    width_ = cursor.u16();
    first_size_ = cursor.u64();
    largest_direct_ = cursor.u64();
    const std::uint16_t bits = cursor.u16();
    cursor.skip(2);
    root_ = cursor.u64();
    rows_ = cursor.u16();
    file.check(std::span(bytes).first(kHeaderBytes), cursor.u32(), object);
    if (width_ == 0 || bits > 64 || largest_object == 0 || largest_direct_ > kLargestBlock || first_size_ == 0 ||
        first_size_ > largest_direct_ || !std::has_single_bit(first_size_) || !std::has_single_bit(largest_direct_)) {
      file.fail_damaged(object, "its heap has impossible sizes");
    }
    offset_bytes_ = (bits + 7U) / 8;
    length_bytes_ =
        std::min((static_cast<std::size_t>(std::bit_width(largest_direct_)) + 6) / 8, hdf5_bytes_for(largest_object));
    if (rows_ > 0) read_rows();
  }

  [[nodiscard]] std::size_t id_bytes() const { return id_bytes_; }

  /// The object of an id; nothing for one that is kept outside of the heap's blocks.
  [[nodiscard]] std::vector<std::byte> read(std::span<const std::byte> id) {
    Hdf5Cursor cursor(file_, object_, id);
    const std::uint8_t kind = cursor.u8() >> 4U;
    if (kind != 0) return {};
    const std::uint64_t offset = cursor.number(offset_bytes_);
    const std::uint64_t length = cursor.number(length_bytes_);
    const Block block = find(offset);
    if (length > block.size || offset - block.offset > block.size - length) {
      file_.fail_damaged(object_, "a message leaves its block");
    }
    const std::span<const std::byte> message =
        std::span(content(block)).subspan(offset - block.offset, static_cast<std::size_t>(length));
    return {message.begin(), message.end()};
  }

 private:
  struct Block {
    std::uint64_t address, offset, size;
  };

  /// A block is read and its checksum verified once.
  const std::vector<std::byte>& content(const Block& block) {
    const auto known = content_.find(block.address);
    if (known != content_.end()) return known->second;
    claims_.claim(block.address, block.size, object_);
    std::vector<std::byte> bytes = file_.read(block.address, block.size, object_);
    const std::uint64_t prefix = kBlockPrefix + offset_bytes_;
    Hdf5Cursor cursor(file_, object_, bytes);
    cursor.signature("FHDB");
    cursor.skip(prefix - 4);
    if (with_checksums_) {
      // The checksum lies within what it covers, and counts as 0 there.
      const std::uint32_t checksum = cursor.u32();
      std::vector<std::byte> covered = bytes;
      std::fill_n(covered.begin() + static_cast<std::ptrdiff_t>(prefix), 4, std::byte{0});
      file_.check(covered, checksum, object_);
    }
    return content_.emplace(block.address, std::move(bytes)).first->second;
  }

  [[nodiscard]] std::uint64_t row_size(std::uint64_t row) const { return first_size_ << (row == 0 ? 0 : row - 1); }

  /// Reads direct blocks alone: half a megabyte of links or attributes fits into those of the root block.
  void read_rows() {
    const std::uint64_t direct_rows =
        static_cast<std::uint64_t>(std::bit_width(largest_direct_) - std::bit_width(first_size_)) + 2;
    const std::uint64_t rows = std::min<std::uint64_t>(rows_, direct_rows);
    const std::uint64_t prefix = kBlockPrefix + offset_bytes_;
    const std::uint64_t size = prefix + std::uint64_t{rows_} * width_ * 8;
    claims_.claim(root_, size, object_);
    const std::vector<std::byte> bytes = file_.read_checked(root_, size, object_);
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
  Hdf5Claims& claims_;
  bool with_checksums_ = false;
  std::size_t id_bytes_ = 0;
  std::size_t offset_bytes_ = 0;
  std::size_t length_bytes_ = 0;
  std::uint16_t width_ = 0;
  std::uint16_t rows_ = 0;
  std::uint64_t first_size_ = 0;
  std::uint64_t largest_direct_ = 0;
  std::uint64_t root_ = 0;
  std::vector<Block> blocks_;
  std::map<std::uint64_t, std::vector<std::byte>> content_;  ///< by the blocks' addresses
};

}  // namespace

void for_each_dense_message(const Hdf5File& file, const std::string& object, const Hdf5DenseStorage& storage,
                            Hdf5RecordType type, const std::function<void(std::span<const std::byte>)>& use) {
  Hdf5Claims claims(file);
  FractalHeap heap(file, object, storage.heap, claims);
  // A link's hash comes before its place in the heap, an attribute's flags, number and hash after it.
  const bool links = type == Hdf5RecordType::link_by_name;
  const std::size_t record_bytes = heap.id_bytes() + (links ? 4 : 9);
  std::uint64_t bytes = 0;
  for_each_hdf5_record(file, object, storage.index, type, claims, [&](std::span<const std::byte> record) {
    if (record.size() != record_bytes) file.fail_damaged(object, "its index is not an index of links or attributes");
    const std::vector<std::byte> message = heap.read(record.subspan(links ? 4 : 0, heap.id_bytes()));
    bytes += message.size();
    if (bytes > file.size()) file.fail_damaged(object, "its attributes or links are longer than the file");
    if (!message.empty()) use(message);
  });
}

}  // namespace foxscope
