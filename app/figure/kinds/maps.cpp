#include "app/figure/kinds/maps.h"

#include <algorithm>

#include <fmt/format.h>

#include "app/figure/figure_origin.h"
#include "app/figure/figure_request.h"
#include "app/figure/figure_words.h"
#include "app/figure/kinds/map_scale.h"
#include "app/figure/maps/map_panel.h"
#include "app/figure/page/panel_page.h"
#include "backend/base/error.h"
#include "backend/base/index.h"
#include "backend/trace/mixer_text.h"

namespace foxscope::figure {
namespace {

constexpr double kLeastColumn = 5.5;  ///< width of a head's column, font sizes, below which the heads take more rows

/// Columns for so many heads, of those that fit: rows of one length, or at least no head alone in the last.
int columnsFor(int heads, int fitting) {
  const int rows = (heads + fitting - 1) / fitting;
  const int even = (heads + rows - 1) / rows;
  for (int columns = even; columns > 1; --columns) {
    if (heads % columns != 1) return columns;
  }
  return heads <= 3 ? 1 : even;
}

/// One map of the page.
struct PlacedMap {
  MapPanel* panel = nullptr;
  MapRequest request;
};

/// The panels of a figure of maps, then their images.
class MapsFigure {
 public:
  /// @param options  each head with its run
  /// @param cropped  whether the positions were chosen for the heads, as a title then says
  MapsFigure(const MapsOptions& options, const FigureStyle& style, bool cropped)
      : m_trace(options.heads.front().run),
        m_options(options),
        m_style(style),
        m_titled(titled(style, options, cropped)),
        m_page(m_titled) {
    for (const MapsHead& head : options.heads) {
      if (std::find(m_runs.begin(), m_runs.end(), head.run) == m_runs.end()) m_runs.push_back(head.run);
    }
    const std::int64_t length = m_trace->info().length;
    m_rows = options.rows.value_or(Range{0, length});
    m_columns = options.columns.value_or(Range{0, length});
    if (options.axes == MapAxes::distance) m_distances = {1, m_rows.end + 1};
    addPanels();
    m_page.arrange();
  }

  std::optional<std::string> draw(const Job& job) {
    for (std::size_t quantity = 0; quantity < m_options.quantities.size(); ++quantity) {
      if (!compute(quantity, job)) return std::nullopt;
    }
    return m_page.paint(origin());
  }

 private:
  static FigureStyle titled(const FigureStyle& style, const MapsOptions& options, bool cropped) {
    FigureStyle named = style;
    const std::int64_t length = options.heads.front().run->info().length;
    if (cropped && style.title.empty() && options.columns->end < length) {
      named.title = "The " + firstPositions(*options.columns, length);
    }
    return named;
  }

  void addPanels() {
    const double font = fontSize(m_style.format);
    const auto heads = static_cast<int>(m_options.heads.size());
    const double room = widthInPoints(m_style.format) - 9 * font;
    m_across = columnsFor(heads, std::max(1, static_cast<int>(room / (kLeastColumn * font))));
    const int blocks = (heads + m_across - 1) / m_across;
    m_maps.resize(m_options.quantities.size());
    m_bars.resize(m_options.quantities.size());
    for (int index = 0; index < heads; ++index) addHead(index);
    const auto quantities = static_cast<int>(m_options.quantities.size());
    for (int row = 0; row < blocks * quantities; ++row) {
      const auto quantity = static_cast<std::size_t>(row % quantities);
      const double labels = barLabelRoom(m_maps[quantity].front().request);
      m_bars[quantity].push_back(
          &m_page.add(std::make_unique<ColourBarPanel>(m_style.format, labels), {row, m_across}));
    }
  }

  void addHead(int index) {
    const MapsHead& head = m_options.heads[index_of(index)];
    const auto quantities = static_cast<int>(m_options.quantities.size());
    const int heads = static_cast<int>(m_options.heads.size());
    for (int below = 0; below < quantities; ++below) {
      const PanelPlace place{index / m_across * quantities + below, index % m_across};
      // The names of the axes stand where no other map follows.
      const bool lowest = below == quantities - 1;
      const bool lowestOfAll = lowest && index + m_across >= heads;
      MapPanel::Content content;
      content.rows = m_distances ? MapAxis{*m_distances, "distance *i* − *j* + 1", {}} : axisOf(m_rows, "query *i*");
      content.rows.ofDistances = m_distances.has_value();
      content.rows.shown = place.column == 0 ? AxisShown::ticksAndName : AxisShown::nothing;
      content.columns = m_distances ? axisOf(m_rows, "query *i*") : axisOf(m_columns, "key *j*");
      content.columns.shown = lowestOfAll ? AxisShown::ticksAndName : lowest ? AxisShown::ticks : AxisShown::nothing;
      content.title = below == 0 ? titleOf(head) : "";
      if (below == 0) {
        for (const MapsHead& beside : m_options.heads) content.titlesBeside.push_back(titleOf(beside));
      }
      content.heightOfWidth = m_distances ? kDistanceProportion : mapProportion(m_rows, m_columns);
      const Quantity quantity = m_options.quantities[index_of(below)];
      PlacedMap map;
      map.panel = &m_page.add(std::make_unique<MapPanel>(m_style.format, std::move(content)), place);
      map.request.head = {head.run, head.layer, head.head};
      map.request.quantity = quantity;
      map.request.reduction = default_reduction(quantity, false);
      map.request.rows = m_rows;
      map.request.columns = m_columns;
      m_maps[index_of(below)].push_back(map);
    }
  }

