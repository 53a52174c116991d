#include "backend/file/hdf5/hdf5_chunks.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <optional>

#include <fmt/format.h>

#include "backend/file/hdf5/hdf5_tree.h"

namespace foxscope {
namespace {

/// Deflate makes data at most 1032 times shorter (zlib's technical notes); a claim of more is a lie.
constexpr std::uint64_t kLargestExpansion = 1032;
/// A chunk may be longer than the array that it holds, which may have been meant to grow, but not much.
constexpr std::uint64_t kLargestPaddedChunk = std::uint64_t{64} << 20U;
/// Elements of a table of chunks that may be longer than its file.
constexpr std::uint64_t kShortTable = std::uint64_t{1} << 20U;
constexpr std::uint64_t kMany = std::numeric_limits<std::uint64_t>::max();

std::uint64_t rounded_up(std::uint64_t size, std::uint64_t unit) { return size / unit + (size % unit != 0 ? 1 : 0); }

/// The index of an array's chunks while it is read.
class ChunkIndex {
 public:
  ChunkIndex(const Hdf5File& file, const std::string& object, const Hdf5Shape& shape, Hdf5Packing packing)
      : file_(file), object_(object), shape_(shape), packing_(packing), claims_(file) {}

  Hdf5Chunking read(unsigned version, Hdf5Cursor message, std::uint32_t element_bytes) {
    version < 4 ? read_older(message, element_bytes) : read_newer(message, element_bytes);
    check();
    return std::move(result_);
  }

 private:
  /// Sizes of a chunk: one more than the array's axes, the last is the element's.
  void read_sizes(Hdf5Cursor& message, std::uint8_t axes, std::size_t number_bytes, std::uint32_t element_bytes) {
    if (axes != shape_.dims.size() + 1 || shape_.dims.empty()) fail("its chunks have other axes");
    for (std::size_t axis = 0; axis < shape_.dims.size(); ++axis) result_.dims.push_back(message.number(number_bytes));
    result_.bytes = hdf5_product(result_.dims, element_bytes);
    if (message.number(number_bytes) != element_bytes || result_.bytes == 0) fail("its chunks have no size");
    for (std::size_t axis = 0; axis < shape_.dims.size(); ++axis) {
      counts_.push_back(rounded_up(shape_.dims[axis], result_.dims[axis]));
    }
    expected_ = hdf5_product(counts_, 1);
    const std::uint64_t array_bytes = hdf5_product(shape_.dims, element_bytes);
    if (expected_ > 0 && result_.bytes > std::max(array_bytes, kLargestPaddedChunk)) {
      fail(fmt::format("its chunks of {} bytes are longer than all of it", result_.bytes));
    }
  }

  void read_older(Hdf5Cursor& message, std::uint32_t element_bytes) {
    const std::uint8_t axes = message.u8();
    const std::uint64_t index = message.u64();
    read_sizes(message, axes, 4, element_bytes);
    if (index != kHdf5Undefined && expected_ > 0) read_older_tree(index, -1);
    sort();
  }

  void read_older_tree(std::uint64_t address, int parent_level) {
    constexpr std::uint64_t kNodePrefix = 24;
    const std::vector<std::byte> prefix = file_.read(address, kNodePrefix, object_);
    Hdf5Cursor cursor(file_, object_, prefix);
    cursor.signature("TREE");
    const std::uint8_t type = cursor.u8();
    const int level = cursor.u8();
    const std::uint16_t used = cursor.u16();
    if (type != 1 || (parent_level >= 0 && level != parent_level - 1)) fail("its table of chunks cannot be read");
    const std::uint64_t entry = 8 + 8 * (shape_.dims.size() + 1) + 8;
    claims_.claim(address, kNodePrefix + used * entry, object_);
    const std::vector<std::byte> bytes = file_.read(address + kNodePrefix, used * entry, object_);
    Hdf5Cursor entries(file_, object_, bytes);
    for (unsigned n = 0; n < used; ++n) {
      Hdf5Chunk chunk;
      chunk.size = entries.u32();
      chunk.filter_mask = entries.u32();
      std::vector<std::uint64_t> place(shape_.dims.size());
      for (std::uint64_t& position : place) position = entries.u64();
      entries.skip(8);  // position within a number
      chunk.address = entries.u64();
      if (level > 0) {
        read_older_tree(chunk.address, level);
        continue;
      }
      for (std::size_t axis = 0; axis < place.size(); ++axis) {
        if (place[axis] % result_.dims[axis] != 0) fail("a chunk lies outside of its shape");
        place[axis] /= result_.dims[axis];
      }
      chunk.number = number_of(place);
      result_.chunks.push_back(chunk);
    }
  }

