#include "backend/map/forget_map.h"

#include <algorithm>
#include <vector>

#include "backend/map/head_entries.h"
#include "backend/map/statistics/bins.h"
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
  std::vector<double> zeros;
  std::int64_t window = window_of(request.head.trace->info(), request.head.layer);
  if (request.minus) window = common_window(window, window_of(request.minus->trace->info(), request.minus->layer));
  std::vector<GateLines> heads;
  heads.emplace_back(gate_of(request.head, request.channel, zeros), window, request);
  std::vector<double> other_zeros;
  if (request.minus) heads.emplace_back(gate_of(*request.minus, request.channel, other_zeros), window, request);

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
