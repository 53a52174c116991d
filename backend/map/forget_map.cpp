#include "backend/map/forget_map.h"

#include <algorithm>
#include <vector>

#include "backend/map/bins.h"
#include "backend/map/gate_lines.h"
#include "backend/map/team.h"

namespace foxscope {
namespace {

/// Pixels that one task computes: below 0.2 s by far, and enough to be worth a task.
constexpr std::int64_t kTaskPixels = 1 << 16;

/// c of a head; zeros, kept in `zeros`, where it has no gate.
std::span<const double> gate_of(const HeadOf& head, std::vector<double>& zeros) {
  const TraceInfo& info = head.trace->info();
  if (info.gated) return head.trace->cumulative_log_gate(head.layer, head.head);
  zeros.assign(static_cast<std::size_t>(info.length), 0.0);
  return zeros;
}

}  // namespace

bool has_closed_form(const MapRequest& request) {
  if (request.quantity != Quantity::forget && request.quantity != Quantity::log_forget) return false;
  return !request.minus || request.reduction == Reduction::mean;
}

std::optional<Image> forget_map(const MapRequest& request, const Job& job) {
  std::vector<double> zeros;
  std::int64_t window = request.head.trace->info().window_size;
  if (request.minus) window = common_window(window, request.minus->trace->info().window_size);
  std::vector<GateLines> heads;
  heads.emplace_back(gate_of(request.head, zeros), window, request);
  std::vector<double> other_zeros;
  if (request.minus) heads.emplace_back(gate_of(*request.minus, other_zeros), window, request);

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
