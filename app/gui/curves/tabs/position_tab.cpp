#include "app/gui/curves/tabs/position_tab.h"

#include <QAction>

#include "app/gui/curves/curve_export.h"
#include "app/gui/curves/position_plot.h"
#include "app/gui/views/theme.h"

namespace foxscope::gui::curves {

PositionTab::PositionTab(RunList& runs, const ModelRuns& modelRuns, const QString& name, QWidget* parent)
    : CurveTab(runs, modelRuns, name, parent), m_plot(new PositionPlot(runs, this)) {}

void PositionTab::addLogarithmic(const QString& tip) {
  m_logarithmic = addChoice(QStringLiteral("logarithmic"), tr("Log x"), tip, false);
  connect(m_logarithmic, &QAction::toggled, this, &PositionTab::restyle);
}

void PositionTab::restyle() {
  if (hasCurves()) m_plot->setContent(content(palette()), axis());
}

bool PositionTab::plotIsSettled() const { return m_plot->isSettled(); }

PositionAxis PositionTab::axis() const {
  const bool logarithmic = m_logarithmic != nullptr && m_logarithmic->isChecked();
  PositionAxis axis;
  axis.scale = logarithmic ? figure::AxisScale::logarithmic : figure::AxisScale::linear;
  axis.first = logarithmic ? 1 : 0;
  axis.length = list().length();
  return axis;
}

QString PositionTab::xLabel() const { return axis().first > 0 ? tr("1 + position, tokens") : tr("position, tokens"); }

std::optional<figure::CurveFigure> PositionTab::figure() const {
  if (!message().isEmpty() || !hasCurves()) return std::nullopt;
  auto shown = figureOf(*m_plot, content(lightPalette()));
  if (shown) shown->runs = traces();
  return shown;
}

QString PositionTab::headName(const QString& run, const HeadChoice& head) {
  return tr("%1, layer %2, head %3").arg(run).arg(head.layer).arg(head.head);
}

}  // namespace foxscope::gui::curves