  void read_newer(Hdf5Cursor& message, std::uint32_t element_bytes) {
    enum Kind : std::uint8_t { single = 1, implicit = 2, fixed_array = 3, extensible_array = 4, tree = 5 };
    const std::uint8_t flags = message.u8();
    edges_unfiltered_ = (flags & 1U) != 0;
    const std::uint8_t axes = message.u8();
    const std::uint8_t number_bytes = message.u8();
    if (number_bytes < 1 || number_bytes > 8) fail("its chunks have no size");
    read_sizes(message, axes, number_bytes, element_bytes);
    const std::uint8_t kind = message.u8();
    Hdf5Chunk only{0, 0, result_.bytes, 0};
    if (kind == single && (flags & 2U) != 0) {
      only.size = message.u64();
      only.filter_mask = message.u32();
    }
    constexpr std::uint8_t kParameterBytes[] = {0, 0, 1, 5, 6};
    if (kind < single || kind > tree) file_.fail_unsupported(object_, "an unknown index of chunks");
    message.skip(kParameterBytes[kind - 1]);
    const std::uint64_t address = message.u64();
    if (address == kHdf5Undefined || expected_ == 0) return;
    switch (kind) {
      case single:
        only.address = address;
        if (expected_ == 1) result_.chunks.push_back(only);
        break;
      case implicit:
        read_implicit(address);
        break;
      case fixed_array:
        use_elements(read_fixed_array(address), grid_steps({}));
        break;
      case extensible_array:
        read_extensible_array(address);
        break;
      default:
        read_tree(address);
    }
  }

  /// Chunks without an index lie side by side.
  void read_implicit(std::uint64_t address) {
    if (packing_ != Hdf5Packing::none) fail("its chunks have filters and no index");
    if (expected_ > file_.size() / result_.bytes) fail("the data of a chunk are not in the file");
    const std::vector<std::uint64_t> steps = grid_steps({});
    for (std::uint64_t number = 0; number < expected_; ++number) {
      std::uint64_t offset = 0;
      if (__builtin_mul_overflow(chunk_index(number, steps), result_.bytes, &offset) || offset > file_.size()) {
        fail("the data of a chunk are not in the file");
      }
      result_.chunks.push_back({number, address + offset, result_.bytes, 0});
    }
  }

  void read_tree(std::uint64_t address) {
    const bool filtered = packing_ != Hdf5Packing::none;
    const Hdf5RecordType type = filtered ? Hdf5RecordType::filtered_chunk : Hdf5RecordType::chunk;
    for_each_hdf5_record(file_, object_, address, type, claims_, [&](std::span<const std::byte> record) {
      Hdf5Cursor cursor(file_, object_, record);
      const std::size_t place_bytes = 8 * shape_.dims.size();
      if (record.size() < place_bytes) fail("its table of chunks cannot be read");
      Hdf5Chunk chunk = read_element(cursor, record.size() - place_bytes);
      std::vector<std::uint64_t> place(shape_.dims.size());
      for (std::uint64_t& position : place) position = cursor.u64();
      chunk.number = number_of(place);
      if (chunk.address != kHdf5Undefined) result_.chunks.push_back(chunk);
    });
    sort();
  }

  /// Reads an index's entry of a chunk: its address and, with filters, its size and which of them were left out.
  Hdf5Chunk read_element(Hdf5Cursor& cursor, std::size_t bytes) const {
    Hdf5Chunk chunk;
    chunk.address = cursor.u64();
    chunk.size = result_.bytes;
    if (packing_ == Hdf5Packing::none) {
      if (bytes != 8) fail("its table of chunks cannot be read");
      return chunk;
    }
    if (bytes < 13 || bytes > 20) fail("its table of chunks cannot be read");
    chunk.size = cursor.number(bytes - 12);
    chunk.filter_mask = cursor.u32();
    return chunk;
  }

