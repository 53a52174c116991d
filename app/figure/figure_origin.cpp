#include "app/figure/figure_origin.h"

#include <algorithm>

#include <fmt/format.h>

namespace foxscope::figure {

void addOnce(FigureOrigin& origin, std::pair<std::string, std::string> fact) {
  if (std::find(origin.facts.begin(), origin.facts.end(), fact) == origin.facts.end()) {
    origin.facts.push_back(std::move(fact));
  }
}

std::string FigureOrigin::factsText(const std::string& separator) const {
  std::string text;
  for (const auto& [name, value] : facts) {
    if (!text.empty()) text += separator;
    text.append(name).append(": ").append(value);
  }
  return text;
}

std::string headText(const HeadOf& head) {
  return fmt::format("{}, layer {}, head {}", head.trace->info().name, head.layer, head.head);
}

std::string firstPositions(const Range& positions, std::int64_t length) {
  return fmt::format("first {} of {} positions", positions.end, length);
}

void addModel(FigureOrigin& origin, const TraceInfo& info) {
  std::string model = info.name;
  if (!info.weights_sha256.empty()) model += ", weights SHA-256 " + info.weights_sha256;
  if (!info.intervention.empty()) model += ", intervention " + info.intervention;
  addOnce(origin, {"model", model});
  if (!info.unchecked) return;
  origin.mark = "unchecked run file: its arrays may contradict one another";
  addOnce(origin, {"unchecked", fmt::format("the arrays of {} were not held against one another", info.name)});
}

void addRun(FigureOrigin& origin, const Trace& run) {
  const TraceInfo& info = run.info();
  addModel(origin, info);
  const std::string tokens = fmt::format("{} tokens", info.length);
  addOnce(origin, {"text", run.text() ? fmt::format("SHA-256 {}, {}", run.text()->sha256, tokens)
                                      : fmt::format("token ids without a text, {}", tokens)});
}

}  // namespace foxscope::figure
