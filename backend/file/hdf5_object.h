#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "backend/file/element.h"
#include "backend/file/hdf5_dense.h"
#include "backend/file/hdf5_file.h"

namespace foxscope {

/// Number or string format of a dataset or attribute.
struct Hdf5Type {
  enum class Kind { integer, real, fixed_text, variable_text, other };
  Kind kind = Kind::other;
  std::uint32_t size = 0;  ///< bytes
  bool is_signed = false;
  std::optional<Element> element;  ///< set where it is exactly one of these
};

/// Strings of variable length lie together in blocks that datasets and attributes point into.
class Hdf5Heap {
 public:
  explicit Hdf5Heap(std::shared_ptr<const Hdf5File> file) : file_(std::move(file)) {}

  /// The string that a 16-byte reference points to.
  /// @throws Error for references that lead nowhere, and when strings together are longer than the file
  std::string text(std::span<const std::byte> reference, const std::string& object);

 private:
  struct Place {
    std::uint64_t offset, size;
  };
  using Collection = std::unordered_map<std::uint32_t, Place>;
  const Collection& collection(std::uint64_t address, const std::string& object);

  std::shared_ptr<const Hdf5File> file_;
  std::unordered_map<std::uint64_t, Collection> collections_;
  std::uint64_t bytes_scanned_ = 0;
  std::uint64_t bytes_given_ = 0;
};

/// A group or dataset: its header's messages, understood when asked for.
class Hdf5Object {
 public:
  /// @param path  name for errors
  Hdf5Object(std::shared_ptr<const Hdf5File> file, std::uint64_t address, std::string path);

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] const Hdf5File& file() const { return *file_; }
  [[nodiscard]] std::uint64_t address() const { return address_; }
  [[nodiscard]] bool is_dataset() const;

  /// Names of what a group holds.
  [[nodiscard]] std::vector<std::string> names() const;
  /// What a group holds under a name, if anything.
  /// @throws Error for soft and external links, which are not followed
  [[nodiscard]] std::optional<Hdf5Object> find(const std::string& name) const;
  /// @throws Error likewise, and when there is nothing of that name
  [[nodiscard]] Hdf5Object child(const std::string& name) const;

  /// Values of attributes, if there.
  /// @throws Error if one is of another kind
  std::optional<std::string> text_attribute(const std::string& name, Hdf5Heap& heap) const;
  [[nodiscard]] std::optional<std::int64_t> integer_attribute(const std::string& name) const;
  [[nodiscard]] std::optional<double> real_attribute(const std::string& name) const;

 private:
  friend class Hdf5Dataset;
  struct Message {
    std::uint16_t type;
    bool shared;  ///< kept elsewhere in the file
    std::vector<std::byte> data;
  };
  struct Link {
    bool hard;
    std::uint64_t address;
  };
  struct Attribute {
    Hdf5Type type;
    std::uint64_t count;
    std::vector<std::byte> data;
  };

  struct Block {
    std::uint64_t offset, size;
  };
  struct HeaderForm {
    unsigned version;
    bool with_creation_order;
  };

  void read_version_1();
  void read_version_2();
  void read_blocks(Block block, const HeaderForm& form);
  void read_messages(Hdf5Cursor cursor, const HeaderForm& form, std::vector<Block>& continuations);
  [[nodiscard]] const std::vector<std::byte>* message(std::uint16_t type) const;
  [[nodiscard]] std::optional<Hdf5DenseStorage> dense_storage(std::uint16_t type, std::size_t number_bytes) const;
  [[nodiscard]] const std::map<std::string, Link>& links() const;
  void read_link(Hdf5Cursor cursor, std::map<std::string, Link>& links) const;
  void read_symbol_table(Hdf5Cursor cursor, std::map<std::string, Link>& links) const;
  [[nodiscard]] std::optional<Attribute> attribute(const std::string& name) const;
  [[nodiscard]] std::optional<Attribute> decode_attribute(std::span<const std::byte> data,
                                                          const std::string& name) const;
  Hdf5Type decode_type(Hdf5Cursor cursor) const;
  std::vector<std::uint64_t> decode_space(Hdf5Cursor cursor) const;

  std::shared_ptr<const Hdf5File> file_;
  std::uint64_t address_;
  std::string path_;
  std::vector<Message> messages_;
  mutable std::optional<std::map<std::string, Link>> links_;
};

/// The data of a dataset: contiguous, compact, or in chunks with the filters shuffle and deflate.
class Hdf5Dataset {
 public:
  explicit Hdf5Dataset(const Hdf5Object& object);

  [[nodiscard]] const std::vector<std::uint64_t>& dims() const { return dims_; }
  [[nodiscard]] std::uint64_t count() const { return count_; }
  [[nodiscard]] const Hdf5Type& type() const { return type_; }

  /// @throws Error naming what was expected and what was found
  void require(Element element, const std::vector<std::uint64_t>& dims) const;

  /// All numbers, C order; the size is that of T, and the type must have been required before.
  template <typename T>
  [[nodiscard]] std::vector<T> values() const {
    std::vector<T> result(count_);
    read(std::as_writable_bytes(std::span(result)));
    return result;
  }
  std::vector<std::string> texts(Hdf5Heap& heap) const;

  /// Where the numbers lie in the file, one after the other.
  /// @throws Error if they are in chunks
  [[nodiscard]] std::uint64_t offset() const;

 private:
  struct Chunk {
    std::uint64_t address;
    std::uint64_t size;
    std::uint32_t filter_mask;
    std::vector<std::uint64_t> first;  ///< position of its first element
  };
  enum class Layout { compact, contiguous, chunked };

  void decode_layout(Hdf5Cursor cursor);
  void decode_filters(Hdf5Cursor cursor);
  void read_chunk_index(std::uint64_t address, int parent_level);
  void check_chunks() const;
  void read(std::span<std::byte> bytes) const;
  [[nodiscard]] std::vector<std::byte> unpack(const Chunk& chunk) const;
  void place(const Chunk& chunk, std::span<const std::byte> data, std::span<std::byte> bytes) const;

  std::shared_ptr<const Hdf5File> file_;
  std::string path_;
  Hdf5Type type_;
  std::vector<std::uint64_t> dims_;
  std::uint64_t count_ = 0;
  Layout layout_ = Layout::contiguous;
  std::vector<std::byte> compact_;
  std::uint64_t offset_ = kHdf5Undefined;
  std::vector<std::uint64_t> chunk_dims_;
  std::uint64_t chunk_bytes_ = 0;
  std::vector<std::uint16_t> filters_;
  std::vector<Chunk> chunks_;
  std::uint64_t nodes_visited_ = 0;
};

}  // namespace foxscope