  /// The elements of an array index: one for each chunk that the array may have when it is grown.
  struct Elements {
    std::size_t bytes = 8;            ///< of one
    std::vector<std::byte> elements;  ///< those that are not in the file are all 0xff: their address is undefined
  };

  /// Takes what a header and its blocks begin with.
  std::uint8_t client(Hdf5Cursor& cursor, const char* signature) const {
    cursor.signature(signature);
    if (cursor.u8() != 0) file_.fail_unsupported(object_, "an unknown index of chunks");
    const std::uint8_t client = cursor.u8();
    if ((client == 1) != (packing_ != Hdf5Packing::none) || client > 1) fail("its table of chunks cannot be read");
    return client;
  }

  std::vector<std::byte> claim_checked(std::uint64_t address, std::uint64_t size) {
    claims_.claim(address, size, object_);
    return file_.read_checked(address, size, object_);
  }

  /// @param most  how many there may be at least: the table of an array that grows has those alone that were written
  Elements none(std::size_t element_bytes, std::uint64_t count, std::uint64_t most = 0) const {
    if (count > std::max(most, file_.size() / element_bytes)) fail("its table of chunks is longer than the file");
    return {element_bytes, std::vector<std::byte>(count * element_bytes, std::byte{0xff})};
  }

  Elements read_fixed_array(std::uint64_t address) {
    constexpr std::uint64_t kHeader = 24;
    constexpr std::uint64_t kBlockPrefix = 14;
    const std::vector<std::byte> header = claim_checked(address, kHeader);
    Hdf5Cursor cursor(file_, object_, header);
    client(cursor, "FAHD");
    const std::uint8_t element_bytes = cursor.u8();
    const std::uint8_t page_bits = cursor.u8();
    const std::uint64_t count = cursor.u64();
    const std::uint64_t block = cursor.u64();
    if (element_bytes < 8 || page_bits > 40) fail("its table of chunks cannot be read");
    Elements result = none(element_bytes, count);
    if (block == kHdf5Undefined) return result;
    const std::uint64_t page = std::uint64_t{1} << page_bits;
    const bool paged = count > page;
    const std::uint64_t pages = paged ? rounded_up(count, page) : 0;
    const std::uint64_t prefix = kBlockPrefix + (pages + 7) / 8;
    const std::vector<std::byte> bytes = claim_checked(block, prefix + (paged ? 0 : count * element_bytes));
    Hdf5Cursor content(file_, object_, bytes);
    client(content, "FADB");
    if (content.u64() != address) fail("its table of chunks belongs to another array");
    if (!paged) {
      const auto elements = content.take(count * element_bytes);
      std::copy(elements.begin(), elements.end(), result.elements.begin());
      return result;
    }
    read_pages({block + prefix + kHdf5Checksum, page, count}, content.take((pages + 7) / 8), 0, 0, result);
    return result;
  }

  struct Pages {
    std::uint64_t address;
    std::uint64_t page;   ///< elements of one
    std::uint64_t count;  ///< elements of all
  };

  /// Pages lie side by side; bits of `used` from `first_bit` on, highest first, say which were ever written.
  void read_pages(const Pages& pages, std::span<const std::byte> used, std::uint64_t first_bit, std::uint64_t begin,
                  Elements& result) {
    const std::uint64_t most = result.elements.size() / result.bytes;
    for (std::uint64_t n = 0; n * pages.page < pages.count && begin + n * pages.page < most; ++n) {
      const std::uint64_t bit = first_bit + n;
      if ((std::to_integer<unsigned>(used[bit / 8]) & (0x80U >> (bit % 8))) == 0) continue;
      const std::uint64_t first = n * pages.page;
      const std::uint64_t count = std::min(pages.page, pages.count - first);
      const std::uint64_t address = pages.address + n * (pages.page * result.bytes + kHdf5Checksum);
      put(claim_checked(address, count * result.bytes), begin + first, result);
    }
  }

