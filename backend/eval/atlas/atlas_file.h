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

/// What the heads of models do over windows of corpora, as `foxscope eval atlas` writes it; docs/files.md has the
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

/// One atlas of the windows of several: it equals the atlas of one run over all their corpora, in their order.
/// @param names  of the files, for messages
/// @throws Error naming the first file and the one that does not go with it: other models, weights, tokenizers or
///         settings, or a document that both hold
Atlas merge_atlases(std::vector<Atlas> parts, const std::vector<std::string>& names);

}  // namespace foxscope
