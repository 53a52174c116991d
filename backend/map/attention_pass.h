#pragma once

#include "backend/map/head_statistics.h"

namespace foxscope {

/// Fills the attention's part of the statistics by one pass of tiles; heads that park more than 15/16 of a row on key
/// 0 take a second look at those rows, because what remains is then too small to be known as 1 minus that share. Tiles
/// whose every entry is below 2^-40 of its row are left out.
/// @returns false if the job was stopped
bool attention_pass(const HeadOf& head, const Job& job, HeadStatistics& statistics);

}  // namespace foxscope
