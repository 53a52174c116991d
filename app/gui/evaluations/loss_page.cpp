#include "app/gui/evaluations/loss_page.h"

#include <algorithm>
#include <cmath>

#include <QEvent>
#include <QVBoxLayout>
#include <qcustomplot.h>

#include "app/figure/kinds/loss.h"
#include "app/gui/document/figure_export.h"
#include "app/gui/evaluations/evaluation_export.h"
#include "app/gui/views/theme.h"

namespace foxscope::gui::evaluations {
namespace {

constexpr int kLossJob = 0;
constexpr double kCurveWidth = 1.8;
constexpr float kBandOpacity = 0.2F;
constexpr double kAsLowAsItGoes = 0.001;

using Looks = std::vector<std::pair<std::string, figure::CurveLook>>;

figure::CurvePlot plotOf(const std::vector<figure::LossSource>& sources, const Looks& looks) {
  if (sources.empty()) return {};
  figure::FigureStyle style;
  style.looks = looks;
  figure::CurvePlot plot = figure::lossPlot(sources, {}, figure::smoothingWidth(sources, {}), style);
  plot.title = figure::differentTexts(sources);
  return plot;
}

std::vector<std::string> namesOf(const std::vector<figure::LossSource>& sources) {
  std::vector<std::string> names;
  names.reserve(sources.size());
  for (const figure::LossSource& source : sources) names.push_back(source.name);
  return names;
}

void addBand(QCustomPlot& axes, const figure::Curve& curve, const QColor& colour) {
  if (curve.bandLower.empty()) return;
  const QVector<double> x(curve.x.begin(), curve.x.end());
  QCPGraph* lower = axes.addGraph();
  QCPGraph* upper = axes.addGraph();
  lower->setData(x, QVector<double>(curve.bandLower.begin(), curve.bandLower.end()), true);
  upper->setData(x, QVector<double>(curve.bandUpper.begin(), curve.bandUpper.end()), true);
  QColor faint = colour;
  faint.setAlphaF(kBandOpacity);
  for (QCPGraph* edge : {lower, upper}) {
    edge->setPen(Qt::NoPen);
    edge->removeFromLegend();
  }
  upper->setBrush(faint);
  upper->setChannelFillGraph(lower);
}

// Words of figures mark what is to be slanted by stars.
QString plain(std::string text) {
  std::erase(text, '*');
  return QString::fromStdString(text);
}

/// Names in a row above the axes, off the curves.
void putLegendAbove(QCustomPlot& axes) {
  axes.axisRect()->insetLayout()->take(axes.legend);
  axes.plotLayout()->insertRow(0);
  axes.plotLayout()->addElement(0, 0, axes.legend);
  axes.plotLayout()->setRowStretchFactor(0, kAsLowAsItGoes);
}

/// Puts as many names beside each other as there is room for.
void wrapLegend(QCustomPlot& axes) {
  int widest = 1;
  for (int item = 0; item < axes.legend->itemCount(); ++item) {
    const QCPAbstractLegendItem* entry = axes.legend->item(item);  // null: an empty cell
    if (entry != nullptr) widest = std::max(widest, entry->minimumOuterSizeHint().width());
  }
  const int columns = std::max(1, axes.width() / (widest + axes.legend->columnSpacing()));
  if (columns == axes.legend->wrap()) return;
  axes.legend->setWrap(columns);
  axes.legend->setFillOrder(QCPLayoutGrid::foColumnsFirst, true);
}

void colourAxes(QCustomPlot& axes, const QPalette& palette) {
  axes.setBackground(palette.color(QPalette::Base));
  for (QCPAxis* axis : {axes.xAxis, axes.yAxis}) {
    axis->setBasePen(lineColour(palette));
    axis->setTickPen(lineColour(palette));
    axis->setSubTickPen(Qt::NoPen);
    axis->setTickLabelColor(palette.color(QPalette::Text));
    axis->setLabelColor(mutedTextColour(palette));
    QColor grid = lineColour(palette);
    grid.setAlphaF(0.45F);
    axis->grid()->setPen(grid);
    axis->grid()->setZeroLinePen(Qt::NoPen);
  }
  axes.legend->setBrush(palette.color(QPalette::Base));
  axes.legend->setBorderPen(Qt::NoPen);
  axes.legend->setTextColor(palette.color(QPalette::Text));
}

}  // namespace

LossPage::LossPage(EvaluationList& evaluations, RunList& runs, FileWriter& files, QWidget* parent)
    : QWidget(parent),
      m_evaluations(evaluations),
      m_runs(runs),
      m_files(files),
      m_different(new QLabel),
      m_axes(new QCustomPlot(this)) {
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins(0, 0, 0, 0);
  m_different->setWordWrap(true);
  m_different->setContentsMargins(8, 4, 8, 4);
  m_different->setVisible(false);
  layout->addWidget(m_different);
  layout->addWidget(m_axes, 1);
  m_axes->setAccessibleName(tr("Loss against position"));
  m_axes->setInteractions(QCP::iRangeDrag | QCP::iRangeZoom);
  putLegendAbove(*m_axes);
  connect(m_axes, &QCustomPlot::beforeReplot, this, [this] { wrapLegend(*m_axes); });
  m_axes->setMinimumHeight(fontMetrics().height() * 8);
  connect(m_axes, &QCustomPlot::mouseMove, this,
          [this](const QMouseEvent* event) { tell(m_axes->xAxis->pixelToCoord(event->position().x())); });
  connect(m_axes, &QCustomPlot::mouseDoubleClick, this, &LossPage::restyle);
}

void LossPage::follow() {
  std::vector<Evaluation> open;
  for (const Evaluation& evaluation : m_evaluations) {
    if (evaluation.as<LossEvaluation>() != nullptr) open.push_back(evaluation);
  }
  m_waiting = true;
  JobRunner::Request<figure::CurvePlot> request;
  // Looks belong to the window's runs, and are known only here.
  const std::vector<std::string> hidden = hiddenModels(m_runs);
  const Looks looks = looksOf(namesOf(lossSources(open, hidden)), m_runs);
  request.work = [open, hidden, looks](const Job&) { return std::optional(plotOf(lossSources(open, hidden), looks)); };
  request.done = [this](figure::CurvePlot plot) { take(std::move(plot)); };
  request.failed = [this](const QString& message) {
    take({});
    emit told(message);
  };
  m_runs.jobs().submit(this, kLossJob, std::move(request));
}

void LossPage::take(figure::CurvePlot plot) {
  m_waiting = false;
  m_plot = std::move(plot);
  m_different->setText(QString::fromStdString(m_plot.title));
  m_different->setVisible(!m_plot.title.empty());
  restyle();
  if (!m_plot.note.empty()) emit told(note());
}

void LossPage::restyle() {
  m_axes->clearGraphs();
  m_axes->xAxis->setLabel(plain(m_plot.xLabel));
  m_axes->yAxis->setLabel(plain(m_plot.yLabel));
  m_axes->legend->setVisible(!isEmpty());
  for (const figure::Curve& curve : m_plot.curves) addBand(*m_axes, curve, runColour(curve.colour, palette()));
  for (const figure::Curve& curve : m_plot.curves) {
    QCPGraph* graph = m_axes->addGraph();
    graph->setName(QString::fromStdString(curve.name));
    graph->setData(QVector<double>(curve.x.begin(), curve.x.end()), QVector<double>(curve.y.begin(), curve.y.end()),
                   true);
    graph->setPen(QPen(runColour(curve.colour, palette()), kCurveWidth));
  }
  colourAxes(*m_axes, palette());
  m_axes->rescaleAxes();
  m_axes->replot(QCustomPlot::rpQueuedReplot);
}

QString LossPage::note() const {
  return QString::fromStdString(m_plot.note).replace(QLatin1Char('\n'), QStringLiteral(", "));
}

void LossPage::tell(double position) {
  QStringList words;
  for (const figure::Curve& curve : m_plot.curves) {
    const auto at = std::lower_bound(curve.x.begin(), curve.x.end(), std::round(position));
    if (at == curve.x.end() || position < curve.x.front() - 1) continue;
    const auto index = static_cast<std::size_t>(at - curve.x.begin());
    QString value = tr("%1 %2").arg(QString::fromStdString(curve.name)).arg(curve.y[index], 0, 'f', 4);
    if (!curve.bandUpper.empty()) {
      value += QStringLiteral(" ± %1").arg(curve.bandUpper[index] - curve.y[index], 0, 'f', 4);
    }
    words += value;
  }
  if (words.isEmpty()) return emit told(note());
  emit told(tr("position %1: %2 nats").arg(std::lround(position)).arg(words.join(QStringLiteral(", "))));
}

void LossPage::exportTo(const QString& path) {
  const std::vector<Evaluation> open(m_evaluations.begin(), m_evaluations.end());
  const std::vector<figure::LossSource> sources = lossSources(open, hiddenModels(m_runs));
  const Looks looks = looksOf(namesOf(sources), m_runs);
  exportFigure(m_files, path, [sources, looks](figure::FigureStyle style) {
    style.looks = looks;
    return figure::drawLoss(sources, {}, style);
  });
}

void LossPage::changeEvent(QEvent* event) {
  QWidget::changeEvent(event);
  if (event->type() == QEvent::PaletteChange && m_axes != nullptr) restyle();
}

}  // namespace foxscope::gui::evaluations