  [[nodiscard]] std::string titleOf(const MapsHead& head) const {
    if (m_runs.size() == 1) return fmt::format("Layer\u00a0{}, head\u00a0{}", head.layer, head.head);
    return fmt::format("{}\nlayer\u00a0{}, head\u00a0{}", m_style.label(head.run->info().name), head.layer, head.head);
  }

  [[nodiscard]] MapAxis axisOf(const Range& range, const std::string& name) const {
    return {range, name, tokenLabels(*m_trace, range, kMostTokenLabels)};
  }

  // Every map of a quantity, in colours that they share.
  bool compute(std::size_t quantity, const Job& job) {
    std::vector<PlacedMap>& maps = m_maps[quantity];
    std::vector<Image> images;
    for (PlacedMap& map : maps) {
      const PixelRoom pixels = map.panel->pixelsIn(m_page.inner(*map.panel));
      map.request.pixel_rows = m_distances ? pixels.columns : pixels.rows;
      map.request.pixel_columns = pixels.columns;
      if (m_distances) map.request.set_distances(DistanceAxis{*m_distances, pixels.rows}.edges());
      auto image = compute_map(map.request, job);
      if (!image) return false;
      images.push_back(m_distances ? drawn_by_distance(*image) : std::move(*image));
    }
    const Quantity shown = maps.front().request.quantity;
    ColourChoice choice = colourChoice(shown, m_options.colours, m_options.limits);
    choice.blankBelow = thresholdOf(shown);
    const ScaledColours colours = sharedColours(maps.front().request, images, choice);
    for (std::size_t index = 0; index < maps.size(); ++index) {
      maps[index].panel->setImage(std::move(images[index]), colours);
    }
    for (ColourBarPanel* bar : m_bars[quantity]) bar->setColours(colours, maps.front().request.quantity);
    m_scales.push_back(colours);
    return true;
  }

  [[nodiscard]] std::optional<double> thresholdOf(Quantity quantity) const {
    return quantity == Quantity::forget ? std::nullopt : m_options.threshold;
  }

  [[nodiscard]] FigureOrigin origin() const {
    FigureOrigin origin;
    std::string names;
    for (const auto& run : m_runs) names += (names.empty() ? "" : ", ") + run->info().name;
    origin.title = m_style.title.empty() ? fmt::format("Maps of {}", names) : m_style.title;
    origin.command = m_style.command;
    for (const MapsHead& head : m_options.heads) {
      origin.facts.emplace_back("head", headText({head.run, head.layer, head.head}));
    }
    for (std::size_t quantity = 0; quantity < m_scales.size(); ++quantity) {
      addMapFacts(origin, m_maps[quantity].front().request, m_scales[quantity]);
    }
    for (const auto& run : m_runs) addRun(origin, *run);
    return origin;
  }