  /// Copies those elements that an array needs.
  static void put(std::span<const std::byte> elements, std::uint64_t begin, Elements& result) {
    const std::uint64_t at = std::min<std::uint64_t>(begin * result.bytes, result.elements.size());
    const auto count = std::min<std::uint64_t>(elements.size(), result.elements.size() - at);
    std::copy_n(elements.begin(), count, result.elements.begin() + static_cast<std::ptrdiff_t>(at));
  }

  /// An array that grows: some elements in its index block, then in data blocks of growing number and size, of which
  /// the first are listed by the index block and the others by super blocks.
  struct ExtensibleArray {
    std::uint64_t address;
    std::uint64_t block_offset_bytes;
    std::uint64_t least_elements;  ///< of a data block
    std::uint64_t page;            ///< elements of a page; larger data blocks have pages

    [[nodiscard]] static std::uint64_t blocks(unsigned level) { return std::uint64_t{1} << (level / 2); }
    [[nodiscard]] std::uint64_t elements(unsigned level) const { return least_elements << ((level + 1) / 2); }
    [[nodiscard]] std::uint64_t pages(unsigned level) const {
      return elements(level) > page ? elements(level) / page : 0;
    }
  };

  void read_extensible_array(std::uint64_t address) {
    constexpr std::uint64_t kHeader = 68;
    constexpr std::uint64_t kPrefix = 14;
    const std::vector<std::byte> header = claim_checked(address, kHeader);
    Hdf5Cursor cursor(file_, object_, header);
    client(cursor, "EAHD");
    const std::uint8_t element_bytes = cursor.u8();
    const std::uint8_t index_bits = cursor.u8();
    const std::uint8_t in_index_block = cursor.u8();
    const std::uint8_t least_elements = cursor.u8();
    const std::uint8_t least_pointers = cursor.u8();
    const std::uint8_t page_bits = cursor.u8();
    cursor.skip(6 * 8);  // how much there is of everything
    const std::uint64_t index_block = cursor.u64();
    if (element_bytes < 8 || index_bits > 56 || page_bits > 40 || !std::has_single_bit(least_elements) ||
        !std::has_single_bit(least_pointers) || std::bit_width(least_elements) > index_bits) {
      fail("its table of chunks cannot be read");
    }
    // The axis that grows without limit comes first.
    const auto unlimited = std::find(shape_.most.begin(), shape_.most.end(), kHdf5Undefined);
    if (unlimited == shape_.most.end()) fail("its table of chunks belongs to an array that grows");
    const std::vector<std::uint64_t> steps = grid_steps(static_cast<std::size_t>(unlimited - shape_.most.begin()));
    const std::uint64_t last = chunk_index(expected_ - 1, steps);
    Elements result = none(element_bytes, last == kMany ? kMany : last + 1, kShortTable);
    if (index_block == kHdf5Undefined) return;

    const ExtensibleArray array{address, (index_bits + 7U) / 8, least_elements, std::uint64_t{1} << page_bits};
    const unsigned levels = 1U + index_bits - (static_cast<unsigned>(std::bit_width(least_elements)) - 1U);
    const unsigned direct_levels = std::min(levels, 2 * (static_cast<unsigned>(std::bit_width(least_pointers)) - 1U));
    const std::uint64_t direct_blocks = 2 * (std::uint64_t{least_pointers} - 1);
    const std::uint64_t elements_size = std::uint64_t{in_index_block} * element_bytes;
    const std::vector<std::byte> bytes =
        claim_checked(index_block, kPrefix + elements_size + (direct_blocks + levels - direct_levels) * 8);
    Hdf5Cursor content(file_, object_, bytes);
    client(content, "EAIB");
    if (content.u64() != address) fail("its table of chunks belongs to another array");
    put(content.take(elements_size), 0, result);
    std::uint64_t begin = in_index_block;
    for (unsigned level = 0; level < direct_levels; ++level) {
      for (std::uint64_t n = 0; n < ExtensibleArray::blocks(level); ++n, begin += array.elements(level)) {
        read_data_block(array, content.u64(), array.elements(level), begin, result);
      }
    }
    const std::uint64_t needed = result.elements.size() / result.bytes;
    for (unsigned level = direct_levels; level < levels && begin < needed; ++level) {
      read_super_block(array, content.u64(), level, begin, result);
      begin += ExtensibleArray::blocks(level) * array.elements(level);
    }
    use_elements(result, steps);
  }

