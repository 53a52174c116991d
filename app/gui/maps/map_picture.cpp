#include "app/gui/maps/map_picture.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <limits>
#include <stop_token>
#include <utility>

#include "app/gui/maps/picture_shading.h"
#include "backend/base/index.h"
#include "backend/map/map_stages.h"
#include "backend/map/maps_elsewhere.h"
#include "kernels/executor.h"

namespace foxscope::gui {
namespace {

constexpr float kNone = std::numeric_limits<float>::quiet_NaN();
// Samples of a coarse picture. Tiles of queries and keys are 64 x 64 whatever is asked of them, so a sample of 64 rows
// costs no more than one row does.
constexpr std::int64_t kSampledRows = 64;
constexpr std::int64_t kSampledEntries = 1 << 22;
/// At most one row in this many is sampled.
constexpr std::int64_t kSampledShare = 6;
constexpr std::int64_t kFewestLines = 16;
constexpr std::int64_t kMostLines = 64;
constexpr std::int64_t kCoarseColumns = 256;

bool sameHead(const HeadOf& a, const HeadOf& b) { return a.trace == b.trace && a.layer == b.layer && a.head == b.head; }

bool sameHead(const std::optional<HeadOf>& a, const std::optional<HeadOf>& b) {
  return a.has_value() == b.has_value() && (!a || sameHead(*a, *b));
}

/// The bin of `bins` over `range` that holds a position of it, as bin_begin deals them out.
std::int64_t binOf(const Range& range, std::int64_t bins, std::int64_t position) {
  return ((position - range.begin + 1) * bins - 1) / range.size();
}

constexpr std::int64_t kOutside = -1;

/// The same part of the text in a side's run, as far as it was read.
Range placed(const Range& range, const PictureSide& side) {
  if (side.places) return side.places->part(range);
  const std::int64_t end = std::min(range.end, side.covered());
  return range.begin < end ? Range{range.begin, end} : Range{0, 0};
}

/// A raster over the view needs no other positions than the side's own.
bool lies(const View& view, const PictureSide& side) {
  return side.samePositions() && view.rows.end <= side.covered() && view.columns.end <= side.covered();
}

/// For each pixel of a raster over `range`, the pixel of a raster over the side's own part that shows its middle;
/// kOutside where the run has not read so far.
std::vector<std::int64_t> pixelsByPlace(const Range& range, std::int64_t pixels, const PictureSide& side,
                                        std::int64_t otherPixels) {
  const Range other = placed(range, side);
  std::vector<std::int64_t> result;
  for (std::int64_t pixel = 0; pixel < pixels; ++pixel) {
    const std::int64_t middle = (bin_begin(range, pixels, pixel) + bin_begin(range, pixels, pixel + 1) - 1) / 2;
    const auto there = side.position(middle);
    result.push_back(there ? binOf(other, otherPixels, *there) : kOutside);
  }
  return result;
}

/// The same by distance, which the positions of runs do not change.
Image byPlaceOfQuery(const Image& image, const PictureRequest& request, const PictureSide& side,
                     const PixelSize& grid) {
  const auto rows = pixelsByPlace(request.view.rows, grid.rows, side, image.rows);
  Image result{grid.rows, grid.columns, {}};
  result.value.assign(static_cast<std::size_t>(grid.rows * grid.columns), kNone);
  for (std::int64_t line = 0; line < grid.rows && image.columns == grid.columns; ++line) {
    if (rows[index_of(line)] == kOutside) continue;
    std::copy_n(image.value.begin() + rows[index_of(line)] * grid.columns, grid.columns,
                result.value.begin() + line * grid.columns);
  }
  return result;
}

Image byPlace(const Image& image, const PictureRequest& request, const PictureSide& side, const PixelSize& grid) {
  if (request.content.axes == MapAxes::distance) return byPlaceOfQuery(image, request, side, grid);
  const auto rows = pixelsByPlace(request.view.rows, grid.rows, side, image.rows);
  const auto columns = pixelsByPlace(request.view.columns, grid.columns, side, image.columns);
  Image result{grid.rows, grid.columns, {}};
  result.value.reserve(static_cast<std::size_t>(grid.rows * grid.columns));
  for (std::int64_t y = 0; y < grid.rows; ++y) {
    const std::int64_t row = rows[index_of(y)];
    const std::int64_t last = bin_begin(request.view.rows, grid.rows, y + 1) - 1;
    for (std::int64_t x = 0; x < grid.columns; ++x) {
      const std::int64_t column = columns[index_of(x)];
      // Two tokens of the reference run may lie in one of this run: above the diagonal there is still no entry.
      const bool above = bin_begin(request.view.columns, grid.columns, x) > last;
      const bool outside = row == kOutside || column == kOutside || above;
      result.value.push_back(outside ? kNone : image.value[index_of(row * image.columns + column)]);
    }
  }
  return result;
}

/// Rows and columns of the values of a whole raster.
PixelSize gridOf(const PictureRequest& request) {
  if (request.content.axes == MapAxes::distance) {
    return {std::clamp<std::int64_t>(request.pixels.columns, 1, request.view.rows.size()), request.pixels.rows};
  }
  return {std::clamp<std::int64_t>(request.pixels.rows, 1, request.view.rows.size()),
          std::clamp<std::int64_t>(request.pixels.columns, 1, request.view.columns.size())};
}

MapRequest mapRequestOf(const PictureRequest& request, const PictureSide& side) {
  MapRequest map;
  map.head = side.head;
  map.minus = request.content.minus;
  map.quantity = request.content.quantity;
  map.reduction = request.content.reduction;
  map.first_key = request.content.firstKey;
  map.rows = placed(request.view.rows, side);
  map.columns = placed(request.view.columns, side);
  const PixelSize grid = gridOf(request);
  map.pixel_rows = std::min(grid.rows, map.rows.size());
  map.pixel_columns = std::min(grid.columns, map.columns.size());
  if (request.content.axes == MapAxes::distance) {
    map.set_distances(DistanceAxis{request.view.distances, grid.columns}.edges());
  }
  map.skip_tolerance = request.skipTolerance;
  map.shades = request.shades();
  return map;
}

/// The rows that stand for a band of a coarse picture: up to 64 in its middle.
Range sampleOf(const Range& band) {
  const std::int64_t size = std::min(band.size(), kSampledRows);
  const std::int64_t begin = band.begin + (band.size() - size) / 2;
  return {begin, begin + size};
}

/// Each line that is not done shows the values of the nearest one that is, where its own entries exist.
Image filledUp(const MapRequest& map, const MapStage& stage) {
  Image result{stage.image.rows, stage.image.columns, {}};
  result.value.assign(stage.image.value.size(), kNone);
  std::vector<std::int64_t> done;
  for (std::int64_t line = 0; line < result.rows; ++line) {
    if (stage.done[index_of(line)] != 0) done.push_back(line);
  }
  std::size_t nearest = 0;
  for (std::int64_t line = 0; line < result.rows; ++line) {
    while (nearest + 1 < done.size() && done[nearest + 1] - line <= line - done[nearest]) ++nearest;
    const std::int64_t last = bin_begin(map.rows, result.rows, line + 1) - 1;
    const float* const from = stage.image.value.data() + done[nearest] * result.columns;
    float* const to = result.value.data() + line * result.columns;
    const auto exists = [&](std::int64_t x) {
      return map.by_distance() ? map.distances[index_of(x)] <= last + 1
                               : bin_begin(map.columns, result.columns, x) <= last;
    };
    for (std::int64_t x = 0; x < result.columns && exists(x); ++x) to[x] = from[x];
  }
  return result;
}

/// The first lines of the exact map: of linear mixers, whose keys are prepared once for all rows.
std::optional<Image> firstLines(const MapRequest& whole, const Job& job) {
  std::stop_source enough;
  const std::stop_callback outer(job.stop, [&enough] { enough.request_stop(); });
  std::optional<Image> first;
  const auto show = [&](const MapStage& stage) {
    if (std::count(stage.done.begin(), stage.done.end(), 1) * kFewestLines < stage.image.rows) return;
    first = filledUp(whole, stage);
    enough.request_stop();
  };
  auto image =
      compute_map_in_stages(whole, {enough.get_token(), {}, job.executor}, {show, std::chrono::milliseconds(0)});
  if (job.stopped()) return std::nullopt;
  return image ? std::move(image) : std::move(first);
}

/// A raster of few lines, each of them made from a sample of its rows. Lines are dealt out to the threads.
std::optional<Image> sampledLines(const MapRequest& whole, const Job& job) {
  if (!whole.head.trace->info().mixer(whole.head.layer).has_softmax()) return firstLines(whole, job);
  const std::int64_t affordable = std::min(kSampledEntries / (kSampledRows * whole.columns.size()),
                                           whole.rows.size() / (kSampledRows * kSampledShare));
  const std::int64_t lines = std::min(whole.pixel_rows, std::clamp(affordable, kFewestLines, kMostLines));
  const bool byDistance = whole.by_distance();
  Image result{lines, byDistance ? whole.pixel_columns : std::min(whole.pixel_columns, kCoarseColumns), {}};
  result.value.assign(static_cast<std::size_t>(result.rows * result.columns), kNone);
  std::vector<std::exception_ptr> failures(static_cast<std::size_t>(lines));
  const auto compute = [&](std::int64_t n) {
    kernels::ThreadPool alone(1);
    MapRequest line = whole;
    line.rows = sampleOf({bin_begin(whole.rows, lines, n), bin_begin(whole.rows, lines, n + 1)});
    if (line.keys().size() == 0 || line.rows.end <= line.keys().begin) return;
    line.pixel_rows = 1;
    line.pixel_columns = result.columns;
    const auto values = compute_map(line, {job.stop, {}, &alone});
    if (values) std::copy(values->value.begin(), values->value.end(), result.value.begin() + n * result.columns);
  };
  const auto guarded = [&](std::int64_t n, int /*thread*/) {
    try {
      if (!job.stopped()) compute(n);
    } catch (...) {
      failures[index_of(n)] = std::current_exception();
    }
  };
  if (job.executor != nullptr) {
    job.executor->run(lines, guarded);
  } else {
    for (std::int64_t n = 0; n < lines; ++n) guarded(n, 0);
  }
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
  if (job.stopped()) return std::nullopt;
  return result;
}

using Compute = std::function<std::optional<Image>(const MapRequest&, const Job&)>;
/// Whether a raster has a pixel for each of the view's own, or fewer.
enum class Raster { whole, coarse };

std::shared_ptr<MapPicture> uncoloured(const PictureRequest& request, Raster raster, const Compute& compute,
                                       const Job& job) {
  auto picture = std::make_shared<MapPicture>();
  picture->request = request;
  for (const PictureSide& side : request.content.sides) {
    const MapRequest map = mapRequestOf(request, side);
    const bool read = map.rows.size() > 0 && map.columns.size() > 0;
    auto image = read ? compute(map, job) : Image{1, 1, {kNone}};
    if (!image) return nullptr;
    const auto computed = std::make_shared<const Image>(std::move(*image));
    if (picture->values.empty()) {
      picture->computed = map;
      picture->computedValues = computed;
    }
    const PixelSize grid = raster == Raster::whole ? gridOf(request) : PixelSize{computed->rows, computed->columns};
    picture->values.push_back(
        lies(request.view, side) ? computed : std::make_shared<const Image>(byPlace(*computed, request, side, grid)));
  }
  return picture;
}

/// Summary and images, and colours: those of `beside`, or of the picture's own values where that is null.
void finish(MapPicture& picture, const MapPicture* beside, kernels::Executor* executor) {
  const auto summarise = [&] { picture.summary = std::make_shared<const ValueSummary>(summaryOf(picture.values)); };
  std::exception_ptr failure;
  const auto chooseColours = [&] {
    try {
      picture.colours = beside != nullptr ? beside->colours : coloursOf(picture, picture.request.shading);
    } catch (...) {
      failure = std::current_exception();
    }
  };
  if (executor != nullptr) {
    executor->run(2, [&](std::int64_t task, int) { task == 0 ? summarise() : chooseColours(); });
  } else {
    summarise();
    chooseColours();
  }
  if (failure) std::rethrow_exception(failure);
  paint(picture, executor);
}

/// Whether the gate leaves so little of the view that a tolerance saves most of the work. Elsewhere it saves none, and
/// colours that reach below it would cost all of it twice.
bool forgetsMost(const PictureRequest& request) {
  constexpr double kNats = 64;
  const PictureSide& side = request.content.sides.front();
  if (request.content.quantity != Quantity::attention || !forgets(side.head.trace->info(), side.head.layer))
    return false;
  const Range rows = placed(request.view.rows, side);
  const Range columns = placed(request.view.columns, side);
  if (rows.size() <= 0 || columns.size() <= 0) return false;
  const auto c = side.head.trace->cumulative_log_gate(side.head.layer, side.head.head);
  return c[index_of(columns.begin)] - c[index_of(rows.end - 1)] >= kNats;
}

/// Whether entries below the tolerance have another colour than 0 has, by the limits that were chosen or by those that
/// would be: they follow the larger values, none of which may be missing.
bool showsSkipped(const MapPicture& picture) {
  constexpr double kKeptShare = 0.99;
  const double tolerance = picture.request.skipTolerance;
  if (picture.request.shading.scale == figure::ColourScale::linear || tolerance <= 0) return false;
  Shading automatic = picture.request.shading;
  automatic.colours = {};
  const double lowest = std::min(picture.colours.lower, coloursOf(picture, automatic).lower);
  return lowest < tolerance || figure::sizeOfMost(*picture.values.front(), kKeptShare) <= 0;
}

/// Called inside of a task: no other thread may be asked for help. @returns null while there is too little to show
PicturePointer pictureOfStage(const PictureRequest& request, const MapRequest& map, const MapStage& stage) {
  const auto done = std::count(stage.done.begin(), stage.done.end(), 1);
  if (done * kFewestLines < stage.image.rows) return nullptr;
  auto picture = std::make_shared<MapPicture>();
  picture->request = request;
  picture->computed = map;
  picture->computedValues = std::make_shared<const Image>(filledUp(map, stage));
  picture->values = {picture->computedValues};
  finish(*picture, nullptr, nullptr);
  return picture;
}

std::shared_ptr<MapPicture> exactPicture(const PictureRequest& request, const Job& job, const PictureStages& stages) {
  const bool logarithmic = request.shading.scale == figure::ColourScale::logarithmic;
  if (logarithmic && request.skipTolerance > 0 && !forgetsMost(request)) {
    PictureRequest all = request;
    all.skipTolerance = 0;
    return exactPicture(all, job, stages);
  }
  const PictureSide& side = request.content.sides.front();
  const bool followed = stages.show && request.content.sides.size() == 1 && lies(request.view, side);
  const auto compute = [&](const MapRequest& map, const Job& running) {
    if (!followed) return compute_map(map, running);
    const auto show = [&](const MapStage& stage) {
      if (const auto picture = pictureOfStage(request, map, stage)) stages.show(picture);
    };
    return compute_map_in_stages(map, running, {show, stages.interval});
  };
  auto picture = uncoloured(request, Raster::whole, compute, job);
  if (!picture) return nullptr;
  picture->exact = true;
  finish(*picture, nullptr, job.executor);
  if (!showsSkipped(*picture)) return picture;
  PictureRequest all = request;
  all.skipTolerance = 0;
  return exactPicture(all, job, stages);
}

}  // namespace

std::optional<std::int64_t> PictureSide::position(std::int64_t ofReference) const {
  if (places) return (*places)(ofReference);
  return ofReference < covered() ? std::optional(ofReference) : std::nullopt;
}

bool PictureSide::operator==(const PictureSide& other) const { return sameHead(head, other.head); }

bool PictureContent::operator==(const PictureContent& other) const {
  return sides == other.sides && sameHead(minus, other.minus) && quantity == other.quantity &&
         reduction == other.reduction && firstKey == other.firstKey && axes == other.axes;
}

bool PictureContent::hasClosedForm() const {
  const bool gatesOnly = quantity == Quantity::forget || quantity == Quantity::log_forget;
  // The mean over channels is no closed form of one exponential a pair.
  const auto hasChannels = [](const HeadOf& head) { return head.trace->info().mixer(head.layer).decays_by_channel(); };
  const bool channels = quantity == Quantity::forget &&
                        ((minus && hasChannels(*minus)) ||
                         std::ranges::any_of(sides, [&](const PictureSide& side) { return hasChannels(side.head); }));
  return gatesOnly && !channels && (!minus || reduction == Reduction::mean);
}

bool PictureContent::isElsewhere() const {
  return std::ranges::any_of(sides, [&](const PictureSide& side) { return elsewhere(side.head, minus) != nullptr; });
}

std::optional<Shades> PictureRequest::shades() const {
  if (!forColours || !content.isElsewhere()) return std::nullopt;
  return Shades{shading.scale == figure::ColourScale::logarithmic, shading.colours.lower, shading.colours.upper,
                shading.colours.blankBelow};
}

std::int64_t PictureContent::covered() const {
  std::int64_t longest = 0;
  for (const PictureSide& side : sides) longest = std::max(longest, side.covered());
  return longest;
}

float MapPicture::value(std::size_t side, std::int64_t row, std::int64_t column) const {
  const View& view = request.view;
  const bool inside = row >= view.rows.begin && row < view.rows.end && side < values.size();
  if (!inside || column > row) return kNone;
  const Image& image = *values[side];
  const std::int64_t line = binOf(view.rows, image.rows, row);
  if (request.content.axes == MapAxes::distance) {
    const std::int64_t distance = row - column + 1;
    const auto& edges = computed.distances;
    if (distance < edges.front() || distance >= edges.back()) return kNone;
    const auto pixel = std::upper_bound(edges.begin(), edges.end(), distance) - edges.begin() - 1;
    return image.value[index_of(line * image.columns + pixel)];
  }
  if (column < view.columns.begin || column >= view.columns.end) return kNone;
  return image.value[index_of(line * image.columns + binOf(view.columns, image.columns, column))];
}

double MapPicture::tokensPerPixel() const {
  const Image& image = *values.front();
  const double queries = static_cast<double>(request.view.rows.size()) / static_cast<double>(image.rows);
  if (request.content.axes == MapAxes::distance) return queries;
  return std::max(queries, static_cast<double>(request.view.columns.size()) / static_cast<double>(image.columns));
}

bool MapPicture::showsEntries() const { return exact && tokensPerPixel() == 1 && request.content.axes == MapAxes::key; }

std::optional<PicturePointer> makeExactPicture(const PictureRequest& request, const Job& job,
                                               const PictureStages& stages) {
  const auto start = std::chrono::steady_clock::now();
  const auto picture = exactPicture(request, job, stages);
  if (!picture) return std::nullopt;
  picture->milliseconds = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  return picture;
}

std::optional<PicturePointer> makeCoarsePicture(const PictureRequest& request, const PicturePointer& beside,
                                                const Job& job) {
  const auto picture = uncoloured(request, Raster::coarse, &sampledLines, job);
  if (!picture) return std::nullopt;
  finish(*picture, beside.get(), job.executor);
  return picture;
}

bool EntryRequest::operator==(const EntryRequest& other) const {
  return sameHead(head, other.head) && sameHead(minus, other.minus) && quantity == other.quantity &&
         query == other.query && key == other.key && firstKey == other.firstKey;
}

std::optional<EntryRequest> entryAt(const PictureContent& content, std::size_t side, std::int64_t row,
                                    std::int64_t column) {
  const PictureSide& of = content.sides[std::min(side, content.sides.size() - 1)];
  const auto query = of.position(row);
  const auto key = of.position(column);
  if (column > row || !query || !key) return std::nullopt;
  return EntryRequest{of.head, content.minus, content.quantity, *query, *key, content.firstKey};
}

std::optional<float> entryValue(const EntryRequest& entry, const Job& job) {
  MapRequest request;
  request.head = entry.head;
  request.minus = entry.minus;
  request.quantity = entry.quantity;
  request.first_key = entry.firstKey;
  request.rows = {entry.query, entry.query + 1};
  request.columns = {entry.key, entry.key + 1};
  request.pixel_rows = 1;
  request.pixel_columns = 1;
  const auto image = compute_map(request, job);
  return image ? std::optional(image->value.front()) : std::nullopt;
}

PicturePointer recoloured(const MapPicture& picture, const Shading& shading) {
  auto result = std::make_shared<MapPicture>(picture);
  result->request.shading = shading;
  result->colours = coloursOf(*result, shading);
  paint(*result, nullptr);
  return result;
}

}  // namespace foxscope::gui
