#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "backend/base/job.h"
#include "backend/file/run_check.h"
#include "backend/trace/trace.h"

namespace foxscope {

/// Something in a run file that is not as docs/files.md has it.
struct SchemaFinding {
  enum class Kind {
    broken,  ///< readers refuse the file, or show something else than was meant
    note,    ///< readers pass it over, or take what the schema says of an absent part
  };
  Kind kind = Kind::broken;
  std::string path;      ///< in the file, "/models/fox/layers/03/query" or "/models/fox@dtype"
  std::string expected;  ///< "float32 [4, 60, 8]"
  std::string found;     ///< "float64 [4, 60, 8]", "nothing"
};

/// A model of the file as far as it could be read.
struct SchemaModel {
  TraceInfo info;                                ///< name and sizes, as far as they are known
  bool looked_at = false;                        ///< whether sizes were known, so that its arrays were looked at
  std::vector<int> not_looked_at;                ///< layers whose mixer is not known, ascending
  std::set<std::pair<TraceArray, int>> present;  ///< arrays of the right type and shape, by layer
  bool has_text = false;                         ///< a text, and the places of tokens in it
  bool has_words = false;                        ///< strings of tokens
  std::optional<RunCheckReport> sums;            ///< of check_run; none where the file does not open
};

struct SchemaReport {
  std::vector<SchemaFinding> findings;  ///< kMostFindings of a kind at most
  std::uint64_t broken = 0;             ///< all of that kind
  std::uint64_t notes = 0;
  std::vector<SchemaModel> models;
  static constexpr std::uint64_t kMostFindings = 1000;
};

/// Holds a run file, perhaps of another program, against the schema of docs/files.md, and goes on behind what is wrong:
/// groups, datasets and attributes that are missing, of another type, shape or unit, of lengths that disagree, or that
/// nothing reads; numbers that are not finite; sums of log f that rise; rows of attention that do not sum to 1, by
/// check_run, where everything else is as it should be. Sizes
/// are those of attributes, or of most arrays where these say otherwise, and the length that of a column of tokens.
/// Each part of the file is visited once, and one array of a layer is in memory at a time; queries, keys and values are
/// read piece by piece.
/// @returns nothing if the job was stopped
/// @throws Error where the file cannot be opened at all: missing, not HDF5, cut short
std::optional<SchemaReport> check_schema(const std::filesystem::path& path, const Job& job);

}  // namespace foxscope
