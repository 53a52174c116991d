#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "backend/eval/atlas/atlas_tables.h"
#include "backend/file/run_file.h"
#include "backend/trace/trace.h"

namespace foxscope {

/// @content of such files.
inline constexpr const char* kAtlasContent = "eval_atlas";

/// The forgetting of heads of models over windows of corpora, as `foxscope eval atlas` writes it; docs/files.md has the
/// layout. Readers of this program need windows and sums: everything else in the file follows from these.
struct Atlas {
  EvaluatedCorpus corpus;
  std::vector<AtlasModel> models;  ///< in the order of the command line
  std::string program_version;
  std::string command_line;
  std::string created;

  /// @throws Error naming the file, the object in it, and the remedy: not HDF5, another kind of file, newer schema,
  ///         damaged
  static Atlas open(const std::filesystem::path& path);
};

/// @throws Error naming the file and the remedy (exists, not writable, disk full)
void write_atlas_file(const std::filesystem::path& path, const Atlas& atlas, const Provenance& provenance,
                      Overwrite overwrite);

}  // namespace foxscope
