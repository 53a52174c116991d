#include "app/cli/map_options.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <limits>
#include <set>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "app/cli/values.h"
#include "app/figure/figure_kind.h"
#include "app/figure/figure_length.h"
#include "app/figure/figure_words.h"
#include "app/figure/maps/map_figure.h"
#include "app/figure/maps/map_layout.h"
#include "backend/base/error.h"
#include "backend/file/map_file.h"

namespace foxscope::cli {
namespace {

// Reads a whole number from 0; false for anything else.
template <typename Number>
bool parseNumber(std::string_view text, Number& value) {
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
  return failed == std::errc() && end == text.data() + text.size() && value >= 0;
}

// NAME[:LAYER:HEAD]; without numbers the same layer and head of the other model.
HeadOf parseMinus(const std::string& text, const RunFile& run, const HeadOf& head) {
  const auto parts = split(text, ':');
  HeadOf minus = head;
  const bool valid = parts.size() == 1 ||
                     (parts.size() == 3 && parseNumber(parts[1], minus.layer) && parseNumber(parts[2], minus.head));
  if (!valid || parts[0].empty()) {
    throw UsageError(fmt::format("--minus {}: write NAME, or NAME:LAYER:HEAD as in fox-pro:2:1", text));
  }
  minus.trace = run.trace(parts[0]);
  minus.trace->check_head(minus.layer, minus.head);
  return minus;
}

std::string headName(const HeadOf& head) {
  return fmt::format("{}_L{:02}_H{:02}", head.trace->info().name, head.layer, head.head);
}

std::vector<Quantity> parseQuantities(const std::string& text) {
  std::vector<Quantity> quantities;
  std::set<Quantity> seen;
  for (const std::string& word : split(text, ',')) {
    quantities.push_back(quantity_from_string(word));
    if (!seen.insert(quantities.back()).second) {
      throw UsageError(fmt::format("--quantity {}: {} stands there twice: leave one out", text, word));
    }
  }
  return quantities;
}

Range distancesOf(const MapOptions& options, std::int64_t end) {
  if (options.distances.starts_with("0:")) {
    throw UsageError(
        fmt::format("--distances {}: begin at 1: i - j + 1 of a query and itself is 1", options.distances));
  }
  return figure::parseRange("--distances", options.distances, {1, end + 1}, "distances", "which the last query has");
}

/// Every distance alone, or as many bins as are asked for that hold distances; a picture has a row for each of its
/// pixels.
std::vector<std::int64_t> distanceEdges(const Range& distances, std::int64_t rows, MapFormat format) {
  if (!isPicture(format) && rows == distances.size()) return single_distances(distances);
  std::vector<std::int64_t> edges = DistanceAxis{distances, rows}.edges();
  return isPicture(format) ? edges : distinct(std::move(edges));
}

// A picture without --size gets a pixel for every dot that it has room for.
MapSize pixelSize(const MapOptions& options, const MapRequest& request, MapFormat format) {
  constexpr std::int64_t kAny = std::numeric_limits<std::int64_t>::max();
  const Range& down = figure::upRange(request);
  const Range& across = figure::acrossRange(request);
  if (!isPicture(format)) return parseSize(options.size, down, across, {kAny, kAny});
  const figure::PixelRoom room = figure::mapRoom(request, figureFormat(options, format));
  MapSize size = parseSize(options.size, down, across, {room.rows, room.columns});
  // Pixels within one distance repeat it.
  if (request.by_distance() && options.size.empty()) size.rows = room.rows;
  if (std::max(size.rows, size.columns) > kMostPicturePixels) {
    throw UsageError(fmt::format("--size {}: a picture has at most {} pixels on a side: choose a smaller size, or .npy",
                                 options.size, kMostPicturePixels));
  }
  if (format == MapFormat::png && (size.rows > room.rows || size.columns > room.columns)) {
    throw UsageError(
        fmt::format("--size {}: this .png has room for {}x{} pixels: choose a smaller size, more --width or "
                    "--dpi, or .pdf or .svg",
                    options.size, room.rows, room.columns));
  }
  return size;
}

}  // namespace

figure::HeadIndex headOf(const MapOptions& options) {
  if (options.head.find(':') != std::string::npos) {
    if (!options.layer.empty()) {
      throw UsageError(fmt::format("--layer {}: --head {} names the layer: leave it out", options.layer, options.head));
    }
    return figure::parseHead("--head", options.head);
  }
  int layer = 0;
  int head = 0;
  if (!options.layer.empty() && !parseNumber(options.layer, layer)) {
    throw UsageError(fmt::format("--layer {}: is no number: write --head LAYER:HEAD, as in 2:1", options.layer));
  }
  if (!options.layer.empty() && parseNumber(options.head, head)) return {layer, head};
  throw UsageError(fmt::format("--head {}: write LAYER:HEAD, as in 2:1: see foxscope map --help", options.head));
}

MapFormat formatOf(const MapOptions& options) {
  const std::string ending =
      options.format.empty() ? std::filesystem::path(options.output).extension().string() : '.' + options.format;
  if (ending == ".npy") return MapFormat::npy;
  if (ending == ".h5" || ending == ".hdf5") {
    if (options.format.empty()) return MapFormat::hdf5;
    throw UsageError("--format h5: HDF5 is written into a file alone: name the output .h5");
  }
  if (ending == ".csv") return MapFormat::csv;
  if (ending == ".png") return MapFormat::png;
  if (ending == ".svg") return MapFormat::svg;
  if (ending == ".pdf") return MapFormat::pdf;
  if (!options.format.empty()) {
    throw UsageError(fmt::format("--format {}: use npy, csv, png, svg or pdf", options.format));
  }
  throw UsageError(fmt::format(
      "{}: cannot tell the format from the name: use .npy, .h5, .csv, .png, .svg or .pdf, or say it by --format",
      options.output));
}

bool isPicture(MapFormat format) {
  return format == MapFormat::png || format == MapFormat::svg || format == MapFormat::pdf;
}

figure::FigureFormat figureFormat(const MapOptions& options, MapFormat format) {
  using Kind = figure::FigureFormat::Kind;
  figure::FigureFormat picture;
  picture.kind = format == MapFormat::pdf ? Kind::pdf : format == MapFormat::svg ? Kind::svg : Kind::png;
  if (options.width) picture.widthMm = figure::parseLength("--width", *options.width);
  if (options.dpi) picture.dpi = *options.dpi;
  if (options.fontSize) picture.fontSizePt = *options.fontSize;
  figure::requireValid(picture);
  return picture;
}

void requireNoPictureOptions(const MapOptions& options) {
  const std::pair<const char*, bool> given[] = {
      {"--scale", options.scale != "auto"},         {"--limits", !options.limits.empty()},
      {"--colours", !options.colours.empty()},      {"--threshold", options.threshold.has_value()},
      {"--title", !options.title.empty()},          {"--plain", options.plain},
      {"--width", options.width.has_value()},       {"--dpi", options.dpi.has_value()},
      {"--font-size", options.fontSize.has_value()}};
  for (const auto& [name, isGiven] : given) {
    if (!isGiven) continue;
    throw UsageError(fmt::format("{}: {} holds numbers, not a picture: leave the option out", name, options.output));
  }
}

void addUnchecked(CLI::App& command, RunCheck& check) {
  command.add_flag_callback(
      "--unchecked", [&check] { check = RunCheck::none; }, figure::kUncheckedHelp);
}

void noteUnchecked(Console& console, const std::string& file, RunCheck check) {
  if (check == RunCheck::none) {
    console.note(fmt::format("{}: opened unchecked: its arrays may contradict one another", file));
  }
}

MapSize parseSize(const std::string& text, const Range& rows, const Range& columns, const MapSize& most) {
  if (text.empty()) return {std::min(rows.size(), most.rows), std::min(columns.size(), most.columns)};
  const std::size_t cross = text.find('x');
  const std::string_view view = text;
  MapSize size;
  if (cross == std::string::npos || !parseNumber(view.substr(0, cross), size.rows) ||
      !parseNumber(view.substr(cross + 1), size.columns)) {
    throw UsageError(fmt::format("--size {}: write ROWSxCOLUMNS, as in 512x512", text));
  }
  if (size.rows < 1 || size.columns < 1 || size.rows > rows.size() || size.columns > columns.size()) {
    throw UsageError(fmt::format("--size {}: the region has {} x {} entries: use from 1x1 to {}x{}", text, rows.size(),
                                 columns.size(), rows.size(), columns.size()));
  }
  return size;
}

MapAxes axesOf(const MapOptions& options) {
  const MapAxes axes = options.axes.empty() ? MapAxes::key : axes_from_string(options.axes);
  if (axes == MapAxes::distance && !options.columns.empty()) {
    throw UsageError("--cols: a map by distance has no axis of keys: use --distances");
  }
  if (axes == MapAxes::key && !options.distances.empty()) {
    throw UsageError("--distances: a map has an axis of distances with --axes distance");
  }
  return axes;
}

std::vector<NamedMap> planMaps(const MapOptions& options, const RunFile& run, MapFormat format,
                               std::optional<int> gpu) {
  const figure::HeadIndex chosen = headOf(options);
  const HeadOf head{{run.trace(options.model), gpu}, chosen.layer, chosen.head};
  head.trace->check_head(head.layer, head.head);
  const std::int64_t length = head.trace->info().length;
  std::optional<HeadOf> minus;
  if (!options.minus.empty()) minus = parseMinus(options.minus, run, head);

  MapRequest request;
  request.head = head;
  request.minus = minus;
  request.rows = figure::parseRange("--rows", options.rows, length);
  const bool byDistance = axesOf(options) == MapAxes::distance;
  if (byDistance) {
    // The size of the map depends on these distances.
    const Range distances = distancesOf(options, request.rows.end);
    request.set_distances({distances.begin, distances.end});
  } else {
    request.columns = figure::parseRange("--cols", options.columns, length);
  }
  const auto quantities = parseQuantities(options.quantities);
  if (quantities.size() > 1 && format != MapFormat::hdf5) {
    throw UsageError(fmt::format("{}: several quantities fit only into one .h5: ask for one, or name the output .h5",
                                 options.output));
  }
  request.quantity = quantities.front();
  request.channel = options.channel;
  if (options.withoutFirst) request.first_key = FirstKey::left_out;
  const MapSize size = pixelSize(options, request, format);
  request.pixel_rows = byDistance ? size.columns : size.rows;
  if (byDistance) {
    request.set_distances(distanceEdges(request.columns, size.rows, format));
  } else {
    request.pixel_columns = size.columns;
  }

  std::vector<NamedMap> maps;
  for (const Quantity quantity : quantities) {
    request.quantity = quantity;
    request.reduction = options.reduction.empty() ? default_reduction(quantity, minus.has_value())
                                                  : reduction_from_string(options.reduction);
    std::string name = headName(head);
    if (options.channel) name += fmt::format("_C{:02}", *options.channel);
    if (byDistance) name += "_by_distance";
    if (minus) name += "_minus_" + headName(*minus);
    maps.push_back({fmt::format("{}_{}", name, to_string(quantity)), request});
  }
  return maps;
}

}  // namespace foxscope::cli
