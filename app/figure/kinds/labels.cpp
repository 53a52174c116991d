#include "app/figure/kinds/labels.h"

#include <algorithm>
#include <string>

#include <fmt/format.h>

#include "app/figure/figure_request.h"
#include "app/figure/heads/head_labels_panel.h"
#include "app/figure/kinds/evaluated_heads.h"
#include "app/figure/page/panel_page.h"
#include "backend/base/error.h"
#include "backend/base/index.h"

namespace foxscope::figure {
namespace {

// The largest cell in font sizes.
constexpr double kLargestCell = 2.2;
constexpr double kLeastBeside = 1.5;  ///< where the legend stands beside the grids
constexpr double kLegend = 13;        ///< beside the grids it is at least so wide
constexpr double kBesideGrid = 5;     ///< numbers and name of an axis, and the gap to the next grid
constexpr double kHighOfWide = 1.1;   ///< the grids, of the page's width

const HeadArray& scoresOf(const EvaluatedHeads& model, HeadLabel label) {
  const std::string name = std::string("label_") + text_of(label).key;
  const HeadArray* const found = find_array(model.numbers, name);
  if (found != nullptr) return *found;
  throw Error(
      fmt::format("model '{}': the scores of labels are not known: use a run that kept gates,rows,qk, or a file made "
                  "anew by `foxscope eval heads` or `foxscope heads -o`",
                  model.info.name));
}

std::vector<std::optional<HeadLabel>> strongestLabels(const EvaluatedHeads& model) {
  std::vector<LabelScores> scores(model.head_count(), no_label_scores());
  for (int n = 0; n < kHeadLabels; ++n) {
    const HeadArray& array = scoresOf(model, static_cast<HeadLabel>(n));
    for (std::size_t head = 0; head < scores.size(); ++head) {
      scores[head][index_of(n)] = array.value[head];
    }
  }
  std::vector<std::optional<HeadLabel>> strongest;
  for (const LabelScores& each : scores) {
    const std::vector<HeadLabel> labels = labels_of(each);
    strongest.push_back(labels.empty() ? std::nullopt : std::optional(labels.front()));
  }
  return strongest;
}

/// Where the legend goes, and how large cells are then, points.
struct LabelsLayout {
  bool beside = false;
  double cell = 0;
};

LabelsLayout labelsLayoutOf(std::span<const EvaluatedHeads> models, const FigureFormat& format) {
  const double font = fontSize(format);
  double heads = 0;
  double layers = 0;
  for (const EvaluatedHeads& model : models) {
    heads += model.info.heads;
    layers = std::max(layers, static_cast<double>(model.info.layers));
  }
  const double room = widthInPoints(format) - kBesideGrid * font * static_cast<double>(models.size());
  const double most = std::min(kLargestCell * font, kHighOfWide * widthInPoints(format) / layers);
  const double beside = (room - kLegend * font) / heads;
  if (beside >= std::min(most, kLeastBeside * font)) return {true, std::min(most, beside)};
  return {false, std::min(most, room / heads)};
}

}  // namespace

DrawnFigure drawLabels(std::span<const EvaluatedHeads> models, const FigureStyle& style) {
  const LabelsLayout placed = labelsLayoutOf(models, style.format);
  PanelPage page(style);
  int column = 0;
  for (const EvaluatedHeads& model : models) {
    std::vector<int> headsOf;
    for (int layer = 0; layer < model.info.layers; ++layer) headsOf.push_back(model.info.mixer(layer).heads);
    HeadLabelsPanel::Content content{model.info.layers,
                                     model.info.heads,
                                     strongestLabels(model),
                                     std::move(headsOf),
                                     models.size() > 1 ? style.label(model.info.name) : "",
                                     placed.cell};
    page.add(std::make_unique<HeadLabelsPanel>(style.format, std::move(content)), {0, column++});
  }
  page.add(std::make_unique<LabelLegendPanel>(style.format),
           placed.beside ? PanelPlace{0, column} : PanelPlace{1, 0, 1, column});
  page.arrange();
  DrawnFigure drawn;
  drawn.file = page.paint(originOf(models, style, "Labels of heads"));
  std::int64_t length = 0;
  for (const EvaluatedHeads& model : models) length = std::max(length, model.info.length);
  drawn.notes.push_back(fmt::format(
      "labels are of {} tokens: scores depend on the length, and of another one a head may have others", length));
  return drawn;
}

std::optional<DrawnFigure> drawLabels(FigureRequest& request) {
  const auto models = request.chosenHeads();
  return models ? std::optional(drawLabels(*models, request.style)) : std::nullopt;
}

}  // namespace foxscope::figure