  void read_data_block(const ExtensibleArray& array, std::uint64_t address, std::uint64_t count, std::uint64_t begin,
                       Elements& result) {
    if (address == kHdf5Undefined || begin * result.bytes >= result.elements.size()) return;
    if (count > file_.size()) fail("its table of chunks is longer than the file");
    const std::vector<std::byte> bytes = claim_checked(address, 14 + array.block_offset_bytes + count * result.bytes);
    Hdf5Cursor content(file_, object_, bytes);
    client(content, "EADB");
    if (content.u64() != array.address) fail("its table of chunks belongs to another array");
    content.skip(array.block_offset_bytes);
    put(content.take(content.left()), begin, result);
  }

  void read_super_block(const ExtensibleArray& array, std::uint64_t address, unsigned level, std::uint64_t begin,
                        Elements& result) {
    if (address == kHdf5Undefined) return;
    const std::uint64_t blocks = ExtensibleArray::blocks(level);
    const std::uint64_t elements = array.elements(level);
    const std::uint64_t pages = array.pages(level);
    const std::uint64_t used_bytes = (pages + 7) / 8;
    if (elements > file_.size() || blocks > file_.size()) fail("its table of chunks is longer than the file");
    const std::vector<std::byte> bytes =
        claim_checked(address, 14 + array.block_offset_bytes + blocks * (used_bytes + 8));
    Hdf5Cursor content(file_, object_, bytes);
    client(content, "EASB");
    if (content.u64() != array.address) fail("its table of chunks belongs to another array");
    content.skip(array.block_offset_bytes);
    const std::span<const std::byte> used = content.take(blocks * used_bytes);
    for (std::uint64_t n = 0; n < blocks; ++n, begin += elements) {
      const std::uint64_t block = content.u64();
      if (pages == 0) {
        read_data_block(array, block, elements, begin, result);
      } else if (block != kHdf5Undefined && begin * result.bytes < result.elements.size()) {
        const std::uint64_t prefix = 14 + array.block_offset_bytes;
        const std::vector<std::byte> head = claim_checked(block, prefix);
        Hdf5Cursor start(file_, object_, head);
        client(start, "EADB");
        read_pages({block + prefix + kHdf5Checksum, array.page, elements}, used, n * pages, begin, result);
      }
    }
  }

  /// How far apart in an array index the chunks are that are neighbours along each axis: as of the largest shape.
  /// @param first  the axis that counts as the first, if it is another
  [[nodiscard]] std::vector<std::uint64_t> grid_steps(std::optional<std::size_t> first) const {
    const std::size_t axes = shape_.dims.size();
    std::vector<std::uint64_t> steps(axes);
    std::uint64_t step = 1;
    const auto take = [&](std::size_t axis) {
      steps[axis] = step;
      const std::uint64_t most = shape_.most[axis];
      const std::uint64_t along = most == kHdf5Undefined ? kMany : rounded_up(most, result_.dims[axis]);
      if (__builtin_mul_overflow(step, along, &step)) step = kMany;
    };
    for (std::size_t axis = axes; axis-- > 0;) {
      if (axis != first) take(axis);
    }
    if (first) take(*first);
    return steps;
  }

  /// Where in an array index a chunk stands; kMany where that is nowhere.
  [[nodiscard]] std::uint64_t chunk_index(std::uint64_t number, const std::vector<std::uint64_t>& steps) const {
    std::uint64_t index = 0;
    for (std::size_t axis = steps.size(); axis-- > 0; number /= counts_[axis]) {
      const std::uint64_t along = number % counts_[axis];
      std::uint64_t part = 0;
      if (__builtin_mul_overflow(along, steps[axis], &part) || __builtin_add_overflow(index, part, &index))
        return kMany;
    }
    return index;
  }

