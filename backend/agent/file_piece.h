#pragma once

#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include <fmt/format.h>

#include "backend/base/error.h"
#include "backend/base/regular_file.h"

namespace foxscope::agent {

/// Reads bytes of a file from a place on.
/// @param name  of the file, for errors
/// @throws Error where the file ends before
template <typename Byte>
void read_piece(const RegularFile& file, const std::string& name, std::int64_t begin, std::span<Byte> bytes) {
  static_assert(sizeof(Byte) == 1);
  for (std::size_t done = 0; done < bytes.size();) {
    const ssize_t got = pread(file.descriptor(), bytes.data() + done, bytes.size() - done,
                              static_cast<off_t>(begin) + static_cast<off_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) throw Error(fmt::format("{}: was cut short while it was being read", name));
    done += static_cast<std::size_t>(got);
  }
}

}  // namespace foxscope::agent
