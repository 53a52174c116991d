#include "backend/file/provenance.h"

#include <chrono>

#include <fmt/chrono.h>

#include "backend/file/hdf5/hdf5_heap.h"
#include "backend/file/hdf5/hdf5_object.h"

namespace foxscope {

std::string utc_now() {
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}",
                     fmt::gmtime(std::chrono::system_clock::to_time_t(std::chrono::system_clock::now())));
}

std::string read_content(const std::filesystem::path& path) {
  const std::shared_ptr<const Hdf5File> file = Hdf5File::open(path);
  Hdf5Heap heap(file);
  return Hdf5Object(file, file->root(), "/").text_attribute("content", heap).value_or("");
}

void write_root(Hdf5Writer& writer, const Provenance& provenance, std::int64_t schema) {
  writer.attribute("/", "foxscope_schema", schema);
  writer.attribute("/", "program", "foxscope");
  writer.attribute("/", "program_version", FOXSCOPE_VERSION);
  writer.attribute("/", "command_line", provenance.command_line);
  writer.attribute("/", "created", provenance.created.empty() ? utc_now() : provenance.created);
  writer.attribute("/", "NX_class", "NXroot");
}

}  // namespace foxscope
