#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "backend/base/atomic_file.h"

namespace foxscope {

/// Writes a safetensors file of float32 tensors, one after the other, so that none needs to be in memory with another.
class SafetensorsWriter {
 public:
  struct Tensor {
    std::string name;
    std::vector<std::int64_t> shape;
  };
  /// @param tensors   in the order in which they will be written
  /// @param metadata  of the header's "__metadata__"
  /// @throws Error naming the file: it exists, its folder is missing, the disk has no room
  SafetensorsWriter(const std::filesystem::path& path, const std::vector<Tensor>& tensors,
                    const std::map<std::string, std::string>& metadata);

  /// The next numbers of the tensors.  @throws Error naming the file when the disk is full
  void write(std::span<const float> values);
  /// Puts the file in place, when all numbers are written.
  void commit();

 private:
  AtomicFile file_;
  std::int64_t missing_ = 0;  ///< numbers
};

}  // namespace foxscope
