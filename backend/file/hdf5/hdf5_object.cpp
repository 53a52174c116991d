#include "backend/file/hdf5/hdf5_object.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "backend/file/hdf5/hdf5_heap.h"
#include "backend/file/hdf5/hdf5_messages.h"

namespace foxscope {
namespace {

constexpr std::uint64_t kHeaderPrefix = 16;
constexpr std::uint64_t kAlignment = 8;

std::uint64_t padded(std::uint64_t size) { return (size + kAlignment - 1) / kAlignment * kAlignment; }

constexpr std::uint64_t kSymbolTablePrefix = 24;
constexpr std::uint64_t kSymbolEntry = 40;
constexpr std::uint64_t kSoftLink = 2;  // kind of a symbol table entry

/// The tree of a group in the older form: leaves are tables of names, the names lie in a heap.
class SymbolTable {
 public:
  SymbolTable(const Hdf5File& file, const std::string& path) : file_(file), path_(path), claims_(file) {}

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

  void read_tree(std::uint64_t address, int parent_level) {
    const std::vector<std::byte> prefix = file_.read(address, kSymbolTablePrefix, path_);
    Hdf5Cursor cursor(file_, path_, prefix);
    cursor.signature("TREE");
    const std::uint8_t type = cursor.u8();
    const int level = cursor.u8();
    const std::uint16_t used = cursor.u16();
    if (type != 0 || (parent_level >= 0 && level != parent_level - 1)) file_.fail_damaged(path_, "is not a group");
    const std::uint64_t size = std::uint64_t{used} * 16 + 8;
    claims_.claim(address, kSymbolTablePrefix + size, path_);
    const std::vector<std::byte> bytes = file_.read(address + kSymbolTablePrefix, size, path_);
    Hdf5Cursor children(file_, path_, bytes);
    for (unsigned n = 0; n < used; ++n) {
      children.skip(8);  // first name of the child
      const std::uint64_t child = children.u64();
      level > 0 ? read_tree(child, level) : read_leaf(child);
    }
  }

