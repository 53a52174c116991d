#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "backend/file/hdf5_dense.h"
#include "backend/file/hdf5_messages.h"
#include "backend/file/hdf5_object.h"

namespace foxscope {
namespace {

constexpr std::size_t kMostNodes = 1U << 20U;
constexpr std::uint64_t kNodePrefix = 24;
constexpr std::uint64_t kSymbolEntry = 40;
constexpr std::uint64_t kSoftLink = 2;  // kind of a symbol table entry

/// The tree of a group in the older form: leaves are tables of names, the names lie in a heap.
class SymbolTable {
 public:
  SymbolTable(const Hdf5File& file, const std::string& path) : file_(file), path_(path) {}

  struct Entry {
    std::string name;
    bool hard;
    std::uint64_t address;
  };

  std::vector<Entry> read(std::uint64_t tree, std::uint64_t heap) {
    read_heap(heap);
    read_tree(tree, -1);
    return std::move(entries_);
  }

 private:
  void read_heap(std::uint64_t address) {
    const std::vector<std::byte> bytes = file_.read(address, 32, path_);
    Hdf5Cursor cursor(file_, path_, bytes);
    cursor.signature("HEAP");
    cursor.skip(4);
    const std::uint64_t size = cursor.u64();
    cursor.skip(8);
    names_ = file_.read(cursor.u64(), size, path_);
  }

  void count_node() {
    if (++nodes_ > std::min<std::uint64_t>(kMostNodes, file_.size() / 8)) file_.fail_damaged(path_, "has no end");
  }

  void read_tree(std::uint64_t address, int parent_level) {
    count_node();
    const std::vector<std::byte> prefix = file_.read(address, kNodePrefix, path_);
    Hdf5Cursor cursor(file_, path_, prefix);
    cursor.signature("TREE");
    const std::uint8_t type = cursor.u8();
    const int level = cursor.u8();
    const std::uint16_t used = cursor.u16();
    if (type != 0 || (parent_level >= 0 && level != parent_level - 1)) file_.fail_damaged(path_, "is not a group");
    const std::vector<std::byte> bytes = file_.read(address + kNodePrefix, std::uint64_t{used} * 16 + 8, path_);
    Hdf5Cursor children(file_, path_, bytes);
    for (unsigned n = 0; n < used; ++n) {
      children.skip(8);  // first name of the child
      const std::uint64_t child = children.u64();
      level > 0 ? read_tree(child, level) : read_leaf(child);
    }
  }

  void read_leaf(std::uint64_t address) {
    count_node();
    const std::vector<std::byte> prefix = file_.read(address, 8, path_);
    Hdf5Cursor cursor(file_, path_, prefix);
    cursor.signature("SNOD");
    cursor.skip(2);
    const std::uint16_t count = cursor.u16();
    const std::vector<std::byte> bytes = file_.read(address + 8, count * kSymbolEntry, path_);
    Hdf5Cursor symbols(file_, path_, bytes);
    for (unsigned n = 0; n < count; ++n) {
      const std::uint64_t name = symbols.u64();
      const std::uint64_t header = symbols.u64();
      const std::uint32_t kind = symbols.u32();
      symbols.skip(20);
      entries_.push_back({name_at(name), kind != kSoftLink && header != kHdf5Undefined, header});
    }
  }

  std::string name_at(std::uint64_t offset) {
    if (offset >= names_.size()) file_.fail_damaged(path_, "a name lies outside of its heap");
    const auto begin = names_.begin() + static_cast<std::ptrdiff_t>(offset);
    const auto end = std::find(begin, names_.end(), std::byte{0});
    // Names may overlap in a damaged heap: together they are never longer than the file.
    characters_ += static_cast<std::uint64_t>(end - begin);
    if (end == names_.end() || characters_ > file_.size()) file_.fail_damaged(path_, "a name has no end");
    return {reinterpret_cast<const char*>(&*begin), static_cast<std::size_t>(end - begin)};
  }

