#include "app/gui/document/figure_export.h"

#include <QFileInfo>

#include "backend/base/atomic_file.h"

namespace foxscope::gui {

void exportFigure(FileWriter& files, const QString& path,
                  const std::function<figure::DrawnFigure(const figure::FigureStyle& style)>& draw) {
  figure::FigureStyle style;
  const QString ending = QFileInfo(path).suffix().toLower();
  style.format.kind = ending == QStringLiteral("svg")   ? figure::FigureFormat::Kind::svg
                      : ending == QStringLiteral("png") ? figure::FigureFormat::Kind::png
                                                        : figure::FigureFormat::Kind::pdf;
  files.writeFile(path, [path, draw, style](const Job& job) -> std::optional<bool> {
    const figure::DrawnFigure drawn = draw(style);
    if (job.stopped()) return std::nullopt;
    AtomicFile file(path.toStdString(), true);
    file.write(drawn.file.data(), drawn.file.size());
    file.commit();
    return true;
  });
}

}  // namespace foxscope::gui
