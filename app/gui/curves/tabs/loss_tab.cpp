#include "app/gui/curves/tabs/loss_tab.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <QAction>
#include <QComboBox>
#include <QSpinBox>
#include <QSplitter>
#include <QToolBar>

#include "app/gui/curves/curve_export.h"
#include "app/gui/curves/position_plot.h"
#include "app/gui/curves/read_out.h"
#include "app/gui/document/number_text.h"
#include "app/gui/views/plot_style.h"
#include "app/gui/views/theme.h"

namespace foxscope::gui::curves {
namespace {

enum { kLossCurves };
constexpr int kByRange = 0;
// Widths of the mean, 101 being that of the paper's figures: of a range, the widest that is at most a fortieth of it.
constexpr std::array kWidths{5, 11, 21, 51, 101, 201, 501, 1001};
constexpr int kMeansInRange = 40;
constexpr std::size_t kWorst = 20;  // tokens that are listed
constexpr int kWidestWindow = 10001;
constexpr float kFaint = 0.45F;  // opacity of single tokens behind their mean

QColor faint(QColor colour) {
  colour.setAlphaF(kFaint);
  return colour;
}

/// The colours of both runs in turn, in dashes. A model and its changed copy have one colour between them.
std::pair<QColor, QColor> coloursOf(const RunLossDifference& difference, const QPalette& palette) {
  const QColor first = runColour(difference.run.look.colour, palette);
  const QColor second = runColour(difference.minus.look.colour, palette);
  return {first, first == second ? palette.color(QPalette::Text) : second};
}

QString reading(const Series& raw, const Series& mean, int window, std::int64_t position) {
  const auto index = raw.indexAt(static_cast<double>(position));
  if (!index) return numberText(std::numeric_limits<double>::quiet_NaN());
  return LossTab::tr("%1 nats (mean of %2: %3)")
      .arg(numberText(raw.value[*index]), QString::number(window), numberText(mean.value[*index]));
}

/// The tokens of a run that cost most, worst first, as far as the reference run goes.
std::vector<ListedToken> worstTokens(const RunLoss& loss, std::int64_t length) {
  const std::vector<double>& values = loss.raw->value;
  std::vector<std::size_t> order;
  for (std::size_t index = 0; index < values.size(); ++index) {
    if (!std::isnan(values[index]) && loss.raw->positionAt(index) < static_cast<double>(length)) order.push_back(index);
  }
  const auto count = static_cast<std::ptrdiff_t>(std::min(kWorst, order.size()));
  std::partial_sort(order.begin(), order.begin() + count, order.end(), [&](std::size_t a, std::size_t b) {
    return values[a] > values[b] || (values[a] == values[b] && a < b);
  });
  order.resize(static_cast<std::size_t>(count));
  std::vector<ListedToken> tokens;
  tokens.reserve(order.size());
  for (const std::size_t index : order) {
    tokens.push_back({static_cast<std::int64_t>(loss.raw->positionAt(index)),
                      predictedText(*loss.run.trace->tokens(), static_cast<std::int64_t>(index), Whitespace::visible),
                      values[index]});
  }
  return tokens;
}

}  // namespace

LossTab::LossTab(RunList& runs, const ModelRuns& modelRuns, QWidget* parent)
    : PositionTab(runs, modelRuns, tr("Loss: choices"), parent),
      m_list(new TokenList(runs,
                           {tr("predicts"), tr("loss, nats"),
                            [](const ListedToken& token) {
                              return tr("position %1 predicts “%2” at a loss of %3 nats. Click to go there")
                                  .arg(token.position)
                                  .arg(token.token, numberText(token.value));
                            },
                            2},
                           this)) {
  addLogarithmic(tr("Logarithmic axis of positions, counted from 1"));
  m_raw = new QComboBox(controls());
  m_window = new QSpinBox(controls());
  m_raw->addItem(tr("Tokens where they fit"), "whenSparse");
  m_raw->addItem(tr("Tokens always"), "always");
  m_raw->addItem(tr("Means only"), "never");
  m_raw->setAccessibleName(tr("Single tokens"));
  m_raw->setToolTip(
      tr("When to draw the loss of every token, faintly, behind the running mean: where tokens have room (zoom in), "
         "always, or never. The vertical axis covers all that is drawn."));
  m_window->setRange(kByRange, kWidestWindow);
  m_window->setSpecialValueText(tr("Mean by range"));
  m_window->setSingleStep(50);
  m_window->setValue(kByRange);
  m_window->setPrefix(tr("Mean of "));
  m_window->setKeyboardTracking(false);
  m_window->setAccessibleName(tr("Smoothing window in tokens"));
  m_window->setToolTip(
      tr("Width of the centred running mean, in tokens; narrower at both ends of the text. By range: about a fortieth "
         "of what is shown, so zooming in shows more"));
  controls()->addWidget(m_window);
  controls()->addWidget(m_raw);
  plot()->setAccessibleName(tr("Loss along the text"));
  m_list->setAccessibleName(tr("Tokens of the highest loss"));
  setPlot(m_list->beside(plot(), this));
  connect(m_raw, &QComboBox::currentIndexChanged, this, &LossTab::restyle);
  connect(m_window, &QSpinBox::valueChanged, this, &LossTab::followWidth);
  connect(&runs.selection(), &Selection::viewChanged, this, &LossTab::followWidth);
  connect(&runs.selection(), &Selection::headChanged, this, &LossTab::listWorst);
}

int LossTab::wantedWidth() const {
  if (m_window->value() != kByRange) return m_window->value();
  const std::int64_t most = list().selection().view().rows.size() / kMeansInRange;
  int width = kWidths.front();
  for (const int wider : kWidths) {
    if (wider <= most) width = wider;
  }
  return width;
}

void LossTab::followWidth() {
  if (wantedWidth() != m_width) outdate();
}

// Lists the worst losses of the chosen head's run, else of the first that has losses.
void LossTab::listWorst() {
  const RunLoss* shown = nullptr;
  for (const RunLoss& loss : m_curves.runs) {
    if (!loss.raw || !list().isOnText(loss.run.id)) continue;
    if (shown == nullptr || loss.run.id == list().selection().head().run) shown = &loss;
  }
  const auto worst = shown == nullptr ? m_worst.end() : m_worst.find(shown->run.id);
  m_list->setTokens(worst == m_worst.end() ? std::vector<ListedToken>() : worst->second);
  m_list->setToolTip(shown == nullptr ? QString() : tr("Tokens that cost %1 most").arg(shown->run.name));
}

void LossTab::refresh() {
  const std::vector<CurveRun> runs = curveRuns(list());
  m_runs = runs;
  if (runs.empty()) {
    list().quickJobs().cancel(this, kLossCurves);
    m_curves = {};
    return showMessage(noRunText());
  }
  m_width = wantedWidth();
  JobRunner::Request<Made> request;
  request.work = [runs, window = m_width, length = list().length()](const Job&) {
    Made made{lossCurves(runs, window), {}};
    for (const RunLoss& loss : made.curves.runs) {
      if (loss.raw) made.worst[loss.run.id] = worstTokens(loss, length);
    }
    return std::optional(std::move(made));
  };
  request.done = [this](Made made) { take(std::move(made)); };
  request.failed = [this](const QString& message) { showMessage(message); };
  list().quickJobs().submit(this, kLossCurves, std::move(request));
}

void LossTab::take(Made made) {
  m_curves = std::move(made.curves);
  m_worst = std::move(made.worst);
  listWorst();
  std::vector<CurveRun> without;
  for (const RunLoss& loss : m_curves.runs) {
    if (!loss.raw) without.push_back(loss.run);
  }
  const QString missing = missingLossesNote(without);
  if (without.size() == m_curves.runs.size()) return showMessage(missing);
  const QString differ = m_curves.tokensDiffer
                             ? tr("Tokens differ: positions count the tokens of %1. Other tokens are drawn where they "
                                  "begin in the text, and a difference compares tokens that cover the same place.")
                                   .arg(m_curves.runs.front().run.name)
                             : QString();
  showPlot(QStringList{differ, otherTextsNote(m_runs), missing}.join(' ').simplified());
}

LossTab::Raw LossTab::raw() const {
  if (m_width == 1) return Raw::never;
  return static_cast<Raw>(m_raw->currentIndex());
}

std::vector<std::shared_ptr<const Trace>> LossTab::traces() const {
  std::vector<std::shared_ptr<const Trace>> traces;
  for (const RunLoss& loss : m_curves.runs) {
    if (loss.raw) traces.push_back(loss.run.trace);
  }
  return traces;
}

QString LossTab::nameOf(const RunLossDifference& difference) {
  return tr("%1 − %2").arg(difference.run.name, difference.minus.name);
}

PlotContent LossTab::content(const QPalette& palette) const {
  PlotContent content;
  content.xLabel = xLabel();
  content.strips.push_back({tr("loss, nats"), {}, figure::AxisScale::linear, 5});
  const Shown tokens = raw() == Raw::always ? Shown::always : Shown::whenSparse;
  const auto add = [&](const auto& series, int strip, const QColor& colour, const QString& name, const RunLook& look,
                       bool single, const QColor& second = {}) {
    if (!series) return;
    Line line{series, strip, Side::left, single ? faint(colour) : colour};
    if (!single) line.name = name;
    if (!single) line.style = runLine(look.change);
    if (!single) line.second = second;
    line.entry = name;
    line.width = single ? 1 : 1.8;
    line.shown = single ? tokens : Shown::always;
    line.dots = single ? Dots::whereTheyFit : Dots::never;
    content.lines.push_back(std::move(line));
  };
  if (!m_curves.differences.empty()) content.strips.push_back({tr("Δ, nats"), {}, figure::AxisScale::linear, 3, true});
  const std::vector<int> texts = textsOf(m_runs);
  const int others = static_cast<int>(content.strips.size()) - 1;
  for (std::size_t other = 1; other < texts.size(); ++other) {
    content.strips.push_back({tr("loss, nats"), {}, figure::AxisScale::linear, 3});
  }
  const auto stripOf = [&](const CurveRun& run) {
    const int text = static_cast<int>(std::find(texts.begin(), texts.end(), run.text) - texts.begin());
    return text == 0 ? 0 : others + text;
  };
  const RunLook plain;  // dashes of two colours are a style of their own
  for (const bool single : {true, false}) {
    if (single && raw() == Raw::never) continue;
    for (const RunLoss& loss : m_curves.runs) {
      add(single ? loss.raw : loss.mean, stripOf(loss.run), runColour(loss.run.look.colour, palette), loss.run.name,
          loss.run.look, single);
    }
    for (const RunLossDifference& difference : m_curves.differences) {
      const auto [colour, second] = coloursOf(difference, palette);
      add(single ? difference.raw : difference.mean, 1, colour, nameOf(difference), plain, single, second);
    }
  }
  return withoutHidden(std::move(content));
}

void LossTab::showReading() {
  const auto position = cursorPosition(list().selection());
  const bool inside = position && *position < list().length();
  std::vector<ReadOut::Entry> entries;
  for (const RunLoss& loss : m_curves.runs) {
    if (!loss.raw) continue;
    entries.push_back(
        {loss.run.name, runColour(loss.run.look.colour, palette()), runLine(loss.run.look.change),
         inside && list().isOnText(loss.run.id) ? reading(*loss.raw, *loss.mean, m_width, *position) : QString()});
  }
  for (const RunLossDifference& difference : m_curves.differences) {
    const auto [colour, second] = coloursOf(difference, palette());
    entries.push_back({nameOf(difference), colour, Qt::SolidLine,
                       inside ? reading(*difference.raw, *difference.mean, m_width, *position) : QString(), second});
  }
  readOut().setEntries(entries);
  if (!inside) {
    return readOut().setPlace(tr("Loss of each predicted token and its mean over %1 tokens: hover to read, "
                                 "click to pin the query, Shift+click the key")
                                  .arg(m_width));
  }
  const TokenTable& tokens = *list().reference()->trace->tokens();
  readOut().setPlace(tr("%1, predicts “%2”")
                         .arg(readingText(tokens, *position), predictedText(tokens, *position, Whitespace::visible)));
}

QJsonObject LossTab::saveState() const {
  QJsonObject state = PositionTab::saveState();
  state["tokens"] = m_raw->currentData().toString();
  state["window"] = m_window->value();
  return state;
}

void LossTab::restoreState(const QJsonObject& state) {
  const int raw = m_raw->findData(state["tokens"].toString());
  if (raw >= 0) m_raw->setCurrentIndex(raw);
  PositionTab::restoreState(state);
  m_window->setValue(state["window"].toInt(m_window->value()));
}

QString LossTab::data() const {
  if (!message().isEmpty() || list().reference() == nullptr) return {};
  CurveTable table = tableOfPositions(*list().reference()->trace->tokens(), TokenColumns::readAndPredicted);
  for (const RunLoss& loss : m_curves.runs) {
    if (!loss.raw || !list().isOnText(loss.run.id)) continue;
    table.columns.push_back({tr("loss of %1 (nats)").arg(loss.run.name), loss.raw});
    table.columns.push_back({tr("loss of %1, mean of %2 (nats)").arg(loss.run.name).arg(m_width), loss.mean});
  }
  for (const RunLossDifference& difference : m_curves.differences) {
    const QString name = tr("loss of %1 minus %2").arg(difference.run.name, difference.minus.name);
    table.columns.push_back({tr("%1 (nats)").arg(name), difference.raw});
    table.columns.push_back({tr("%1, mean of %2 (nats)").arg(name).arg(m_width), difference.mean});
  }
  return csvOf(table);
}

}  // namespace foxscope::gui::curves
