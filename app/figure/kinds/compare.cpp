#include "app/figure/kinds/compare.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "app/figure/figure_origin.h"
#include "app/figure/figure_request.h"
#include "app/figure/figure_words.h"
#include "app/figure/kinds/map_scale.h"
#include "app/figure/maps/map_panel.h"
#include "app/figure/page/panel_page.h"
#include "app/figure/quantity_text.h"
#include "backend/base/error.h"
#include "backend/base/index.h"
#include "backend/map/statistics/distance_summary.h"

namespace foxscope::figure {
namespace {

/// Share of the entries of a difference whose sizes the colours tell apart: a few large ones would leave the rest
/// white.
constexpr double kDifferencesShown = 0.95;

std::string differenceLabel(Quantity quantity) { return "Δ " + quantitySymbol(quantity) + ", 5 % beyond"; }

/// A head and how far its distance profile is from the one asked about.
struct Nearest {
  HeadIndex head;
  double octaves = 0;
};

std::optional<Nearest> nearestHead(const HeadOf& head, const RunOnDevice& among, const Job& job) {
  Job quiet = job;
  quiet.report = nullptr;
  const StatisticsOptions options{.with_attention = true, .events = 0};
  (void)head.trace->require_query_key();
  (void)among->require_query_key();
  const auto own = head_statistics(head, options, quiet);
  if (!own) return std::nullopt;
  const ProfileSketch profile = distance_summary(head, *own).sketch;
  std::optional<Nearest> nearest;
  const TraceInfo& info = among->info();
  for (int layer = 0; layer < info.layers; ++layer) {
    for (int index = 0; index < info.mixer(layer).heads; ++index) {
      job.tell({std::int64_t{layer} * info.heads + index, std::int64_t{info.layers} * info.heads, "heads", "matching"});
      const auto other = head_statistics({among, layer, index}, options, quiet);
      if (!other) return std::nullopt;
      const double octaves = octaves_apart(profile, distance_summary({among, layer, index}, *other).sketch);
      if (!nearest || octaves < nearest->octaves) nearest = {{layer, index}, octaves};
    }
  }
  return nearest;
}

/// Panels of one quantity: the two heads with their colour bar, the difference with its own.
struct CompareRow {
  std::array<MapPanel*, 3> maps{};
  ColourBarPanel* shared = nullptr;
  ColourBarPanel* signs = nullptr;
  std::array<MapRequest, 3> requests;
};

class CompareFigure {
 public:
  CompareFigure(std::array<HeadOf, 2> heads, const CompareOptions& options, const FigureStyle& style)
      : m_heads(std::move(heads)), m_options(options), m_style(style), m_page(style) {
    for (std::size_t row = 0; row < options.quantities.size(); ++row) addRow(row);
    m_page.arrange();
  }

  std::optional<std::string> draw(const Job& job) {
    for (CompareRow& row : m_rows) {
      if (!compute(row, job)) return std::nullopt;
    }
    return m_page.paint(origin());
  }

 private:
  void addRow(std::size_t index) {
    const std::int64_t length = m_heads[0].trace->info().length;
    const Range rows = m_options.rows.value_or(Range{0, length});
    const Range columns = m_options.columns.value_or(Range{0, length});
    const bool lowest = index + 1 == m_options.quantities.size();
    const int row = 2 * static_cast<int>(index);
    CompareRow added;
    for (int part = 0; part < 3; ++part) {
      MapPanel::Content content;
      content.rows = {rows, "query *i*", tokenLabels(*m_heads[0].trace, rows, kMostTokenLabels),
                      part == 0 ? AxisShown::ticksAndName : AxisShown::nothing};
      content.columns = {columns, "key *j*", tokenLabels(*m_heads[0].trace, columns, kMostTokenLabels),
                         lowest ? AxisShown::ticksAndName : AxisShown::nothing};
      if (index == 0) {
        content.title = titleOf(part);
        content.titlesBeside = {titleOf(0), titleOf(1), titleOf(2)};
      }
      content.heightOfWidth = mapProportion(rows, columns);
      MapRequest& request = added.requests[index_of(part)];
      request.head = m_heads[part == 1 ? 1 : 0];
      if (part == 2) request.minus = m_heads[1];
      request.quantity = m_options.quantities[index];
      request.reduction = default_reduction(request.quantity, part == 2);
      request.rows = rows;
      request.columns = columns;
      added.maps[index_of(part)] =
          &m_page.add(std::make_unique<MapPanel>(m_style.format, std::move(content)), {row, part});
    }
    added.shared = &m_page.add(std::make_unique<ColourBarPanel>(m_style.format), {row + 1, 0, 1, 2});
    added.signs = &m_page.add(std::make_unique<ColourBarPanel>(m_style.format), {row + 1, 2});
    added.signs->expectLabel(differenceLabel(m_options.quantities[index]));
    m_rows.push_back(std::move(added));
  }

  [[nodiscard]] std::string titleOf(int part) const {
    if (part == 2) {
      if (m_style.letters == PanelLetters::whereSeveral) return "(a) − (b)";
      const auto name = [this](const HeadOf& head) { return m_style.label(head.trace->info().name); };
      if (name(m_heads[0]) != name(m_heads[1])) return fmt::format("{}\n− {}", name(m_heads[0]), name(m_heads[1]));
      return fmt::format("{}:{} − {}:{}", m_heads[0].layer, m_heads[0].head, m_heads[1].layer, m_heads[1].head);
    }
    const HeadOf& head = m_heads[index_of(part)];
    return fmt::format("{}\nlayer\u00a0{}, head\u00a0{}", m_style.label(head.trace->info().name), head.layer,
                       head.head);
  }

