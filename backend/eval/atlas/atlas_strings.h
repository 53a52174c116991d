#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backend/eval/evaluation_file.h"

namespace foxscope {

/// Writes `string` of the group of tokens, and where tokens are no whole characters `part_id` and `part_bytes` (in
/// hexadecimal digits): HDF5 holds UTF-8 alone.
/// @param ids    [T]
/// @param bytes  [T] of the tokens; empty: nothing is written
void write_atlas_strings(EvaluationWriter& file, const std::string& group, const std::vector<std::int32_t>& ids,
                         const std::vector<std::string>& bytes);

/// @param tokens  the group
/// @param ids     [T] of its tokens, ascending
/// @returns [T] bytes of the tokens; empty where the file has none
/// @throws Error naming the file: other sizes, ids that are not there, digits that are none
std::vector<std::string> read_atlas_strings(EvaluationFile& file, const Hdf5Object& tokens,
                                            const std::vector<std::int32_t>& ids);

}  // namespace foxscope