  void use_elements(const Elements& elements, const std::vector<std::uint64_t>& steps) {
    const std::uint64_t count = elements.elements.size() / elements.bytes;
    if (expected_ > count) fail("its table of chunks is too short");
    for (std::uint64_t number = 0; number < expected_; ++number) {
      const std::uint64_t index = chunk_index(number, steps);
      if (index >= count) fail("its table of chunks is too short");
      Hdf5Cursor cursor(file_, object_, std::span(elements.elements).subspan(index * elements.bytes, elements.bytes));
      Hdf5Chunk chunk = read_element(cursor, elements.bytes);
      chunk.number = number;
      if (chunk.address != kHdf5Undefined) result_.chunks.push_back(chunk);
    }
  }

  [[nodiscard]] std::uint64_t number_of(const std::vector<std::uint64_t>& place) const {
    std::uint64_t number = 0;
    for (std::size_t axis = 0; axis < place.size(); ++axis) {
      if (place[axis] >= counts_[axis]) fail("a chunk lies outside of its shape");
      number = number * counts_[axis] + place[axis];
    }
    return number;
  }

  void sort() {
    std::sort(result_.chunks.begin(), result_.chunks.end(),
              [](const Hdf5Chunk& a, const Hdf5Chunk& b) { return a.number < b.number; });
  }

  /// Whether a part of a chunk lies outside of the array.
  [[nodiscard]] bool is_at_edge(std::uint64_t number) const {
    for (std::size_t axis = counts_.size(); axis-- > 0; number /= counts_[axis]) {
      if ((number % counts_[axis] + 1) * result_.dims[axis] > shape_.dims[axis]) return true;
    }
    return false;
  }

  /// Chunks must lie in the array, by number: each at its place once, and each with bytes of its own.
  void check() {
    for (std::size_t n = 0; n < result_.chunks.size(); ++n) {
      Hdf5Chunk& chunk = result_.chunks[n];
      if (n > 0 && chunk.number <= result_.chunks[n - 1].number) fail("two chunks are at one place");
      if (edges_unfiltered_ && is_at_edge(chunk.number)) chunk.filter_mask = ~0U;
      const bool same_size = packing_ != Hdf5Packing::deflated;
      if (result_.bytes / kLargestExpansion > chunk.size || (same_size && chunk.size != result_.bytes)) {
        fail("the data of a chunk are not in the file");
      }
      claims_.claim(chunk.address, chunk.size, object_);
    }
    result_.whole = result_.chunks.size() == expected_;
  }

  [[noreturn]] void fail(const std::string& problem) const { file_.fail_damaged(object_, problem); }

  const Hdf5File& file_;
  const std::string& object_;
  const Hdf5Shape& shape_;
  const Hdf5Packing packing_;
  Hdf5Claims claims_;
  bool edges_unfiltered_ = false;
  std::vector<std::uint64_t> counts_;  ///< chunks along each axis
  std::uint64_t expected_ = 0;
  Hdf5Chunking result_;
};

}  // namespace

std::uint64_t hdf5_product(const std::vector<std::uint64_t>& dims, std::uint64_t start) {
  std::uint64_t result = start;
  for (const std::uint64_t extent : dims) {
    if (__builtin_mul_overflow(result, extent, &result)) result = kMany;
    if (extent == 0) return 0;
  }
  return result;
}

std::vector<std::uint64_t> Hdf5Chunking::first(const std::vector<std::uint64_t>& shape, std::uint64_t number) const {
  std::vector<std::uint64_t> position(dims.size());
  for (std::size_t axis = dims.size(); axis-- > 0;) {
    const std::uint64_t along = rounded_up(shape[axis], dims[axis]);
    position[axis] = number % along * dims[axis];
    number /= along;
  }
  return position;
}

Hdf5Chunking read_hdf5_chunking(const Hdf5File& file, const std::string& object, unsigned version, Hdf5Cursor message,
                                const Hdf5Shape& shape, std::uint32_t element_bytes, Hdf5Packing packing) {
  return ChunkIndex(file, object, shape, packing).read(version, message, element_bytes);
}

}  // namespace foxscope
