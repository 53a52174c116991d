#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace foxscope {

/// The remedy of a file that is damaged or cut short.
inline constexpr std::string_view kHdf5Remedy = "copy it again, or make it again with the command that wrote it";
/// The end of the errors of Hdf5File::fail_damaged and fail_unsupported: what can be done.
inline constexpr const char* kHdf5Damaged =
    "the file is damaged: copy it again, or make it again with the command that wrote it; of a run file that another "
    "program wrote `foxscope check FILE` says what is wrong";
inline constexpr const char* kHdf5Unsupported = "not read by Foxscope; rewrite the file with `h5repack IN OUT`";
/// The same of filters that h5repack has, and of data in other files and datasets.
inline constexpr const char* kHdf5Unfilter = "not read by Foxscope; rewrite the file with `h5repack -f NONE IN OUT`";
inline constexpr const char* kHdf5Gather =
    "not read by Foxscope; rewrite the file with `h5repack -f NONE -l CONTI IN OUT`";
/// The same of what h5repack leaves as it is, or out: filters of h5py alone, big-endian numbers, types with a name.
inline constexpr const char* kHdf5Replace =
    "not read by Foxscope, and left by h5repack; replace it with h5py: `x = f[name][...]; del f[name]; f[name] = "
    "x.astype(x.dtype.newbyteorder(\"<\"))`";
/// The same of links by name.
inline constexpr const char* kHdf5Link =
    "not read by Foxscope; replace it with h5py: `x = f[name]; del f[name]; f.copy(x, name)`";

/// Bytes of the checksum behind a part of a file's structure.
inline constexpr std::uint64_t kHdf5Checksum = 4;

/// Bytes that hold numbers up to `limit`, which is above 0.
inline std::size_t hdf5_bytes_for(std::uint64_t limit) {
  return (static_cast<std::size_t>(std::bit_width(limit)) - 1) / 8 + 1;
}

/// An HDF5 file opened for reading, as bytes. Foxscope reads the format itself ("HDF5 File Format Specification Version
/// 3.0", The HDF Group): libhdf5 1.10 crashes on damaged files and holds one lock over all reading. It reads what
/// libhdf5 writes by default since 1.8, and in its newest form (h5py's `libver="latest"`); rarer parts of the format
/// are refused with the command that rewrites them. Every offset and size is checked against the file before it is
/// used, every checksum is verified, and what a file lists is never longer than the file. Safe to use from several
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
  /// A part of the file's structure. Opening a file reads each part a few times; a file that makes it read much more
  /// points at the same bytes again and again.
  /// @throws Error likewise, and when all that was read is many times the file
  [[nodiscard]] std::vector<std::byte> read(std::uint64_t offset, std::uint64_t size, const std::string& object) const;
  /// The same of a part that its checksum (Jenkins' lookup3) follows.
  /// @throws Error likewise, and where the checksum is another
  [[nodiscard]] std::vector<std::byte> read_checked(std::uint64_t offset, std::uint64_t size,
                                                    const std::string& object) const;
  /// @throws Error that the checksum of a part is another than the one stored
  void check(std::span<const std::byte> bytes, std::uint32_t checksum, const std::string& object) const;

  /// @throws Error that the file is damaged, naming the object and what is wrong with it
  [[noreturn]] void fail_damaged(const std::string& object, const std::string& problem) const;
  /// @throws Error that the object uses a part of the format that is not read, and how to rewrite it
  [[noreturn]] void fail_unsupported(const std::string& object, const std::string& feature,
                                     const char* remedy = kHdf5Unsupported) const;

 private:
  explicit Hdf5File(const std::filesystem::path& path);
  void read_superblock();
  void check_end(std::uint64_t end) const;

  std::string name_;
  int descriptor_ = -1;
  std::uint64_t size_ = 0;
  std::uint64_t root_ = 0;
  mutable std::atomic<std::uint64_t> structure_bytes_ = 0;  ///< read so far
};

/// An address that points nowhere.
inline constexpr std::uint64_t kHdf5Undefined = ~std::uint64_t{0};

/// Jenkins' lookup3 ("hashlittle", 2006, initial value 0), the checksum of version 2 structures.
std::uint32_t hdf5_checksum(std::span<const std::byte> bytes);

/// Which bytes of a file the parts of one structure take. Parts never overlap, so that a part is visited once and all
/// of them together are no longer than the file.
class Hdf5Claims {
 public:
  explicit Hdf5Claims(const Hdf5File& file) : file_(file) {}
  /// @throws Error where some of the bytes belong to a part before or lie outside of the file
  void claim(std::uint64_t address, std::uint64_t size, const std::string& object);

 private:
  const Hdf5File& file_;
  std::map<std::uint64_t, std::uint64_t> end_;  ///< by the parts' beginnings
};

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
