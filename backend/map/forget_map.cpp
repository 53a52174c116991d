#include "backend/map/forget_map.h"

#include <algorithm>
#include <vector>

#include "backend/map/head_entries.h"
#include "backend/map/statistics/bins.h"
#include "backend/map/statistics/gate_distances.h"
#include "backend/map/statistics/gate_lines.h"
#include "backend/map/team.h"

namespace foxscope {
namespace {

/// Pixels that one task computes: below 0.2 s by far, and enough to be worth a task.
constexpr std::int64_t kTaskPixels = 1 << 16;

/// c of a head; what stands for it, kept in `own`, where it has none.
std::span<const double> gate_of(const HeadOf& head, std::optional<int> channel, std::vector<double>& own) {
  const TraceInfo& info = head.trace->info();
  if (!channel && forgets(info, head.layer)) return head.trace->cumulative_log_gate(head.layer, head.head);
  if (channel) {
    own = head.trace->cumulative_log_decay(head.layer, head.head, *channel);
  } else {
    own.assign(static_cast<std::size_t>(info.length), 0.0);
  }
  return own;
}

/// Gates of a request's heads, and the window of their entries.
struct GatedHeads {
  explicit GatedHeads(const MapRequest& request)
      : window(window_of(request.head.trace->info(), request.head.layer)),
        gate(gate_of(request.head, request.channel, zeros)) {
    if (!request.minus) return;
    window = common_window(window, window_of(request.minus->trace->info(), request.minus->layer));
    subtracted = gate_of(*request.minus, request.channel, other_zeros);
  }
  std::vector<double> zeros;
  std::vector<double> other_zeros;
  std::int64_t window;
  std::span<const double> gate;
  std::span<const double> subtracted;  ///< empty: nothing
};

/// F or log F by distance: each task computes bins of distances for all rows.
std::optional<Image> forget_map_by_distance(const MapRequest& request, const Job& job) {
  const GatedHeads gated(request);
  std::vector<GateDistances> heads;
  heads.emplace_back(gated.gate, gated.window, request);
  if (request.minus) heads.emplace_back(gated.subtracted, gated.window, request);
  Image image{request.pixel_rows, request.pixel_columns, {}};
  image.value.resize(static_cast<std::size_t>(image.rows * image.columns));
  const std::int64_t bins = std::clamp<std::int64_t>(kTaskPixels / request.rows.size(), 1, image.columns);
  const auto compute = [&](std::int64_t bin) {
    std::vector<double> values(static_cast<std::size_t>(image.rows));
    heads.front().bin(bin, values.data());
    if (request.minus) {
      std::vector<double> subtracted(values.size());
      heads.back().bin(bin, subtracted.data());
      for (std::size_t n = 0; n < values.size(); ++n) values[n] -= subtracted[n];
    }
    for (std::size_t n = 0; n < values.size(); ++n) {
      image.value[n * static_cast<std::size_t>(image.columns) + static_cast<std::size_t>(bin)] =
          static_cast<float>(values[n]);
    }
  };
  Team team(job);
  const std::int64_t tasks = (image.columns + bins - 1) / bins;
  const bool done =
      team.run({"computing the map", "pixels", image.rows * image.columns}, tasks, [&](std::int64_t task, int thread) {
        const Range part{task * bins, std::min((task + 1) * bins, image.columns)};
        for (std::int64_t bin = part.begin; bin < part.end && !team.stopped(); ++bin) compute(bin);
        team.advance(part.size() * image.rows, thread);
      });
  if (!done) return std::nullopt;
  return image;
}

/// Whether F is one exponential a pair: not where it is the mean of those of many channels.
bool is_one_exponential(const MapRequest& request, const HeadOf& head) {
  const bool channels = head.trace->info().mixer(head.layer).decays_by_channel();
  return !channels || request.channel || request.quantity == Quantity::log_forget;
}

}  // namespace

bool has_closed_form(const MapRequest& request) {
  if (request.quantity != Quantity::forget && request.quantity != Quantity::log_forget) return false;
  if (!is_one_exponential(request, request.head)) return false;
  return !request.minus || (request.reduction == Reduction::mean && is_one_exponential(request, *request.minus));
}

std::optional<Image> forget_map(const MapRequest& request, const Job& job) {
  if (request.by_distance()) return forget_map_by_distance(request, job);
  const GatedHeads gated(request);
  std::vector<GateLines> heads;
  heads.emplace_back(gated.gate, gated.window, request);
  if (request.minus) heads.emplace_back(gated.subtracted, gated.window, request);

  Image image{request.pixel_rows, request.pixel_columns, {}};
  image.value.resize(static_cast<std::size_t>(image.rows * image.columns));
  const std::int64_t lines = std::clamp<std::int64_t>(kTaskPixels / image.columns, 1, image.rows);
  const auto compute = [&](const Range& pixels) {
    std::vector<double> values(static_cast<std::size_t>(image.columns));
    std::vector<double> subtracted(request.minus ? values.size() : 0);
    for (std::int64_t pixel = pixels.begin; pixel < pixels.end; ++pixel) {
      heads.front().line(pixel, values.data());
      if (request.minus) {
        heads.back().line(pixel, subtracted.data());
        for (std::size_t n = 0; n < values.size(); ++n) values[n] -= subtracted[n];
      }
      std::transform(values.begin(), values.end(), image.value.begin() + pixel * image.columns,
                     [](double value) { return static_cast<float>(value); });
    }
  };
  Team team(job);
  const std::int64_t tasks = (image.rows + lines - 1) / lines;
  const bool done =
      team.run({"computing the map", "pixels", image.rows * image.columns}, tasks, [&](std::int64_t task, int thread) {
        const Range pixels{task * lines, std::min((task + 1) * lines, image.rows)};
        compute(pixels);
        team.advance(pixels.size() * image.columns, thread);
      });
  if (!done) return std::nullopt;
  return image;
}

}  // namespace foxscope
