#include "app/cli/file_size.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "app/cli/console.h"
#include "app/description/number_text.h"

namespace foxscope::cli {
namespace {

constexpr std::int64_t kFloatBytes = 4;
constexpr std::int64_t kDoubleBytes = 8;

}  // namespace

std::vector<KeptPart> keptParts(const ModelConfig& config, std::int64_t length, const KeepSet& keep, DType dtype) {
  const std::int64_t headRows = std::int64_t{config.layers} * config.heads * length;
  const std::int64_t queryKeyRows = std::int64_t{config.layers} * (config.heads + config.key_heads) * length;
  std::vector<KeptPart> parts;
  const auto add = [&](Keep part, const char* word, std::int64_t bytes) {
    if (keep.contains(part)) parts.push_back({word, bytes});
  };
  add(Keep::loss, "loss", length * kFloatBytes);
  add(Keep::gates, "gates", headRows * kDoubleBytes);
  add(Keep::rows, "rows", headRows * kFloatBytes);
  add(Keep::ungated, "ungated", headRows * kFloatBytes);
  add(Keep::query_key, "qk", queryKeyRows * config.head_dim * static_cast<std::int64_t>(size_of(dtype)));
  add(Keep::logits, "logits", length * config.vocabulary_size * kFloatBytes);
  add(Keep::hidden, "hidden", (config.layers + 1) * length * config.hidden_size * kFloatBytes);
  std::stable_sort(parts.begin(), parts.end(), [](const KeptPart& a, const KeptPart& b) { return a.bytes > b.bytes; });
  return parts;
}

std::int64_t totalBytes(const std::vector<KeptPart>& parts) {
  return std::accumulate(parts.begin(), parts.end(), std::int64_t{0},
                         [](std::int64_t sum, const KeptPart& part) { return sum + part.bytes; });
}

std::string largeFileNote(const std::string& output, const std::vector<KeptPart>& parts) {
  return fmt::format("{} will take about {}, {} of it for {}: leave {} out of --keep for a smaller file", output,
                     sizeText(static_cast<double>(totalBytes(parts))),
                     sizeText(static_cast<double>(parts.front().bytes)), parts.front().word, parts.front().word);
}

}  // namespace foxscope::cli
