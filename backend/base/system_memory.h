#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace foxscope {

/// Bytes that this process may still take: the system's available memory, or what its control groups or its own limit
/// of address space leave.
std::int64_t available_memory();

/// MemAvailable of proc/meminfo.
/// @param root  the folder that holds proc and sys; "/" but in tests
/// @returns nothing where it cannot be read
std::optional<std::int64_t> left_of_system(const std::filesystem::path& root);

/// The memory that the control groups of this process (version 1 or 2) and all that these lie in leave. A group counts
/// the page cache and the kernel's caches as used, which it gives back when there is need: as in MemAvailable, they are
/// free here.
/// @param root  the folder that holds proc and sys; "/" but in tests
/// @returns nothing where no limit is set
std::optional<std::int64_t> left_of_control_groups(const std::filesystem::path& root);

}  // namespace foxscope
