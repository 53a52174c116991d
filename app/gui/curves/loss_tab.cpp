#include "app/gui/curves/loss_tab.h"

#include <algorithm>

#include <QAction>
#include <QComboBox>
#include <QSpinBox>
#include <QToolBar>

#include "app/gui/curves/curve_export.h"
#include "app/gui/curves/plot_style.h"
#include "app/gui/curves/position_plot.h"
#include "app/gui/curves/read_out.h"
#include "app/gui/views/theme.h"

namespace foxscope::gui::curves {
namespace {

enum { kLossCurves };
constexpr int kDefaultWindow = 101;  // of the paper's figures
constexpr int kWidestWindow = 10001;
constexpr float kFaint = 0.45F;  // opacity of single tokens behind their mean

QColor faint(QColor colour) {
  colour.setAlphaF(kFaint);
  return colour;
}

QString reading(const Series& raw, const Series& mean, std::int64_t position) {
  const auto index = raw.indexAt(static_cast<double>(position));
  if (!index) return numberText(std::numeric_limits<double>::quiet_NaN());
  return LossTab::tr("%1 nats (%2)").arg(numberText(raw.value[*index]), numberText(mean.value[*index]));
}

}  // namespace

LossTab::LossTab(Document& document, QWidget* parent)
    : CurveTab(document, tr("Loss: choices"), parent),
      m_plot(new PositionPlot(document, PositionPlot::Part::rows, this)),
      m_logarithmic(addChoice(tr("Log x"), tr("Logarithmic axis of positions, counted from 1"), false)),
      m_raw(new QComboBox(controls())),
      m_window(new QSpinBox(controls())) {
  m_raw->addItem(tr("Tokens where they fit"), "whenSparse");
  m_raw->addItem(tr("Tokens always"), "always");
  m_raw->addItem(tr("Means only"), "never");
  m_raw->setAccessibleName(tr("Single tokens"));
  m_raw->setToolTip(
      tr("When the loss of every token is drawn, faintly, behind its running mean: where each has room (zoom in), "
         "always, or never. The vertical axis holds all that is drawn."));
  m_window->setRange(1, kWidestWindow);
  m_window->setSingleStep(50);
  m_window->setValue(kDefaultWindow);
  m_window->setPrefix(tr("Mean of "));
  m_window->setKeyboardTracking(false);
  m_window->setAccessibleName(tr("Smoothing window in tokens"));
  m_window->setToolTip(tr("Tokens that the running mean is taken over, centred; fewer at both ends of the text"));
  controls()->addWidget(m_window);
  controls()->addWidget(m_raw);
  m_plot->setAccessibleName(tr("Loss along the text"));
  setPlot(m_plot);
  connect(m_raw, &QComboBox::currentIndexChanged, this, &LossTab::restyle);
  connect(m_logarithmic, &QAction::toggled, this, &LossTab::restyle);
  connect(m_window, &QSpinBox::valueChanged, this, &LossTab::outdate);
}

void LossTab::refresh() {
  const std::vector<CurveRun> runs = curveRuns(document());
  m_runs = runs;
  if (runs.empty()) {
    document().quickJobs().cancel(this, kLossCurves);
    m_curves = {};
    return showMessage(noRunText());
  }
  JobRunner::Request<LossCurves> request;
  request.work = [runs, window = m_window->value()](const Job&) { return std::optional(lossCurves(runs, window)); };
  request.done = [this](LossCurves curves) { take(std::move(curves)); };
  request.failed = [this](const QString& message) { showMessage(message); };
  document().quickJobs().submit(this, kLossCurves, std::move(request));
}

void LossTab::take(LossCurves curves) {
  m_curves = std::move(curves);
  QStringList without;
  for (const RunLoss& loss : m_curves.runs) {
    if (!loss.raw) without += loss.run.name;
  }
  const QString missing =
      without.empty() ? QString() : tr("Losses of %1 were not kept (--keep loss).").arg(without.join(tr(", ")));
  if (without.size() == static_cast<qsizetype>(m_curves.runs.size())) return showMessage(missing);
  const QString differ =
      m_curves.tokensDiffer
          ? tr("Tokens differ: positions are those of %1, other tokens stand where they begin in the text, and a "
               "difference compares what covers the same place.")
                .arg(m_curves.runs.front().run.name)
          : QString();
  showPlot(QStringList{differ, otherTextsNote(m_runs), missing}.join(' ').simplified());
}

LossTab::Raw LossTab::raw() const {
  if (m_window->value() == 1) return Raw::never;
  return static_cast<Raw>(m_raw->currentIndex());
}

PositionAxis LossTab::axis() const {
  PositionAxis axis;
  axis.scale = m_logarithmic->isChecked() ? figure::AxisScale::logarithmic : figure::AxisScale::linear;
  axis.first = m_logarithmic->isChecked() ? 1 : 0;
  axis.length = document().length();
  return axis;
}

QString LossTab::xLabel() const {
  return m_logarithmic->isChecked() ? tr("1 + position, tokens") : tr("position, tokens");
}

// A single difference needs no colour to be told by.
QColor LossTab::colourOf(const LossDifference& difference, const QPalette& palette) const {
  return m_curves.differences.size() == 1 ? palette.color(QPalette::Text)
                                          : runColour(difference.of.look.colour, palette);
}

QString LossTab::nameOf(const LossDifference& difference) {
  return tr("%1 − %2").arg(difference.run.name, difference.minus.name);
}

void LossTab::restyle() { m_plot->setContent(content(palette()), axis()); }

PlotContent LossTab::content(const QPalette& palette) const {
  PlotContent content;
  content.xLabel = xLabel();
  content.strips.push_back({tr("loss, nats"), {}, figure::AxisScale::linear, 5});
  const Shown tokens = raw() == Raw::always ? Shown::always : Shown::whenSparse;
  const auto add = [&](const auto& series, int strip, const QColor& colour, const QString& name, const RunLook& look,
                       bool single) {
    if (!series) return;
    Line line{series, strip, Side::left, single ? faint(colour) : colour};
    if (!single) line.name = name;
    if (!single) line.style = runLine(look.change);
    line.width = single ? 1 : 1.8;
    line.shown = single ? tokens : Shown::always;
    line.dots = single ? Dots::whereTheyFit : Dots::never;
    content.lines.push_back(std::move(line));
  };
  if (!m_curves.differences.empty()) content.strips.push_back({tr("Δ, nats"), {}, figure::AxisScale::linear, 3});
  const std::vector<int> texts = textsOf(m_runs);
  const int others = static_cast<int>(content.strips.size()) - 1;
  for (std::size_t other = 1; other < texts.size(); ++other) {
    content.strips.push_back({tr("loss, nats"), {}, figure::AxisScale::linear, 3});
  }
  const auto stripOf = [&](const CurveRun& run) {
    const int text = static_cast<int>(std::find(texts.begin(), texts.end(), run.text) - texts.begin());
    return text == 0 ? 0 : others + text;
  };
  for (const bool single : {true, false}) {
    if (single && raw() == Raw::never) continue;
    for (const RunLoss& loss : m_curves.runs) {
      add(single ? loss.raw : loss.mean, stripOf(loss.run), runColour(loss.run.look.colour, palette), loss.run.name,
          loss.run.look, single);
    }
    for (const LossDifference& difference : m_curves.differences) {
      add(single ? difference.raw : difference.mean, 1, colourOf(difference, palette), nameOf(difference),
          difference.of.look, single);
    }
  }
  return content;
}

void LossTab::showReading() {
  const auto position = cursorPosition(document().selection());
  const bool inside = position && *position < document().length();
  std::vector<ReadOut::Entry> entries;
  for (const RunLoss& loss : m_curves.runs) {
    if (!loss.raw) continue;
    entries.push_back(
        {loss.run.name, runColour(loss.run.look.colour, palette()), runLine(loss.run.look.change),
         inside && document().isOnText(loss.run.id) ? reading(*loss.raw, *loss.mean, *position) : QString()});
  }
  for (const LossDifference& difference : m_curves.differences) {
    entries.push_back({nameOf(difference), colourOf(difference, palette()), runLine(difference.of.look.change),
                       inside ? reading(*difference.raw, *difference.mean, *position) : QString()});
  }
  readOut().setEntries(entries);
  if (!inside) {
    return readOut().setPlace(
        tr("Loss of each predicted token and, in brackets, its mean over %1 tokens: hover to read, "
           "click to pin the query, Shift+click the key")
            .arg(m_window->value()));
  }
  const TokenTable& tokens = *document().reference()->trace->tokens();
  readOut().setPlace(tr("%1, predicts “%2”")
                         .arg(readingText(tokens, *position), predictedText(tokens, *position, Whitespace::visible)));
}

bool LossTab::plotIsSettled() const { return m_plot->isSettled(); }

QJsonObject LossTab::saveState() const {
  return {{"tokens", m_raw->currentData().toString()},
          {"logarithmic", m_logarithmic->isChecked()},
          {"window", m_window->value()}};
}

void LossTab::restoreState(const QJsonObject& state) {
  const int raw = m_raw->findData(state["tokens"].toString());
  if (raw >= 0) m_raw->setCurrentIndex(raw);
  m_logarithmic->setChecked(state["logarithmic"].toBool(m_logarithmic->isChecked()));
  m_window->setValue(state["window"].toInt(m_window->value()));
}

QString LossTab::data() const {
  if (!message().isEmpty() || document().reference() == nullptr) return {};
  CurveTable table = tableOfPositions(*document().reference()->trace->tokens(), TokenColumns::readAndPredicted);
  for (const RunLoss& loss : m_curves.runs) {
    if (!loss.raw || !document().isOnText(loss.run.id)) continue;
    table.columns.push_back({tr("loss of %1 (nats)").arg(loss.run.name), loss.raw});
    table.columns.push_back({tr("loss of %1, mean of %2 (nats)").arg(loss.run.name).arg(m_window->value()), loss.mean});
  }
  for (const LossDifference& difference : m_curves.differences) {
    const QString name = tr("loss of %1 minus %2").arg(difference.run.name, difference.minus.name);
    table.columns.push_back({tr("%1 (nats)").arg(name), difference.raw});
    table.columns.push_back({tr("%1, mean of %2 (nats)").arg(name).arg(m_window->value()), difference.mean});
  }
  return csvOf(table);
}

std::optional<figure::CurveFigure> LossTab::figure() const {
  if (!message().isEmpty() || m_curves.runs.empty()) return std::nullopt;
  auto shown = figureOf(*m_plot, content(lightPalette()));
  for (const RunLoss& loss : m_curves.runs) {
    if (shown && loss.raw) shown->runs.push_back(loss.run.trace);
  }
  return shown;
}

}  // namespace foxscope::gui::curves
