#include "app/cli/run_summary.h"

#include <cmath>
#include <limits>
#include <numeric>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "app/cli/console.h"
#include "app/cli/text_table.h"
#include "app/description/number_text.h"

namespace foxscope::cli {
namespace {

double tokensPerSecond(const ModelSummary& model) {
  return model.forwardSeconds > 0 ? static_cast<double>(model.tokens) / model.forwardSeconds : 0.0;
}

// A number that does not exist is NaN here and null in JSON.
nlohmann::ordered_json numberOrNull(double value) {
  return std::isfinite(value) ? nlohmann::ordered_json(value) : nlohmann::ordered_json(nullptr);
}

}  // namespace

std::optional<double> meanLoss(std::span<const float> perTokenLoss) {
  if (perTokenLoss.empty()) return std::nullopt;
  return std::accumulate(perTokenLoss.begin(), perTokenLoss.end(), 0.0) / static_cast<double>(perTokenLoss.size());
}

ModelSummary summarize(const RunResult& result) {
  const TraceInfo& info = result.trace->info();
  ModelSummary summary;
  summary.name = info.name;
  summary.tokens = info.length;
  summary.meanLoss = meanLoss(result.trace->per_token_loss());
  summary.loadSeconds = result.report.load_seconds;
  summary.forwardSeconds = result.report.forward_seconds;
  summary.device = info.device;
  summary.dtype = to_string(info.dtype);
  summary.attentionKernel = result.report.forward.attention_kernel;
  summary.attentionBlocks = result.report.forward.attention_blocks;
  summary.skippedBlocks = result.report.forward.skipped_blocks;
  return summary;
}

std::string summaryJson(const std::string& output, const std::vector<ModelSummary>& models) {
  auto list = nlohmann::ordered_json::array();
  for (const ModelSummary& model : models) {
    const double loss = model.meanLoss.value_or(std::numeric_limits<double>::quiet_NaN());
    list.push_back(
        {{"name", model.name},
         {"tokens", model.tokens},
         {"mean_loss", numberOrNull(loss)},
         {"perplexity", numberOrNull(std::exp(loss))},
         {"tokens_per_second", tokensPerSecond(model)},
         {"seconds", {{"load", model.loadSeconds}, {"forward", model.forwardSeconds}, {"write", model.writeSeconds}}},
         {"peak_memory_bytes", model.peakMemoryBytes},
         {"device", model.device},
         {"dtype", model.dtype},
         {"attention_kernel", model.attentionKernel},
         {"skipped_blocks", model.skippedBlocks}});
  }
  const nlohmann::ordered_json summary{{"output", output}, {"models", std::move(list)}};
  return summary.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + '\n';
}

std::string summaryTable(const std::string& output, const std::vector<ModelSummary>& models) {
  using enum TextTable::Align;
  TextTable table({"model", "tokens", "loss (nats)", "perplexity", "tokens/s", "load (s)", "forward (s)", "write (s)",
                   "peak memory", "blocks skipped", "device"},
                  {left, right, right, right, right, right, right, right, right, right, left});
  for (const ModelSummary& model : models) {
    // Linear mixers have no blocks of attention.
    const std::string skipped = model.attentionBlocks > 0
                                    ? fmt::format("{:.0f} %", 100.0 * static_cast<double>(model.skippedBlocks) /
                                                                  static_cast<double>(model.attentionBlocks))
                                    : "-";
    table.addRow({model.name, countText(model.tokens), model.meanLoss ? fmt::format("{:.4f}", *model.meanLoss) : "-",
                  model.meanLoss ? fmt::format("{:.2f}", std::exp(*model.meanLoss)) : "-",
                  countText(std::llround(tokensPerSecond(model))), fmt::format("{:.2f}", model.loadSeconds),
                  fmt::format("{:.2f}", model.forwardSeconds), fmt::format("{:.2f}", model.writeSeconds),
                  sizeText(static_cast<double>(model.peakMemoryBytes)), skipped,
                  fmt::format("{} {}", model.device, model.dtype)});
  }
  return table.text() + "written to " + output + '\n';
}

}  // namespace foxscope::cli
