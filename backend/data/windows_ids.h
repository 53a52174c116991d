#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "backend/data/windows.h"

namespace foxscope {

/// Windows given as token ids, [M, L].
struct IdsSource {
  std::filesystem::path file;           ///< .npy (int16, int32 or int64; C order) or .safetensors (I32 or I64)
  std::optional<std::string> tensor;    ///< of a safetensors file that holds several
  std::optional<std::int64_t> length;   ///< the first tokens of each row; none: all
  std::optional<std::int64_t> windows;  ///< the first rows; none: all
};

/// Rows of ids as windows: they are labels, so BOS goes before them. Each row is a document of its own, without text;
/// one that repeats a row before it is left out.
/// @throws Error naming the file, the tensor and the remedy: unreadable, not [M, L], not whole numbers, negative
/// @throws UsageError for a tensor that is not there or must be named, and for a length or number that is too large
Windows read_window_ids(const IdsSource& source);

}  // namespace foxscope
