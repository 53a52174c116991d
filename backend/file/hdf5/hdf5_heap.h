#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "backend/file/hdf5/hdf5_file.h"

namespace foxscope {

/// Strings of variable length lie together in blocks that datasets and attributes point into.
class Hdf5Heap {
 public:
  explicit Hdf5Heap(std::shared_ptr<const Hdf5File> file) : file_(std::move(file)), claims_(*file_) {}

  /// The string that a 16-byte reference points to.
  /// @throws Error for references that lead nowhere, and when strings together are longer than the file
  std::string text(std::span<const std::byte> reference, const std::string& object);

 private:
  struct Place {
    std::uint64_t offset, size;
  };
  struct Collection {
    std::unordered_map<std::uint32_t, Place> places;
    std::uint64_t begin = 0;
    std::vector<std::byte> bytes;  ///< of the whole block from begin on, where it is short
  };
  const Collection& collection(std::uint64_t address, const std::string& object);
  void read(const Collection& from, std::uint64_t offset, std::span<std::byte> bytes, const std::string& object) const;

  std::shared_ptr<const Hdf5File> file_;
  Hdf5Claims claims_;
  std::unordered_map<std::uint64_t, Collection> collections_;
  std::uint64_t bytes_given_ = 0;
};

}  // namespace foxscope
