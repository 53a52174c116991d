#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "backend/file/hdf5/hdf5_file.h"

namespace foxscope {

/// The type of a version 2 B-tree's records (format specification, III.A.2).
enum class Hdf5RecordType : std::uint8_t { link_by_name = 5, attribute_by_name = 8, chunk = 10, filtered_chunk = 11 };

/// Calls `use` with every record of a version 2 B-tree, in order.
/// @throws Error where the tree is damaged: another type, checksums, nodes that are reached twice
void for_each_hdf5_record(const Hdf5File& file, const std::string& object, std::uint64_t address, Hdf5RecordType type,
                          Hdf5Claims& claims, const std::function<void(std::span<const std::byte>)>& use);

}  // namespace foxscope
