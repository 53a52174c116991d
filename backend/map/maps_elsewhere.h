#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "backend/map/map_line.h"
#include "backend/map/map_stages.h"
#include "backend/map/pair_reading.h"
#include "backend/map/statistics/decay_split.h"
#include "backend/map/statistics/distance_summary.h"
#include "backend/map/statistics/head_statistics.h"
#include "backend/map/statistics/pruning_bound.h"

namespace foxscope {

/// Computes what the functions of these names do, where the arrays of a run are. The source of a trace that lies on
/// another machine (backend/agent) implements it; callers of the functions do not know. Safe to call from several
/// threads. All throw Error too where the other machine cannot be reached.
class MapsElsewhere {
 public:
  virtual ~MapsElsewhere() = default;
  /// Whether the arrays of another trace lie at the same place, so that a difference can be computed there.
  [[nodiscard]] virtual bool holds(const Trace& trace) const = 0;
  /// Whether c of a head is here, of which maps of F are made in a moment.
  [[nodiscard]] virtual bool has_gates_here(int layer, int head) const = 0;
  /// @param stages  null: only the whole map is wanted
  [[nodiscard]] virtual std::optional<Image> map(const MapRequest& request, const Job& job,
                                                 const MapStages* stages) const = 0;
  [[nodiscard]] virtual std::optional<std::vector<float>> line(const LineRequest& request, const Job& job) const = 0;
  [[nodiscard]] virtual double mean_log_gate(int layer, int head) const = 0;
  [[nodiscard]] virtual PairReading pair(const HeadOf& head, std::int64_t query, std::int64_t key) const = 0;
  [[nodiscard]] virtual std::optional<HeadStatistics> statistics(const HeadOf& head, const StatisticsOptions& options,
                                                                 const Job& job) const = 0;
  /// The distances of the spread that `statistics` or `split` gave, without mass by distance.
  [[nodiscard]] virtual DistanceSummary distances(const HeadOf& head, SpreadOf which) const = 0;
  [[nodiscard]] virtual std::optional<DecaySplit> split(const HeadOf& head, const Job& job) const = 0;
  [[nodiscard]] virtual std::optional<std::vector<LogitMeans>> logits(const HeadOf& head, const Job& job) const = 0;
  [[nodiscard]] virtual std::optional<PruningBound> pruning(const HeadOf& head, double tolerance,
                                                            const Job& job) const = 0;
};

/// Where a run is computed, if not here.
const MapsElsewhere* elsewhere(const Trace& trace);
/// Where a head is computed, if not here; null too where `minus` does not lie at the same place: then arrays are read
/// from both.
const MapsElsewhere* elsewhere(const HeadOf& head, const std::optional<HeadOf>& minus = std::nullopt);

/// The run whose maps and lines are computed here, for who asks for so many of them that its arrays are fewer bytes:
/// they are read from where the run lies. A run that lies here is itself.
std::shared_ptr<const Trace> computed_here(const std::shared_ptr<const Trace>& trace);

}  // namespace foxscope
