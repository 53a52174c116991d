#include "app/cli/file_size.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include <fmt/format.h>

#include "app/cli/console.h"
#include "app/description/number_text.h"
#include "backend/model/session/run_memory.h"
#include "backend/model/spec/trace_sizes.h"

namespace foxscope::cli {
std::vector<KeptPart> keptParts(const ModelConfig& config, std::int64_t length, const KeepSet& keep, DType dtype) {
  const TraceSizes sizes = sizes_of(config, length);
  const KeepSet kept = with_values_of_linear_mixers(keep, sizes);
  std::vector<KeptPart> parts;
  for (const KeepWord& word : kKeepWords) {
    if (!kept.contains(word.keep)) continue;
    std::int64_t bytes = 0;
    for (const ArraySpec& spec : kTraceArrays) {
      if (spec.keep == word.keep) bytes += static_cast<std::int64_t>(bytes_of(spec, sizes, dtype));
    }
    parts.push_back({word.word, bytes});
  }
  std::ranges::stable_sort(parts, std::greater{}, &KeptPart::bytes);
  return parts;
}

std::int64_t totalBytes(const std::vector<KeptPart>& parts) {
  return std::accumulate(parts.begin(), parts.end(), std::int64_t{0},
                         [](std::int64_t sum, const KeptPart& part) { return sum + part.bytes; });
}

std::string largeFileNote(const std::string& output, const std::vector<KeptPart>& parts, std::int64_t tokens) {
  const auto bytes = static_cast<double>(totalBytes(parts));
  return fmt::format(
      "{} will take about {}, {} of it for {}: leave {} out of --keep for a smaller file, or read less by --limit ({} "
      "a "
      "token)",
      output, sizeText(bytes), sizeText(static_cast<double>(parts.front().bytes)), parts.front().word,
      parts.front().word, sizeText(bytes / static_cast<double>(tokens)));
}

}  // namespace foxscope::cli