  void read_leaf(std::uint64_t address) {
    const std::vector<std::byte> prefix = file_.read(address, 8, path_);
    Hdf5Cursor cursor(file_, path_, prefix);
    cursor.signature("SNOD");
    cursor.skip(2);
    const std::uint16_t count = cursor.u16();
    claims_.claim(address, 8 + count * kSymbolEntry, path_);
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
  Hdf5Claims claims_;  // nodes and leaves: each is reached once
  std::vector<std::byte> names_;
  std::vector<Entry> entries_;
  std::uint64_t characters_ = 0;
};

}  // namespace

Hdf5Object::Hdf5Object(std::shared_ptr<const Hdf5File> file, std::uint64_t address, std::string path)
    : file_(std::move(file)), address_(address), path_(std::move(path)) {
  const std::vector<std::byte> first = file_->read(address_, 4, path_);
  if (std::memcmp(first.data(), "OHDR", 4) == 0) {
    read_version_2();
  } else if (first[0] == std::byte{1}) {
    read_version_1();
  } else {
    file_->fail_damaged(path_, "has no object header");
  }
}

void Hdf5Object::read_version_1() {
  const std::vector<std::byte> prefix = file_->read(address_, kHeaderPrefix, path_);
  Hdf5Cursor cursor(*file_, path_, prefix);
  cursor.skip(8);  // version, number of messages, references
  const std::uint32_t size = cursor.u32();
  Hdf5Claims claims(*file_);
  claims.claim(address_, kHeaderPrefix, path_);
  read_blocks({{address_ + kHeaderPrefix, size}}, {1, false}, claims);
}

void Hdf5Object::read_version_2() {
  constexpr std::uint64_t kLongestPrefix = 34;
  const std::vector<std::byte> prefix =
      file_->read(address_, std::min(kLongestPrefix, file_->size() - address_), path_);
  Hdf5Cursor cursor(*file_, path_, prefix);
  cursor.signature("OHDR");
  cursor.skip(1);
  const std::uint8_t flags = cursor.u8();
  if ((flags & 0x20U) != 0) cursor.skip(16);  // times
  if ((flags & 0x10U) != 0) cursor.skip(4);   // when attributes move out of the header
  const std::uint64_t size = cursor.number(std::size_t{1} << (flags & 3U));
  const std::uint64_t used = prefix.size() - cursor.left();
  if (size > file_->size()) file_->fail_damaged(path_, "its header is longer than the file");
  const std::vector<std::byte> header = file_->read_checked(address_, used + size, path_);
  Hdf5Claims claims(*file_);
  claims.claim(address_, used + size + kHdf5Checksum, path_);
  const HeaderForm form{2, (flags & 4U) != 0};
  std::vector<Block> continuations;
  read_messages({*file_, path_, std::span(header).subspan(used)}, form, continuations);
  read_blocks(std::move(continuations), form, claims);
}

/// Blocks name further blocks; each of them is read once.
void Hdf5Object::read_blocks(std::vector<Block> blocks, const HeaderForm& form, Hdf5Claims& claims) {
  for (std::size_t n = 0; n < blocks.size(); ++n) {
    const Block block = blocks[n];
    claims.claim(block.offset, block.size, path_);
    if (form.version == 1) {
      const std::vector<std::byte> bytes = file_->read(block.offset, block.size, path_);
      read_messages({*file_, path_, bytes}, form, blocks);
      continue;
    }
    constexpr std::uint64_t kChunkSignature = 4;
    if (block.size < kChunkSignature + kHdf5Checksum) file_->fail_damaged(path_, "ends too early");
    const std::vector<std::byte> bytes = file_->read_checked(block.offset, block.size - kHdf5Checksum, path_);
    Hdf5Cursor(*file_, path_, bytes).signature("OCHK");
    read_messages({*file_, path_, std::span(bytes).subspan(kChunkSignature)}, form, blocks);
  }
}

void Hdf5Object::read_messages(Hdf5Cursor cursor, const HeaderForm& form, std::vector<Block>& continuations) {
  const std::size_t prefix = form.version == 1 ? 8 : form.with_creation_order ? 6 : 4;
  while (cursor.left() >= prefix) {
    const std::uint16_t type = form.version == 1 ? cursor.u16() : cursor.u8();
    const std::uint16_t size = cursor.u16();
    const std::uint8_t flags = cursor.u8();
    cursor.skip(form.version == 1 ? 3 : form.with_creation_order ? 2 : 0);
    const std::span<const std::byte> data = cursor.take(size);
    if (type == hdf5::kContinuation) {
      Hdf5Cursor content(*file_, path_, data);
      const std::uint64_t offset = content.u64();
      continuations.push_back({offset, content.u64()});
    } else if (type != hdf5::kNil) {
      messages_.push_back({type, (flags & 2U) != 0, {data.begin(), data.end()}});
    }
  }
}

const std::vector<std::byte>* Hdf5Object::message(std::uint16_t type) const {
  const auto found =
      std::find_if(messages_.begin(), messages_.end(), [type](const Message& message) { return message.type == type; });
  if (found == messages_.end()) return nullptr;
  if (found->shared) file_->fail_unsupported(path_, "a type or property shared between objects", kHdf5Replace);
  return &found->data;
}

bool Hdf5Object::is_dataset() const { return message(hdf5::kLayout) != nullptr; }

Hdf5Type Hdf5Object::decode_type(Hdf5Cursor cursor) const {
  const std::uint8_t class_and_version = cursor.u8();
  const auto bits = static_cast<std::uint32_t>(cursor.number(3));
  Hdf5Type type;
  type.size = cursor.u32();
  const bool big_endian = (bits & 1U) != 0;
  switch (class_and_version & 0x0fU) {
    case 0: {  // fixed-point: bit offset, precision
      const std::uint16_t first = cursor.u16();
      if (first != 0 || cursor.u16() != type.size * 8 || type.size > 8 || type.size == 0) break;
      if (big_endian) file_->fail_unsupported(path_, "big-endian numbers", kHdf5Replace);
      type.kind = Hdf5Type::Kind::integer;
      type.is_signed = (bits & 8U) != 0;
      if (type.is_signed && type.size == 4) type.element = Element::int32;
      if (type.is_signed && type.size == 8) type.element = Element::int64;
      break;
    }
    case 1: {  // floating-point: bit offset, precision, exponent's place and size, mantissa's place and size, bias
      if ((bits & 0x41U) != 0) file_->fail_unsupported(path_, "big-endian numbers", kHdf5Replace);
      const std::uint64_t form = cursor.number(8);
      const std::uint32_t bias = cursor.u32();
      const std::uint32_t sign = bits >> 8U & 0xffU;
      const bool implied = (bits >> 4U & 3U) == 2;  // the mantissa's leading 1 is not stored
      constexpr std::uint64_t kFloat32 = 0x1700'0817'0020'0000;
      constexpr std::uint64_t kFloat64 = 0x3400'0b34'0040'0000;
      constexpr std::uint64_t kBfloat16 = 0x0700'0807'0010'0000;
      constexpr std::uint64_t kFloat16 = 0x0a00'050a'0010'0000;
      if (!implied) break;
      if (type.size == 4 && form == kFloat32 && bias == 127 && sign == 31) type.element = Element::float32;
      if (type.size == 8 && form == kFloat64 && bias == 1023 && sign == 63) type.element = Element::float64;
      if (type.size == 2 && form == kBfloat16 && bias == 127 && sign == 15) type.element = Element::bfloat16;
      if (type.size == 2 && form == kFloat16 && bias == 15 && sign == 15) type.element = Element::float16;
      if (type.element) type.kind = Hdf5Type::Kind::real;
      break;
    }
    case 3:
      type.kind = Hdf5Type::Kind::fixed_text;
      break;
    case 9:
      if ((bits & 0x0fU) == 1 && type.size == hdf5::kReferenceBytes) type.kind = Hdf5Type::Kind::variable_text;
      break;
    default:
      break;
  }
  return type;
}

Hdf5Shape Hdf5Object::decode_space(Hdf5Cursor cursor) const {
  const std::uint8_t version = cursor.u8();
  const std::uint8_t rank = cursor.u8();
  const bool can_grow = (cursor.u8() & 1U) != 0;
  if (version == 1) {
    cursor.skip(5);
  } else if (version == 2) {
    if (cursor.u8() == 2) file_->fail_damaged(path_, "holds no values");
  } else {
    file_->fail_unsupported(path_, "an unknown kind of shape");
  }
  if (rank > hdf5::kMostAxes) file_->fail_damaged(path_, fmt::format("has {} axes", rank));
  Hdf5Shape shape{std::vector<std::uint64_t>(rank), {}};
  for (std::uint64_t& extent : shape.dims) extent = cursor.u64();
  shape.most = shape.dims;
  for (std::size_t axis = 0; can_grow && axis < rank; ++axis) {
    shape.most[axis] = cursor.u64();
    if (shape.most[axis] < shape.dims[axis]) file_->fail_damaged(path_, "is larger than it may be");
  }
  return shape;
}

std::optional<Hdf5Object::Attribute> Hdf5Object::decode_attribute(std::span<const std::byte> data,
                                                                  const std::string& name) const {
  Hdf5Cursor cursor(*file_, path_, data);
  const std::uint8_t version = cursor.u8();
  if (version < 1 || version > 3) file_->fail_unsupported(path_, "an unknown kind of attribute");
  const std::uint8_t flags = cursor.u8();
  const std::uint16_t name_size = cursor.u16();
  const std::uint16_t type_size = cursor.u16();
  const std::uint16_t space_size = cursor.u16();
  if (version == 3) cursor.skip(1);  // character set of the name
  const auto stored = [version](std::uint64_t size) { return version == 1 ? padded(size) : size; };
  const std::span<const std::byte> name_bytes = cursor.take(stored(name_size));
  if (name_size != name.size() + 1 || std::memcmp(name_bytes.data(), name.c_str(), name_size) != 0) return {};
  if (version > 1 && flags != 0) file_->fail_unsupported(path_ + "@" + name, "a shared type");
  Attribute attribute;
  attribute.type = decode_type({*file_, path_, cursor.take(stored(type_size))});
  attribute.count = 1;
  const Hdf5Shape shape = decode_space({*file_, path_, cursor.take(stored(space_size))});
  for (const std::uint64_t extent : shape.dims) {
    if (extent > std::numeric_limits<std::uint16_t>::max()) file_->fail_damaged(path_ + "@" + name, "is too large");
    attribute.count *= extent;
    if (attribute.count > std::numeric_limits<std::uint16_t>::max()) {
      file_->fail_damaged(path_ + "@" + name, "is too large");
    }
  }
  const std::span<const std::byte> value = cursor.take(attribute.count * attribute.type.size);
  attribute.data.assign(value.begin(), value.end());
  return attribute;
}

std::optional<Hdf5Object::Attribute> Hdf5Object::attribute(const std::string& name) const {
  for (const Message& message : messages_) {
    if (message.type != hdf5::kAttribute) continue;
    if (message.shared) file_->fail_unsupported(path_, "a shared attribute");
    if (std::optional<Attribute> found = decode_attribute(message.data, name)) return found;
  }
  std::optional<Attribute> found;
  if (const std::optional<Hdf5DenseStorage> dense = dense_storage(hdf5::kAttributeInfo, 2)) {
    for_each_dense_message(*file_, path_, *dense, Hdf5RecordType::attribute_by_name,
                           [&](std::span<const std::byte> data) {
                             if (!found) found = decode_attribute(data, name);
                           });
  }
  return found;
}

std::optional<std::string> Hdf5Object::text_attribute(const std::string& name, Hdf5Heap& heap) const {
  const std::optional<Attribute> found = attribute(name);
  if (!found) return {};
  const std::string object = path_ + "@" + name;
  if (found->count == 1 && found->type.kind == Hdf5Type::Kind::variable_text) return heap.text(found->data, object);
  if (found->count == 1 && found->type.kind == Hdf5Type::Kind::fixed_text) {
    const std::string text(reinterpret_cast<const char*>(found->data.data()), found->data.size());
    return text.substr(0, text.find('\0'));
  }
  file_->fail_damaged(object, "is not a string");
}

std::optional<std::int64_t> Hdf5Object::integer_attribute(const std::string& name) const {
  const std::optional<Attribute> found = attribute(name);
  if (!found) return {};
  const std::string object = path_ + "@" + name;
  if (found->count != 1 || found->type.kind != Hdf5Type::Kind::integer) {
    file_->fail_damaged(object, "is not a whole number");
  }
  const std::uint64_t value = Hdf5Cursor(*file_, object, found->data).number(found->type.size);
  if (!found->type.is_signed) {
    if (!std::in_range<std::int64_t>(value)) file_->fail_damaged(object, "is too large a number");
    return static_cast<std::int64_t>(value);
  }
  const unsigned unused = 64 - 8 * found->type.size;
  return static_cast<std::int64_t>(value << unused) >> unused;
}

std::optional<double> Hdf5Object::real_attribute(const std::string& name) const {
  const std::optional<Attribute> found = attribute(name);
  if (!found) return {};
  const std::string object = path_ + "@" + name;
  if (found->count == 1 && found->type.element == Element::float64) {
    return std::bit_cast<double>(Hdf5Cursor(*file_, object, found->data).u64());
  }
  if (found->count == 1 && found->type.element == Element::float32) {
    return std::bit_cast<float>(Hdf5Cursor(*file_, object, found->data).u32());
  }
  if (found->count == 1 && found->type.kind == Hdf5Type::Kind::integer) {
    return static_cast<double>(*integer_attribute(name));
  }
  file_->fail_damaged(object, "is not a number");
}

std::optional<std::vector<double>> Hdf5Object::real_attributes(const std::string& name) const {
  const std::optional<Attribute> found = attribute(name);
  if (!found) return {};
  const std::string object = path_ + "@" + name;
  if (found->type.element != Element::float64) file_->fail_damaged(object, "is not a list of float64 numbers");
  Hdf5Cursor cursor(*file_, object, found->data);
  std::vector<double> values(found->count);
  for (double& value : values) value = std::bit_cast<double>(cursor.u64());
  return values;
}

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
    for_each_dense_message(*file_, path_, *dense, Hdf5RecordType::link_by_name, [&](std::span<const std::byte> data) {
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
    file_->fail_unsupported(path, "a link by name, perhaps into another file, which is not followed", kHdf5Link);
  }
  return Hdf5Object(file_, found->second.address, path);
}

Hdf5Object Hdf5Object::child(const std::string& name) const {
  std::optional<Hdf5Object> found = find(name);
  if (!found) file_->fail_damaged(path_ == "/" ? "/" + name : path_ + "/" + name, "is missing");
  return std::move(*found);
}

}  // namespace foxscope
