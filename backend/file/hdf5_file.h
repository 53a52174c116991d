#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace foxscope {

/// An HDF5 file opened for reading, as bytes. Foxscope reads the format itself ("HDF5 File Format Specification
/// Version 3.0", The HDF Group): libhdf5 1.10 crashes on damaged files and holds one lock over all reading. What is
/// read is what libhdf5 writes by default since 1.8; rarer parts of the format are refused with the command that
/// rewrites them. Every offset and size is checked against the file before it is used. Safe to use from several
/// threads.
class Hdf5File {
 public:
  /// @throws Error if the file cannot be opened, is not HDF5, or is cut short
  static std::shared_ptr<const Hdf5File> open(const std::filesystem::path& path);
  ~Hdf5File();
  Hdf5File(const Hdf5File&) = delete;
  Hdf5File& operator=(const Hdf5File&) = delete;

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] std::uint64_t size() const { return size_; }
  /// Address of the root group's object header.
  [[nodiscard]] std::uint64_t root() const { return root_; }

  /// Fills `bytes` from an offset. `object` is what errors name.
  /// @throws Error where the file ends before, or cannot be read
  void read(std::uint64_t offset, std::span<std::byte> bytes, const std::string& object) const;
  [[nodiscard]] std::vector<std::byte> read(std::uint64_t offset, std::uint64_t size, const std::string& object) const;

  /// @throws Error that the file is damaged, naming the object and what is wrong with it
  [[noreturn]] void fail_damaged(const std::string& object, const std::string& problem) const;
  /// @throws Error that the object uses a part of the format that is not read, and how to rewrite it
  [[noreturn]] void fail_unsupported(const std::string& object, const std::string& feature) const;

 private:
  explicit Hdf5File(const std::filesystem::path& path);
  void read_superblock();
  void check_end(std::uint64_t end) const;

  std::string name_;
  int descriptor_ = -1;
  std::uint64_t size_ = 0;
  std::uint64_t root_ = 0;
};

/// An address that points nowhere.
inline constexpr std::uint64_t kHdf5Undefined = ~std::uint64_t{0};

/// Reads little-endian numbers from bytes that someone else wrote, never past their end.
class Hdf5Cursor {
 public:
  Hdf5Cursor(const Hdf5File& file, const std::string& object, std::span<const std::byte> bytes)
      : file_(file), object_(object), bytes_(bytes) {}

  /// An unsigned number of 1 to 8 bytes.
  std::uint64_t number(std::size_t bytes);
  std::uint8_t u8() { return static_cast<std::uint8_t>(number(1)); }
  std::uint16_t u16() { return static_cast<std::uint16_t>(number(2)); }
  std::uint32_t u32() { return static_cast<std::uint32_t>(number(4)); }
  std::uint64_t u64() { return number(8); }
  std::span<const std::byte> take(std::uint64_t bytes);
  void skip(std::uint64_t bytes) { take(bytes); }
  [[nodiscard]] std::size_t left() const { return bytes_.size(); }
  /// Takes the four letters that a structure begins with.
  void signature(const char* letters);

 private:
  const Hdf5File& file_;
  const std::string& object_;
  std::span<const std::byte> bytes_;
};

}  // namespace foxscope