  bool compute(CompareRow& row, const Job& job) {
    std::vector<Image> images;
    for (std::size_t part = 0; part < 3; ++part) {
      const PixelRoom pixels = row.maps[part]->pixelsIn(m_page.inner(*row.maps[part]));
      row.requests[part].pixel_rows = pixels.rows;
      row.requests[part].pixel_columns = pixels.columns;
      auto image = compute_map(row.requests[part], job);
      if (!image) return false;
      images.push_back(std::move(*image));
    }
    const ScaledColours shared =
        sharedColours(row.requests[0], std::span(images).first(2),
                      colourChoice(row.requests[0].quantity, m_options.colours, m_options.limits));
    const double most = sizeOfMost(images[2], kDifferencesShown);
    const ScaledColours signs = sharedColours(row.requests[2], std::span(images).last(1),
                                              {signedMap(), {}, most > 0 ? std::optional(most) : std::nullopt, {}});
    row.maps[0]->setImage(std::move(images[0]), shared);
    row.maps[1]->setImage(std::move(images[1]), shared);
    row.maps[2]->setImage(std::move(images[2]), signs);
    row.shared->setColours(shared, row.requests[0].quantity);
    const std::string label =
        most > 0 ? differenceLabel(row.requests[2].quantity) : "Δ " + quantitySymbol(row.requests[2].quantity);
    row.signs->setColours(signs, label, label);
    m_scales.emplace_back(row.requests[0], shared);
    m_scales.emplace_back(row.requests[2], signs);
    return true;
  }

  // In grey print blue and red are one: where grey is asked for, differences go from black over grey to white.
  [[nodiscard]] const ColourMap* signedMap() const { return m_options.colours == &grey() ? &grey() : nullptr; }

  [[nodiscard]] FigureOrigin origin() const {
    FigureOrigin origin;
    origin.title =
        m_style.title.empty() ? fmt::format("{} and {}", headText(m_heads[0]), headText(m_heads[1])) : m_style.title;
    origin.command = m_style.command;
    for (const HeadOf& head : m_heads) origin.facts.emplace_back("head", headText(head));
    for (const auto& [request, colours] : m_scales) addMapFacts(origin, request, colours);
    for (const HeadOf& head : m_heads) addRun(origin, *head.trace);
    return origin;
  }

  std::array<HeadOf, 2> m_heads;
  const CompareOptions& m_options;
  const FigureStyle& m_style;
  PanelPage m_page;
  std::vector<CompareRow> m_rows;
  std::vector<std::pair<MapRequest, ScaledColours>> m_scales;
};

}  // namespace

std::optional<DrawnFigure> drawCompare(const RunOnDevice& first, const RunOnDevice& second,
                                       const CompareOptions& options, const FigureStyle& style, const Job& job) {
  CompareOptions chosen = options;
  DrawnFigure drawn;
  if (auto note = requireSameTokens(*first, *second)) drawn.notes.push_back(std::move(*note));
  if (!chosen.first) {
    auto choice = representativeHeads(first, job);
    if (!choice) return std::nullopt;
    chosen.first = choice->heads.back();
    drawn.notes.push_back(fmt::format("{}: {}:{} has the longest memory; --head chooses another", first->info().name,
                                      chosen.first->layer, chosen.first->head));
  }
  first->check_head(chosen.first->layer, chosen.first->head);
  const HeadOf head{first, chosen.first->layer, chosen.first->head};
  if (!chosen.second) {
    const auto nearest = nearestHead(head, second, job);
    if (!nearest) return std::nullopt;
    chosen.second = nearest->head;
    drawn.notes.push_back(
        fmt::format("{}: {}:{} is nearest to it by distance profile, {:.2g} octaves apart; --with "
                    "chooses another",
                    second->info().name, nearest->head.layer, nearest->head.head, nearest->octaves));
  }
  second->check_head(chosen.second->layer, chosen.second->head);
  if (chosen.quantities.empty()) {
    chosen.quantities = {Quantity::attention};
    if (forgets(first->info(), head.layer) && forgets(second->info(), chosen.second->layer))
      chosen.quantities = {Quantity::forget, Quantity::attention};
  }
  requireShown(chosen.limits, chosen.quantities);
  auto file = CompareFigure({head, {second, chosen.second->layer, chosen.second->head}}, chosen, style).draw(job);
  if (!file) return std::nullopt;
  drawn.file = std::move(*file);
  return drawn;
}

std::optional<DrawnFigure> drawCompare(FigureRequest& request) {
  const FigureSpec& spec = request.spec;
  const auto runs = request.twoRuns();
  if (!runs) return std::nullopt;
  const auto& [first, second] = *runs;
  CompareOptions options;
  options.first = headOf(spec, "head");
  options.second = headOf(spec, "with");
  options.quantities = quantitiesOf(spec);
  options.rows = rangeOf(spec, "rows", first->info().length);
  options.columns = rangeOf(spec, "cols", first->info().length);
  options.colours = coloursOf(spec);
  options.limits = limitsOf(spec);
  return drawCompare(first, second, options, request.style, request.job);
}

}  // namespace foxscope::figure
