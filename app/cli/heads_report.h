#pragma once

#include <string>
#include <vector>

#include "backend/map/head_statistics.h"

namespace foxscope::cli {

/// What the table of heads is about.
struct HeadsReport {
  std::string model;
  std::int64_t tokens = 0;
  std::vector<HeadStatistics> heads;  ///< by layer, then head
};

/// The figures that tell heads apart, one line a head, units in the header.
std::string headsTable(const HeadsReport& report);
/// Every statistic; a value that does not exist (attention when q and k were not kept, an infinite decay time) is null.
std::string headsJson(const HeadsReport& report);
/// Every statistic as columns; a value that does not exist is empty, an infinite one `inf`.
std::string headsCsv(const HeadsReport& report);

}  // namespace foxscope::cli
