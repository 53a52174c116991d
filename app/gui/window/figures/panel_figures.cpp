#include "app/gui/window/figures/panel_figures.h"

#include <algorithm>
#include <vector>

#include <QDir>
#include <QFileInfo>

#include "app/figure/figure_parts.h"
#include "backend/agent/remote_path.h"

namespace foxscope::gui {
namespace {

figure::FigureSpec withStyle(const figure::FigurePart& panel, const figure::FigureStyle& style) {
  figure::FigureSpec spec = panel.spec;
  addStyle(*figure::findFigureKind(spec.kind), style, spec);
  return spec;
}

}  // namespace

std::optional<figure::DrawnFigure> drawPanels(const ShownPanels& panels, const figure::FigureStyle& style,
                                              const Job& job) {
  if (areOne(panels)) {
    const figure::FigurePart& panel = panels[0][0];
    const figure::FigureSources sources{.files = panel.files};
    figure::FigureRequest request{panel.spec, sources, style, job};
    return figure::findFigureKind(panel.spec.kind)->draw(request);
  }
  std::vector<std::vector<figure::PartRequest>> rows;
  for (const auto& row : panels) {
    auto& parts = rows.emplace_back();
    for (const figure::FigurePart& panel : row) {
      parts.push_back({figure::findFigureKind(panel.spec.kind), panel.spec, {.files = panel.files}, panel.share});
      // A part has the format of its page, and says one all the same.
      parts.back().spec.set("format", "pdf");
    }
  }
  return figure::drawParts(rows, style, job);
}

std::string panelCommand(const figure::FigurePart& panel, const figure::FigureStyle& style, const std::string& output,
                         figure::Folders folders) {
  return figure::commandOf(withStyle(panel, style), panel.files, output, folders);
}

std::string panelsSpec(const ShownPanels& panels, const figure::FigureStyle& style, const QString& path) {
  if (areOne(panels)) return withStyle(panels[0][0], style).text();
  figure::FigureParts parts{{"panels"}, panels};
  addStyle(figure::pageKind(), style, parts.page);
  const std::vector<std::string>& first = panels[0][0].files;
  const bool oneFile = std::ranges::all_of(panels, [&](const auto& row) {
    return std::ranges::all_of(row, [&](const figure::FigurePart& panel) { return panel.files == first; });
  });
  const QDir folder = QFileInfo(path).absoluteDir();
  for (auto& row : parts.rows) {
    for (figure::FigurePart& panel : row) {
      if (oneFile) panel.files.clear();
      for (std::string& file : panel.files) {
        if (agent::is_remote(file)) continue;
        file = folder.relativeFilePath(QFileInfo(QString::fromStdString(file)).absoluteFilePath()).toStdString();
      }
    }
  }
  return parts.text();
}

}  // namespace foxscope::gui
