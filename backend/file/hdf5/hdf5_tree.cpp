#include "backend/file/hdf5/hdf5_tree.h"

#include <vector>

#include <fmt/format.h>

namespace foxscope {
namespace {

constexpr std::uint64_t kHeaderBytes = 34;
constexpr std::uint64_t kNodePrefix = 6;
constexpr std::uint64_t kNodeOverhead = kNodePrefix + 4;  // checksum
constexpr std::uint64_t kSmallestNode = 64;
constexpr std::uint16_t kDeepest = 8;

/// A tree while it is walked from end to end.
class Tree {
 public:
  Tree(const Hdf5File& file, const std::string& object, Hdf5RecordType type, Hdf5Claims& claims,
       const std::function<void(std::span<const std::byte>)>& use)
      : file_(file), object_(object), type_(type), claims_(claims), use_(use) {}

  void walk(std::uint64_t address) {
    claims_.claim(address, kHeaderBytes + 4, object_);
    const std::vector<std::byte> bytes = file_.read_checked(address, kHeaderBytes, object_);
    Hdf5Cursor cursor(file_, object_, bytes);
    cursor.signature("BTHD");
    cursor.skip(1);
    const std::uint8_t type = cursor.u8();
    const std::uint32_t node_bytes = cursor.u32();
    record_bytes_ = cursor.u16();
    const std::uint16_t depth = cursor.u16();
    cursor.skip(2);  // when nodes are split and merged
    const std::uint64_t root = cursor.u64();
    const std::uint16_t records = cursor.u16();
    if (type != static_cast<std::uint8_t>(type_) || record_bytes_ == 0 || node_bytes < kSmallestNode ||
        node_bytes > file_.size() || record_bytes_ > node_bytes - kNodeOverhead || depth > kDeepest) {
      file_.fail_damaged(object_, "its index has no such sizes");
    }
    plan_levels(node_bytes, depth);
    if (root != kHdf5Undefined && records > 0) walk_node(root, depth, records);
  }

 private:
  /// Bytes of the counts beside a child's address depend on how many records can be below it.
  void plan_levels(std::uint64_t node_bytes, std::uint16_t depth) {
    std::uint64_t most = (node_bytes - kNodeOverhead) / record_bytes_;
    count_bytes_ = hdf5_bytes_for(most);
    std::uint64_t below = most;
    total_bytes_ = {0};
    for (std::uint16_t level = 1; level <= depth; ++level) {
      const std::uint64_t pointer = 8 + count_bytes_ + total_bytes_.back();
      if (node_bytes < kNodeOverhead + pointer) file_.fail_damaged(object_, "its index has no such sizes");
      most = (node_bytes - kNodeOverhead - pointer) / (record_bytes_ + pointer);
      if (__builtin_mul_overflow(most + 1, below, &below) || __builtin_add_overflow(below, most, &below)) {
        file_.fail_damaged(object_, "its index has no such sizes");
      }
      total_bytes_.push_back(hdf5_bytes_for(below));
    }
  }

  void walk_node(std::uint64_t address, std::uint16_t depth, std::uint64_t records) {
    const std::uint64_t pointer = 8 + count_bytes_ + (depth > 0 ? total_bytes_[depth - 1U] : 0);
    const std::uint64_t pointers = depth > 0 ? (records + 1) * pointer : 0;
    const std::uint64_t size = kNodePrefix + records * record_bytes_ + pointers;
    claims_.claim(address, size, object_);
    const std::vector<std::byte> bytes = file_.read_checked(address, size, object_);
    Hdf5Cursor cursor(file_, object_, bytes);
    cursor.signature(depth > 0 ? "BTIN" : "BTLF");
    cursor.skip(2);
    for (std::uint64_t n = 0; n < records; ++n) use_(cursor.take(record_bytes_));
    for (std::uint64_t n = 0; depth > 0 && n <= records; ++n) {
      const std::uint64_t child = cursor.u64();
      const std::uint64_t count = cursor.number(count_bytes_);
      cursor.skip(pointer - 8 - count_bytes_);
      walk_node(child, static_cast<std::uint16_t>(depth - 1), count);
    }
  }

  const Hdf5File& file_;
  const std::string& object_;
  const Hdf5RecordType type_;
  Hdf5Claims& claims_;
  const std::function<void(std::span<const std::byte>)>& use_;
  std::uint16_t record_bytes_ = 0;
  std::size_t count_bytes_ = 0;
  std::vector<std::size_t> total_bytes_;  ///< by level
};

}  // namespace

void for_each_hdf5_record(const Hdf5File& file, const std::string& object, std::uint64_t address, Hdf5RecordType type,
                          Hdf5Claims& claims, const std::function<void(std::span<const std::byte>)>& use) {
  Tree(file, object, type, claims, use).walk(address);
}

}  // namespace foxscope
