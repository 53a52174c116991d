#include "app/cli/map_options.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <limits>
#include <set>

#include <fmt/format.h>

#include "backend/base/error.h"

namespace foxscope::cli {
namespace {

std::optional<std::int64_t> parseNumber(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failed != std::errc() || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  for (std::size_t end = text.find(separator); end != std::string::npos; end = text.find(separator, begin)) {
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  parts.push_back(text.substr(begin));
  return parts;
}

// NAME[:LAYER:HEAD]; without numbers the same layer and head of the other model.
HeadOf parseMinus(const std::string& text, const RunFile& run, const HeadOf& head) {
  const auto parts = split(text, ':');
  const auto layer = parts.size() == 3 ? parseNumber(parts[1]) : std::optional<std::int64_t>(head.layer);
  const auto number = parts.size() == 3 ? parseNumber(parts[2]) : std::optional<std::int64_t>(head.head);
  constexpr std::int64_t kMost = std::numeric_limits<int>::max();
  if ((parts.size() != 1 && parts.size() != 3) || parts[0].empty() || !layer || !number || *layer > kMost ||
      *number > kMost) {
    throw UsageError(fmt::format("--minus {}: write NAME, or NAME:LAYER:HEAD as in fox-pro:2:1", text));
  }
  HeadOf minus{run.trace(parts[0]), static_cast<int>(*layer), static_cast<int>(*number)};
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

}  // namespace

MapFormat formatOf(const std::string& output) {
  const std::string ending = std::filesystem::path(output).extension().string();
  if (ending == ".npy") return MapFormat::npy;
  if (ending == ".h5" || ending == ".hdf5") return MapFormat::hdf5;
  if (ending == ".csv") return MapFormat::csv;
  if (ending == ".png") return MapFormat::png;
  if (ending == ".pdf" || ending == ".svg") {
    throw UsageError(fmt::format("{}: maps as {} are not in this version: use .png", output, ending));
  }
  throw UsageError(fmt::format("{}: cannot tell the format from the name: use .npy, .h5, .csv or .png", output));
}

Range parseRange(const std::string& option, const std::string& text, std::int64_t length) {
  if (text.empty()) return {0, length};
  const std::size_t colon = text.find(':');
  const std::string_view view = text;
  const auto begin = colon == 0 ? std::optional<std::int64_t>(0) : parseNumber(view.substr(0, colon));
  const auto end = colon == std::string::npos ? std::nullopt
                   : colon + 1 == text.size() ? std::optional(length)
                                              : parseNumber(view.substr(colon + 1));
  if (!begin || !end) {
    throw UsageError(fmt::format("{} {}: write A:B for the positions from A up to, not including, B", option, text));
  }
  if (*begin >= *end || *end > length) {
    throw UsageError(
        fmt::format("{} {}: use positions with 0 <= A < B <= {}, the text's length", option, text, length));
  }
  return {*begin, *end};
}

PixelSize parseSize(const std::string& text, const Range& rows, const Range& columns, std::int64_t most) {
  if (text.empty()) return {std::min(rows.size(), most), std::min(columns.size(), most)};
  const std::size_t cross = text.find('x');
  const std::string_view view = text;
  const auto height = parseNumber(view.substr(0, cross));
  const auto width = cross == std::string::npos ? std::nullopt : parseNumber(view.substr(cross + 1));
  if (!height || !width) throw UsageError(fmt::format("--size {}: write ROWSxCOLUMNS, as in 512x512", text));
  if (*height < 1 || *width < 1 || *height > rows.size() || *width > columns.size()) {
    throw UsageError(fmt::format("--size {}: the region has {} x {} entries: use from 1x1 to {}x{}", text, rows.size(),
                                 columns.size(), rows.size(), columns.size()));
  }
  return {*height, *width};
}

std::vector<NamedMap> planMaps(const MapOptions& options, const RunFile& run, MapFormat format) {
  const HeadOf head{run.trace(options.model), options.layer, options.head};
  head.trace->check_head(head.layer, head.head);
  const std::int64_t length = head.trace->info().length;
  std::optional<HeadOf> minus;
  if (!options.minus.empty()) minus = parseMinus(options.minus, run, head);

  MapRequest request;
  request.head = head;
  request.minus = minus;
  request.rows = parseRange("--rows", options.rows, length);
  request.columns = parseRange("--cols", options.columns, length);
  const std::int64_t most = format == MapFormat::png ? kPicturePixels : std::numeric_limits<std::int64_t>::max();
  const PixelSize size = parseSize(options.size, request.rows, request.columns, most);
  request.pixel_rows = size.rows;
  request.pixel_columns = size.columns;

  const auto quantities = parseQuantities(options.quantities);
  if (quantities.size() > 1 && format != MapFormat::hdf5) {
    throw UsageError(fmt::format("{}: several quantities fit only into one .h5: ask for one, or name the output .h5",
                                 options.output));
  }
  std::vector<NamedMap> maps;
  for (const Quantity quantity : quantities) {
    request.quantity = quantity;
    request.reduction = options.reduction.empty() ? default_reduction(quantity, minus.has_value())
                                                  : reduction_from_string(options.reduction);
    std::string name = headName(head);
    if (minus) name += "_minus_" + headName(*minus);
    maps.push_back({fmt::format("{}_{}", name, to_string(quantity)), request});
  }
  return maps;
}

}  // namespace foxscope::cli
