#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backend/map/statistics/expert_use.h"
#include "backend/trace/trace.h"

namespace foxscope {

/// Whether a run's model is a mixture of experts, by its configuration; none where that cannot be read.
std::optional<bool> is_mixture(const TraceInfo& info);
/// The words for the experts of a mixture's run that did not keep them.
inline constexpr const char* kExpertsNotKept = "not kept: run it again with --keep experts";
/// E, experts of a layer, by the configuration of the run's model; 0: none, or not known.
int experts_of(const TraceInfo& info, int layer);
/// Names what each layer of a run has, for people: its mixer (mixer_text), else "experts" or "MLP".
std::vector<std::string> layer_texts(const TraceInfo& info);

/// How a run uses the experts of one layer: a row an expert, also of those that no position reads.
struct ExpertTable {
  static constexpr std::size_t kTokens = 5;  ///< most that are named of an expert

  std::shared_ptr<const Trace> run;
  int layer = 0;
  std::vector<ExpertUse> experts;  ///< by number

  [[nodiscard]] std::int64_t positions() const { return run->info().length; }
  /// The share of positions that read an expert, and of those where it is the heaviest.
  [[nodiscard]] double share(const ExpertUse& use) const;
  [[nodiscard]] double heaviest_share(const ExpertUse& use) const;
  /// The token as the run's text has it.
  [[nodiscard]] std::string string(const ExpertUse::Token& token) const;
};

/// @throws Error for experts that were not kept and a layer without experts, with the remedy; UsageError for a layer
///         that does not exist
ExpertTable expert_table(std::shared_ptr<const Trace> run, int layer);
/// The tables of all layers with experts. @throws Error where no layer has any, or they were not kept
std::vector<ExpertTable> expert_tables(const std::shared_ptr<const Trace>& run);

/// All rows as CSV, with the model and the layer first, and the tokens that are read most with their counts last.
std::string csv_of(std::span<const ExpertTable> tables);

}  // namespace foxscope