  const Hdf5File& file_;
  const std::string& path_;
  std::vector<std::byte> names_;
  std::vector<Entry> entries_;
  std::uint64_t nodes_ = 0;
  std::uint64_t characters_ = 0;
};

}  // namespace

void Hdf5Object::read_symbol_table(Hdf5Cursor cursor, std::map<std::string, Link>& links) const {
  const std::uint64_t tree = cursor.u64();
  const std::uint64_t heap = cursor.u64();
  for (SymbolTable::Entry& entry : SymbolTable(*file_, path_).read(tree, heap)) {
    links.try_emplace(std::move(entry.name), Link{entry.hard, entry.address});
  }
}

void Hdf5Object::read_link(Hdf5Cursor cursor, std::map<std::string, Link>& links) const {
  if (cursor.u8() != 1) file_->fail_unsupported(path_, "an unknown kind of link");
  const std::uint8_t flags = cursor.u8();
  const std::uint8_t type = (flags & 8U) != 0 ? cursor.u8() : 0;
  if ((flags & 4U) != 0) cursor.skip(8);   // creation order
  if ((flags & 16U) != 0) cursor.skip(1);  // character set
  const std::span<const std::byte> name = cursor.take(cursor.number(std::size_t{1} << (flags & 3U)));
  const std::uint64_t address = type == 0 ? cursor.u64() : kHdf5Undefined;
  links.try_emplace(std::string(reinterpret_cast<const char*>(name.data()), name.size()), Link{type == 0, address});
}

/// A message that tells where many links or attributes are: version, flags, the largest number given to one (if flag
/// 1), heap, index.
std::optional<Hdf5DenseStorage> Hdf5Object::dense_storage(std::uint16_t type, std::size_t number_bytes) const {
  const std::vector<std::byte>* data = message(type);
  if (data == nullptr) return {};
  Hdf5Cursor cursor(*file_, path_, *data);
  cursor.skip(1);
  if ((cursor.u8() & 1U) != 0) cursor.skip(number_bytes);
  const std::uint64_t heap = cursor.u64();
  const std::uint64_t index = cursor.u64();
  if (heap == kHdf5Undefined || index == kHdf5Undefined) return {};
  return Hdf5DenseStorage{heap, index};
}

const std::map<std::string, Hdf5Object::Link>& Hdf5Object::links() const {
  if (links_) return *links_;
  std::map<std::string, Link> links;
  if (const std::vector<std::byte>* data = message(hdf5::kSymbolTable)) {
    read_symbol_table({*file_, path_, *data}, links);
  }
  for (const Message& message : messages_) {
    if (message.type == hdf5::kLink) read_link({*file_, path_, message.data}, links);
  }
  if (const std::optional<Hdf5DenseStorage> dense = dense_storage(hdf5::kLinkInfo, 8)) {
    for_each_dense_message(*file_, path_, *dense, [&](std::span<const std::byte> data) {
      read_link({*file_, path_, data}, links);
    });
  }
  links_ = std::move(links);
  return *links_;
}

std::vector<std::string> Hdf5Object::names() const {
  std::vector<std::string> names;
  for (const auto& [name, link] : links()) names.push_back(name);
  return names;
}

std::optional<Hdf5Object> Hdf5Object::find(const std::string& name) const {
  const auto found = links().find(name);
  if (found == links().end()) return {};
  const std::string path = path_ == "/" ? "/" + name : path_ + "/" + name;
  if (!found->second.hard) {
    file_->fail_unsupported(path, "a link by name, perhaps into another file, which is not followed");
  }
  return Hdf5Object(file_, found->second.address, path);
}

Hdf5Object Hdf5Object::child(const std::string& name) const {
  std::optional<Hdf5Object> found = find(name);
  if (!found) file_->fail_damaged(path_ == "/" ? "/" + name : path_ + "/" + name, "is missing");
  return std::move(*found);
}

}  // namespace foxscope