  RunOnDevice m_trace;              ///< that names positions
  std::vector<RunOnDevice> m_runs;  ///< each once
  const MapsOptions& m_options;
  const FigureStyle& m_style;
  const FigureStyle m_titled;
  PanelPage m_page;
  Range m_rows;
  Range m_columns;
  std::optional<Range> m_distances;  ///< absent: axes of keys
  int m_across = 1;
  std::vector<std::vector<PlacedMap>> m_maps;  ///< [quantity][head]
  std::vector<std::vector<ColourBarPanel*>> m_bars;
  std::vector<ScaledColours> m_scales;
};

/// Heads of a run, and the positions that fit them where none are asked for. Nothing if the job was stopped.
std::optional<ChosenHeads> chooseHeads(const RunOnDevice& trace, MapsOptions& options, const Job& job) {
  if (!forgets(trace->info()) || options.axes != MapAxes::key) return representativeHeads(trace, job);
  const Range all{0, trace->info().length};
  std::optional<MapRegion> asked;
  if (options.rows || options.columns) asked = {options.rows.value_or(all), options.columns.value_or(all)};
  auto map = headsOnMap(trace, asked, job);
  if (!map) return std::nullopt;
  options.rows = map->region.rows;
  options.columns = map->region.columns;
  return std::move(map->chosen);
}

/// Axes that show the memory of every head.
MapAxes axesFor(const MapsOptions& options) {
  const std::int64_t tokens = options.rows ? options.rows->size() : options.heads.front().run->info().length;
  const bool thin = std::ranges::any_of(options.heads, [&](const MapsHead& head) {
    return std::ranges::any_of(options.quantities, [&](Quantity quantity) {
      return default_axes(quantity, {head.run, head.layer, head.head}, tokens) == MapAxes::distance;
    });
  });
  return thin ? MapAxes::distance : MapAxes::key;
}

std::string noteOfUngated(const TraceInfo& info) {
  return fmt::format(
      "{}: without a gate F is 1 everywhere{}, so it is left out: --quantity forget,attention draws it all the same",
      info.name, has_windows(info) ? " inside the windows" : "");
}

/// "L:H", or "MODEL:L:H".
MapsHead parseMapsHead(const std::string& text, const FigureRequest& request, const FigureRequest::Runs& runs) {
  const std::size_t last = text.rfind(':');
  const std::size_t before = last == std::string::npos || last == 0 ? last : text.rfind(':', last - 1);
  if (last == 0 || before == std::string::npos) return {parseHead("--heads", text)};
  return {parseHead("--heads", text.substr(before + 1)), request.named(runs, "--heads", text.substr(0, before))};
}

}  // namespace

std::optional<DrawnFigure> drawMaps(const RunOnDevice& trace, const MapsOptions& options, const FigureStyle& style,
                                    const Job& job) {
  DrawnFigure drawn;
  MapsOptions chosen = options;
  bool gated = chosen.heads.empty() && forgets(trace->info());
  for (MapsHead& head : chosen.heads) {
    if (head.run.trace == nullptr) head.run = trace;
    head.run->check_head(head.layer, head.head);
    auto note = requireSameTokens(*chosen.heads.front().run, *head.run);
    if (note && std::ranges::find(drawn.notes, *note) == drawn.notes.end()) drawn.notes.push_back(std::move(*note));
    gated = gated || forgets(head.run->info(), head.layer);
  }
  if (chosen.quantities.empty()) {
    chosen.quantities = {Quantity::forget, Quantity::attention};
    if (!gated) {
      chosen.quantities = {Quantity::attention};
      drawn.notes.push_back(noteOfUngated(chosen.heads.empty() ? trace->info() : chosen.heads.front().run->info()));
    }
  }
  requireShown(chosen.limits, chosen.quantities);
  if (chosen.heads.empty()) {
    auto choice = chooseHeads(trace, chosen, job);
    if (!choice) return std::nullopt;
    for (const HeadIndex& head : choice->heads) chosen.heads.push_back({head, trace});
    drawn.notes.push_back(std::move(choice->note));
  }
  if (!chosen.axes) chosen.axes = axesFor(chosen);
  if (chosen.axes == MapAxes::distance && chosen.columns) {
    throw UsageError("--cols: maps by distance have no axis of keys: leave it out, or use --axes key");
  }
  auto file = MapsFigure(chosen, style, /*cropped=*/!options.columns && chosen.columns).draw(job);
  if (!file) return std::nullopt;
  drawn.file = std::move(*file);
  return drawn;
}

std::optional<DrawnFigure> drawMaps(FigureRequest& request) {
  const FigureSpec& spec = request.spec;
  const auto opened = request.runs();
  if (!opened) return std::nullopt;
  const FigureRequest::Runs& runs = *opened;
  MapsOptions options;
  for (const std::string& text : spec.list("heads")) options.heads.push_back(parseMapsHead(text, request, runs));
  const auto named = [](const MapsHead& head) { return head.run.trace != nullptr; };
  // Where every head says whose it is, there is nothing to choose.
  const bool allNamed = !options.heads.empty() && std::ranges::all_of(options.heads, named);
  const auto run = allNamed && !spec.has("model") ? options.heads.front().run : request.run(runs);
  if (spec.has("quantity")) options.quantities = quantitiesOf(spec);
  options.rows = rangeOf(spec, "rows", run->info().length);
  options.columns = rangeOf(spec, "cols", run->info().length);
  if (spec.has("axes")) {
    enum class Words { key, distance, automatic };
    const auto word = choiceOf<Words>(spec, "axes", {"key", "distance", "auto"});
    options.axes = word == Words::key ? MapAxes::key : MapAxes::distance;
    if (word == Words::automatic) options.axes = options.columns ? std::optional(MapAxes::key) : std::nullopt;
  }
  options.threshold = numberOf(spec, "threshold");
  options.colours = coloursOf(spec);
  options.limits = limitsOf(spec);
  return drawMaps(run, options, request.style, request.job);
}

}  // namespace foxscope::figure
