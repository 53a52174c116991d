#include "backend/file/hdf5/hdf5_heap.h"

#include <algorithm>
#include <array>

namespace foxscope {
namespace {

constexpr std::uint64_t kCollectionPrefix = 16;
constexpr std::uint64_t kObjectPrefix = 16;
/// A block of more bytes is read string by string. Libraries write blocks of 4 KiB, but for a longer string.
constexpr std::uint64_t kHeldBlock = std::uint64_t{64} << 10U;

}  // namespace

const Hdf5Heap::Collection& Hdf5Heap::collection(std::uint64_t address, const std::string& object) {
  const auto found = collections_.find(address);
  if (found != collections_.end()) return found->second;
  const std::vector<std::byte> prefix = file_->read(address, kCollectionPrefix, object);
  Hdf5Cursor cursor(*file_, object, prefix);
  cursor.signature("GCOL");
  cursor.skip(4);
  const std::uint64_t size = cursor.u64();
  claims_.claim(address, std::max(size, kCollectionPrefix), object);

  Collection block;
  block.begin = address;
  if (size <= kHeldBlock) block.bytes = file_->read(address, size, object);
  std::uint64_t offset = address + kCollectionPrefix;
  while (offset + kObjectPrefix <= address + size) {
    std::array<std::byte, kObjectPrefix> head{};
    read(block, offset, head, object);
    Hdf5Cursor entry(*file_, object, head);
    const std::uint16_t index = entry.u16();
    entry.skip(6);
    const std::uint64_t bytes = entry.u64();
    if (index == 0) break;  // the free rest
    if (bytes > address + size - offset - kObjectPrefix) file_->fail_damaged(object, "a string leaves its block");
    block.places.try_emplace(index, Place{offset + kObjectPrefix, bytes});
    offset += kObjectPrefix + (bytes + 7) / 8 * 8;
  }
  return collections_.emplace(address, std::move(block)).first->second;
}

void Hdf5Heap::read(const Collection& from, std::uint64_t offset, std::span<std::byte> bytes,
                    const std::string& object) const {
  if (from.bytes.empty()) return file_->read(offset, bytes, object);
  std::ranges::copy_n(from.bytes.begin() + static_cast<std::ptrdiff_t>(offset - from.begin), std::ssize(bytes),
                      bytes.begin());
}

std::string Hdf5Heap::text(std::span<const std::byte> reference, const std::string& object) {
  Hdf5Cursor cursor(*file_, object, reference);
  const std::uint32_t length = cursor.u32();
  const std::uint64_t address = cursor.u64();
  const std::uint32_t index = cursor.u32();
  if (length == 0 || address == 0 || address == kHdf5Undefined) return {};
  const Collection& block = collection(address, object);
  const auto found = block.places.find(index);
  if (found == block.places.end() || length > found->second.size) file_->fail_damaged(object, "a string is missing");
  bytes_given_ += length;
  if (bytes_given_ > file_->size()) file_->fail_damaged(object, "its strings are longer than the file");
  std::string text(length, '\0');
  read(block, found->second.offset, std::as_writable_bytes(std::span(text)), object);
  return text.substr(0, text.find('\0'));
}

}  // namespace foxscope
