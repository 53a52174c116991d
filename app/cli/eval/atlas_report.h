#pragma once

#include <cstdint>
#include <string>

#include "backend/eval/atlas/atlas_rows.h"

namespace foxscope::cli {

/// The figures that tell the heads of each model apart, one line a head.
std::string atlasText(const Atlas& atlas);
/// The content of a file, as JSON.
std::string atlasJson(const std::string& path, std::int64_t bytes, const Atlas& atlas);

/// A table (AtlasTable): in columns with numbers of six digits; as CSV; and as a list of objects with the columns'
/// names; what is not known is null.
/// @throws UsageError naming the tables that there are
std::string atlasTableText(const Atlas& atlas, const std::string& name, const AtlasChoice& choice);
std::string atlasTableCsv(const Atlas& atlas, const std::string& name, const AtlasChoice& choice);
std::string atlasTableJson(const Atlas& atlas, const std::string& name, const AtlasChoice& choice);

}  // namespace foxscope::cli
