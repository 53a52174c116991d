#pragma once

#include <string>
#include <vector>

#include "backend/eval/atlas/atlas_file.h"

namespace foxscope {

/// One atlas of the windows of several: it equals the atlas of one run over all their corpora, in their order.
/// @param names  of the files, for messages
/// @throws Error naming the first file and the one that does not go with it: other models, weights, tokenizers or
///         settings, or a document that both hold
Atlas merge_atlases(std::vector<Atlas> parts, const std::vector<std::string>& names);

}  // namespace foxscope
