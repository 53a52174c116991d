// Changes a file as HDF5, beside libFuzzer's own changes: addresses are copied over addresses, counts become large,
// blocks are repeated at the end of the file, and checksums are made right again, so that what lies behind them is
// reached.
#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <random>
#include <span>
#include <string_view>
#include <vector>

#include "backend/file/hdf5/hdf5_file.h"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);

namespace {

/// The blocks that HDF5's structures are made of begin with these letters.
constexpr std::array<std::string_view, 17> kSignatures = {"TREE", "SNOD", "HEAP", "GCOL", "OHDR", "OCHK",
                                                          "BTHD", "BTLF", "BTIN", "FRHP", "FHDB", "FHIB",
                                                          "FAHD", "FADB", "EAHD", "EAIB", "EADB"};

constexpr std::uint32_t kCase = 0xe0e0e0e0U;
constexpr std::uint32_t kUpperCase = 0x40404040U;

/// A file of HDF5 while it is changed.
class Structure {
 public:
  Structure(std::span<std::uint8_t> bytes, std::size_t size) : bytes_(bytes), size_(size) {
    for (std::size_t at = 0; at + 4 <= size_; ++at) {
      std::uint32_t word = 0;
      std::memcpy(&word, &bytes_[at], sizeof word);
      if ((word & kCase) != kUpperCase) continue;  // four letters
      for (const std::string_view letters : kSignatures) {
        if (std::memcmp(&word, letters.data(), 4) == 0) blocks_.push_back(at);
      }
    }
    for (std::size_t at = 0; at + 8 <= size_; ++at) {
      std::uint64_t target = 0;
      std::memcpy(&target, &bytes_[at], sizeof target);
      if (target > 0 && target < size_ && is_object(target)) addresses_.push_back(at);
    }
  }

  [[nodiscard]] std::size_t size() const { return size_; }

  /// One thing is pointed at from two places.
  void copy_address(std::minstd_rand& random) {
    if (addresses_.empty()) return;
    put(pick(addresses_, random), 8, number(pick(addresses_, random), 8));
  }

  /// A number near the beginning of a block, where counts and sizes are, becomes another.
  void change_count(std::minstd_rand& random) {
    if (blocks_.empty()) return;
    constexpr std::array<std::size_t, 4> kWidths = {1, 2, 4, 8};
    const std::size_t width = kWidths[random() % 4];
    const std::size_t at = pick(blocks_, random) + 4 + random() % 40;
    if (at + width > size_) return;
    const std::array<std::uint64_t, 6> values = {
        0, 1, ~std::uint64_t{0}, number(at, width) + 1, size_, std::uint64_t{1} << random() % 64};
    put(at, width, values[random() % values.size()]);
  }

  /// A block stands at the end of the file again, and one address points to the second.
  void repeat_block(std::minstd_rand& random) {
    if (blocks_.empty() || addresses_.empty()) return;
    const std::size_t n = random() % blocks_.size();
    const std::size_t end = n + 1 < blocks_.size() ? blocks_[n + 1] : size_;
    const std::size_t length = end - blocks_[n];
    const std::size_t at = (size_ + 7) / 8 * 8;
    if (at + length > bytes_.size()) return;
    std::memset(&bytes_[size_], 0, at - size_);
    std::memmove(&bytes_[at], &bytes_[blocks_[n]], length);
    put(pick(addresses_, random), 8, at);
    size_ = at + length;
    blocks_.push_back(at);
  }

  /// The superblock knows the file's length, and version 2 structures their checksums.
  void mend() {
    if (size_ < 56) return;
    const bool older = bytes_[8] < 2;
    put(older ? 40 : 28, 8, size_);
    if (!older) check(0, 44);
    for (const std::size_t block : blocks_) mend_block(block);
  }

 private:
  static std::size_t pick(const std::vector<std::size_t>& places, std::minstd_rand& random) {
    return places[random() % places.size()];
  }

  [[nodiscard]] bool is_object(std::size_t at) const {
    return std::binary_search(blocks_.begin(), blocks_.end(), at) ||
           (at + 16 <= size_ && bytes_[at] == 1 && bytes_[at + 1] == 0 && bytes_[at + 2] > 0 && bytes_[at + 4] > 0);
  }

  [[nodiscard]] std::uint64_t number(std::size_t at, std::size_t width) const {
    std::uint64_t value = 0;
    for (std::size_t n = width; n-- > 0;) value = value << 8U | (at + n < size_ ? bytes_[at + n] : 0U);
    return value;
  }

  void put(std::size_t at, std::size_t width, std::uint64_t value) {
    for (std::size_t n = 0; n < width && at + n < size_; ++n) {
      bytes_[at + n] = static_cast<std::uint8_t>(value >> (8 * n));
    }
  }

