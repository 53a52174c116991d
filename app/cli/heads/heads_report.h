#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backend/eval/heads/head_measures.h"

namespace foxscope::cli {

/// A head of another model, and how far its distance profile is (octaves_apart).
struct NearestHead {
  int layer = 0;
  int head = 0;
  double octaves = 0;
};

/// One head of a report.
struct ReportedHead {
  HeadMeasures measures;
  std::vector<NearestHead> nearest;  ///< nearest first; empty unless heads are matched
};

/// The contents of the tables of heads.
struct HeadsReport {
  std::string model;
  std::int64_t tokens = 0;
  std::vector<ReportedHead> heads;  ///< by layer, then head, unless sorted
  bool split = false;
  bool classes = false;
  bool saliency = false;             ///< its table was asked for
  std::int64_t rows = 0;             ///< sampled of each head's attention; 0: all of them were measured
  std::shared_ptr<const Trace> run;  ///< that the heads are of
  std::string matched;               ///< the other model; empty: none
  std::string sortedBy;              ///< name of a statistic; empty: none
};

/// A head's statistics as named numbers, the same names for every head of a report; NaN for what does not exist. Where
/// rows were sampled, NAME of attention is followed by NAME_error, its standard error.
using Columns = std::vector<std::pair<std::string, double>>;
Columns headColumns(const HeadsReport& report, const ReportedHead& head);

/// The statistics that the overview always has, by their titles there and their names as columns of --csv.
struct Titled {
  std::string_view title;
  std::string_view name;
};
inline constexpr std::array<Titled, 12> kOverview = {{{"layer", "layer"},
                                                      {"head", "head"},
                                                      {"decay time", "rate_decay_time"},
                                                      {"horizon 1/e", "horizon_1_over_e_median"},
                                                      {"half-life", "horizon_half_median"},
                                                      {"survival 1/e", "survival_1_over_e_median"},
                                                      {"d50", "d50"},
                                                      {"d90", "d90"},
                                                      {"entropy", "entropy"},
                                                      {"on key 0", "mass_on_first"},
                                                      {"on self", "mass_on_self"},
                                                      {"on sink", "mass_on_sink"}}};

/// Puts the heads in the order of a statistic, largest first or smallest first, those without a value last, and keeps
/// the first `top` of them (0: all).
/// @throws UsageError naming those that exist
struct Ranking {
  std::string statistic;  ///< a column of --csv, or a title of the overview, with _ or - for its spaces
  bool smallestFirst = false;
  std::size_t top = 0;
};
void rank(HeadsReport& report, const Ranking& ranking);

/// Every statistic; a value that does not exist (attention when q and k were not kept, an infinite decay time) is null.
/// Several models make a list, `models`.
std::string headsJson(std::span<const HeadsReport> reports);
/// Every statistic as columns; a value that does not exist is empty, an infinite one `inf`. With several models the
/// first column is `model`.
std::string headsCsv(std::span<const HeadsReport> reports);

}  // namespace foxscope::cli
