#pragma once

#include <string>

#include "backend/file/hdf5_writer.h"
#include "backend/file/run_file.h"

namespace foxscope {

/// Version of the layout of run files and map files that this program writes, and the newest that it reads.
inline constexpr std::int64_t kSchema = 1;

/// Attributes of the root group: schema, program, command line, time, and where a viewer looks first.
void write_root(Hdf5Writer& writer, const Provenance& provenance);

/// Now, ISO 8601, UTC, to the second.
std::string utc_now();

}  // namespace foxscope
