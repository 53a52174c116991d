#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace foxscope {

class Hdf5Writer;

/// How a file was made.
struct Provenance {
  std::string command_line;
  std::string created;  ///< ISO 8601, UTC; empty: now
};

enum class Overwrite { refuse, force };

/// Version of the layout of run files and map files that this program writes.
inline constexpr std::int64_t kSchema = 1;
/// The schema of run files with linear mixers.
inline constexpr std::int64_t kMixerSchema = 2;
/// The schema of run files with a window by layer, capped logits or the mixers of is_newer (run_file.cpp), and the
/// newest that it reads.
inline constexpr std::int64_t kAttentionSchema = 3;

/// Attributes of the root group: schema, program, command line, time, and where a viewer looks first.
void write_root(Hdf5Writer& writer, const Provenance& provenance, std::int64_t schema = kSchema);

/// The content of a file of Foxscope beside runs and maps: @content of its root group, "eval_loss"; else empty.
/// @throws Error if the file cannot be opened, is not HDF5, or is damaged
std::string read_content(const std::filesystem::path& path);

/// Says what a file with that @content holds and which command wrote it: "statistics of heads (`foxscope heads -o`)".
std::string content_words(const std::string& content);

/// Facts about a file from the attributes of its root. A fact that the file does not give is empty.
struct FileOrigin {
  std::string content;  ///< as read_content
  std::string program_version;
  std::string command_line;
  std::string created;
  std::vector<std::string> models;  ///< names, sorted
  std::vector<std::string> maps;    ///< names, sorted
};
/// @throws Error as read_content
FileOrigin read_origin(const std::filesystem::path& path);

/// Now, ISO 8601, UTC, to the second.
std::string utc_now();

}  // namespace foxscope
