#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "backend/file/hdf5/hdf5_file.h"
#include "backend/file/hdf5/hdf5_tree.h"

namespace foxscope {

/// Where the newer form of the format keeps the links or attributes of an object that has many.
struct Hdf5DenseStorage {
  std::uint64_t heap;   ///< address of a fractal heap: the messages themselves
  std::uint64_t index;  ///< address of a version 2 B-tree: where each lies in the heap
};

/// Calls `use` with every link or attribute message. A message too large for the heap's blocks is left out: Foxscope
/// reads none such.
/// @throws Error where the storage is damaged
/// @param type  of the index: links or attributes
void for_each_dense_message(const Hdf5File& file, const std::string& object, const Hdf5DenseStorage& storage,
                            Hdf5RecordType type, const std::function<void(std::span<const std::byte>)>& use);

}  // namespace foxscope
