#include "backend/file/provenance.h"

#include <chrono>

#include <fmt/chrono.h>

namespace foxscope {

std::string utc_now() {
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}",
                     fmt::gmtime(std::chrono::system_clock::to_time_t(std::chrono::system_clock::now())));
}

void write_root(Hdf5Writer& writer, const Provenance& provenance) {
  writer.attribute("/", "foxscope_schema", kSchema);
  writer.attribute("/", "program", "foxscope");
  writer.attribute("/", "program_version", FOXSCOPE_VERSION);
  writer.attribute("/", "command_line", provenance.command_line);
  writer.attribute("/", "created", provenance.created.empty() ? utc_now() : provenance.created);
  writer.attribute("/", "NX_class", "NXroot");
}

}  // namespace foxscope
