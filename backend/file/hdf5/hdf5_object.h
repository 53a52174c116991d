#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backend/file/element.h"
#include "backend/file/hdf5/hdf5_chunks.h"
#include "backend/file/hdf5/hdf5_dense.h"
#include "backend/file/hdf5/hdf5_file.h"

namespace foxscope {

/// Number or string format of a dataset or attribute.
struct Hdf5Type {
  enum class Kind { integer, real, fixed_text, variable_text, other };
  Kind kind = Kind::other;
  std::uint32_t size = 0;  ///< bytes
  bool is_signed = false;
  std::optional<Element> element;  ///< set where it is exactly one of these
};

class Hdf5Heap;

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
  /// The object that a group holds under a name, if any.
  /// @throws Error for soft and external links, which are not followed
  [[nodiscard]] std::optional<Hdf5Object> find(const std::string& name) const;
  /// @throws Error likewise, and when there is nothing of that name
  [[nodiscard]] Hdf5Object child(const std::string& name) const;

  [[nodiscard]] bool has_attribute(const std::string& name) const { return attribute(name).has_value(); }
  /// Values of attributes, if there.
  /// @throws Error if one is of another kind
  std::optional<std::string> text_attribute(const std::string& name, Hdf5Heap& heap) const;
  [[nodiscard]] std::optional<std::int64_t> integer_attribute(const std::string& name) const;
  [[nodiscard]] std::optional<double> real_attribute(const std::string& name) const;
  [[nodiscard]] std::optional<std::vector<double>> real_attributes(const std::string& name) const;  ///< float64

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
  void read_blocks(std::vector<Block> blocks, const HeaderForm& form, Hdf5Claims& claims);
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
  Hdf5Shape decode_space(Hdf5Cursor cursor) const;

  std::shared_ptr<const Hdf5File> file_;
  std::uint64_t address_;
  std::string path_;
  std::vector<Message> messages_;
  mutable std::optional<std::map<std::string, Link>> links_;
};

}  // namespace foxscope
