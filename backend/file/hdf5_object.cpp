#include "backend/file/hdf5_object.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "backend/file/hdf5_messages.h"

namespace foxscope {
namespace {

constexpr std::uint64_t kHeaderPrefix = 16;
constexpr std::size_t kMostBlocks = 4096;
constexpr std::uint64_t kChecksum = 4;
constexpr std::uint64_t kAlignment = 8;

std::uint64_t padded(std::uint64_t size) { return (size + kAlignment - 1) / kAlignment * kAlignment; }

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
  read_blocks({address_ + kHeaderPrefix, size}, {1, false});
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
  read_blocks({address_ + used, size}, {2, (flags & 4U) != 0});
}

void Hdf5Object::read_blocks(Block block, const HeaderForm& form) {
  std::vector<Block> blocks = {block};
  std::uint64_t total = 0;
  for (std::size_t n = 0; n < blocks.size(); ++n) {
    total += blocks[n].size;
    if (n >= kMostBlocks || total > file_->size()) file_->fail_damaged(path_, "its header has no end");
    const std::vector<std::byte> bytes = file_->read(blocks[n].offset, blocks[n].size, path_);
    std::span<const std::byte> messages = bytes;
    if (form.version == 2 && n > 0) {
      Hdf5Cursor(*file_, path_, bytes).signature("OCHK");
      messages = messages.subspan(4, bytes.size() < 4 + kChecksum ? 0 : bytes.size() - 4 - kChecksum);
    }
    read_messages({*file_, path_, messages}, form, blocks);
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
  if (found->shared) file_->fail_unsupported(path_, "a type or property shared between objects");
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
      if (big_endian) file_->fail_unsupported(path_, "big-endian numbers");
      type.kind = Hdf5Type::Kind::integer;
      type.is_signed = (bits & 8U) != 0;
      if (type.is_signed && type.size == 4) type.element = Element::int32;
      if (type.is_signed && type.size == 8) type.element = Element::int64;
      break;
    }
    case 1: {  // floating-point: bit offset, precision, exponent's place and size, mantissa's place and size, bias
      if ((bits & 0x41U) != 0) file_->fail_unsupported(path_, "big-endian numbers");
      const std::uint64_t form = cursor.number(8);
      const std::uint32_t bias = cursor.u32();
      const std::uint32_t sign = bits >> 8U & 0xffU;
      const bool implied = (bits >> 4U & 3U) == 2;  // the mantissa's leading 1 is not stored
      constexpr std::uint64_t kFloat32 = 0x1700'0817'0020'0000;
      constexpr std::uint64_t kFloat64 = 0x3400'0b34'0040'0000;
      constexpr std::uint64_t kBfloat16 = 0x0700'0807'0010'0000;
      if (!implied) break;
      if (type.size == 4 && form == kFloat32 && bias == 127 && sign == 31) type.element = Element::float32;
      if (type.size == 8 && form == kFloat64 && bias == 1023 && sign == 63) type.element = Element::float64;
      if (type.size == 2 && form == kBfloat16 && bias == 127 && sign == 15) type.element = Element::bfloat16;
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

std::vector<std::uint64_t> Hdf5Object::decode_space(Hdf5Cursor cursor) const {
  const std::uint8_t version = cursor.u8();
  const std::uint8_t rank = cursor.u8();
  cursor.skip(1);  // says whether largest sizes follow
  if (version == 1) {
    cursor.skip(5);
  } else if (version == 2) {
    if (cursor.u8() == 2) file_->fail_damaged(path_, "holds no values");
  } else {
    file_->fail_unsupported(path_, "an unknown kind of shape");
  }
  if (rank > hdf5::kMostAxes) file_->fail_damaged(path_, fmt::format("has {} axes", rank));
  std::vector<std::uint64_t> dims(rank);
  for (std::uint64_t& extent : dims) extent = cursor.u64();
  return dims;
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
  for (const std::uint64_t extent : decode_space({*file_, path_, cursor.take(stored(space_size))})) {
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
    for_each_dense_message(*file_, path_, *dense, [&](std::span<const std::byte> data) {
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

}  // namespace foxscope