  /// Writes the checksum behind a part of the file.
  void check(std::size_t at, std::uint64_t length) {
    if (at > size_ || length > size_ - at || size_ - at - length < 4) return;
    put(at + length, 4, foxscope::hdf5_checksum(std::as_bytes(bytes_.subspan(at, length))));
  }

  [[nodiscard]] bool is(std::size_t at, std::string_view letters) const {
    return at + 4 <= size_ && std::memcmp(&bytes_[at], letters.data(), 4) == 0;
  }

  void mend_block(std::size_t at) {
    if (is(at, "OHDR")) mend_header(at);
    if (is(at, "BTHD")) mend_tree(at);
    if (is(at, "FRHP")) mend_heap(at);
    if (is(at, "FAHD")) {
      const std::uint64_t count = number(at + 8, 8);
      if (count < size_) check(number(at + 16, 8), 14 + count * bytes_[at + 6]);
      check(at, 24);
    }
    if (is(at, "EAHD")) mend_extensible_array(at);
  }

  void mend_header(std::size_t at) {
    const unsigned flags = bytes_[at + 5];
    const std::size_t width = std::size_t{1} << (flags & 3U);
    const std::size_t used = 6 + ((flags & 0x20U) != 0 ? 16 : 0) + ((flags & 0x10U) != 0 ? 4 : 0);
    const std::uint64_t length = number(at + used, width);
    if (length > size_) return;
    // Continuations may stand anywhere: their address is followed by their length.
    for (std::size_t place = at + used; place + 16 <= std::min(size_, at + used + width + length); ++place) {
      const std::uint64_t block = number(place, 8);
      const std::uint64_t size = number(place + 8, 8);
      if (block < size_ && is(block, "OCHK") && size >= 8 && size < size_) check(block, size - 4);
    }
    check(at, used + width + length);
  }

  void mend_tree(std::size_t at) {
    const std::uint64_t root = number(at + 16, 8);
    if (number(at + 12, 2) == 0 && root < size_) check(root, 6 + number(at + 24, 2) * number(at + 10, 2));
    check(at, 34);
  }

  void mend_heap(std::size_t at) {
    const std::uint64_t root = number(at + 132, 8);
    const std::uint64_t length = number(at + 112, 8);
    const std::uint64_t sum = root + 13 + (number(at + 128, 2) + 7) / 8;
    if (number(at + 140, 2) == 0 && root < size_ && length <= size_ - root && sum + 4 <= size_) {
      put(sum, 4, 0);
      put(sum, 4, foxscope::hdf5_checksum(std::as_bytes(bytes_.subspan(root, length))));
    }
    check(at, 142);
  }

  void mend_extensible_array(std::size_t at) {
    const std::uint64_t block = number(at + 60, 8);
    const unsigned element = bytes_[at + 6];
    const unsigned bits = bytes_[at + 7];
    const unsigned in_block = bytes_[at + 8];
    const auto least = static_cast<unsigned>(std::bit_width(bytes_[at + 9]));
    const unsigned pointers = bytes_[at + 10];
    const unsigned direct_levels = 2 * static_cast<unsigned>(std::bit_width(pointers)) - 2;
    if (block < size_ && pointers > 0 && bits + 2 > least + direct_levels) {
      const unsigned addresses = 2 * (pointers - 1) + bits + 2 - least - direct_levels;
      const std::size_t first = block + 14 + std::size_t{in_block} * element;
      for (unsigned n = 0; n < 2; ++n) {  // the first data blocks have `least` elements each
        const std::uint64_t data = number(first + 8 * std::size_t{n}, 8);
        if (data < size_) check(data, 14 + (bits + 7) / 8 + std::uint64_t{bytes_[at + 9]} * element);
      }
      check(block, 14 + std::size_t{in_block} * element + std::size_t{addresses} * 8);
    }
    check(at, 68);
  }

  std::span<std::uint8_t> bytes_;
  std::size_t size_;
  std::vector<std::size_t> blocks_;     ///< where they begin
  std::vector<std::size_t> addresses_;  ///< where an address of a block or an object is stored
};

}  // namespace

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned seed) {
  std::minstd_rand random(seed);
  if (random() % 4 == 0) return LLVMFuzzerMutate(data, size, max_size);
  if (random() % 2 == 0) size = LLVMFuzzerMutate(data, size, max_size);
  Structure structure({data, max_size}, size);
  for (unsigned changes = 1 + random() % 3; changes > 0; --changes) {
    switch (random() % 4) {
      case 0:
        structure.copy_address(random);
        break;
      case 1:
        structure.change_count(random);
        break;
      case 2:
        structure.repeat_block(random);
        break;
      default:
        break;
    }
  }
  structure.mend();
  return structure.size();
}
