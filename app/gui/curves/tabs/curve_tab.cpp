#include "app/gui/curves/tabs/curve_tab.h"

#include <algorithm>

#include <QAction>
#include <QApplication>
#include <QClipboard>
#include <QContextMenuEvent>
#include <QEvent>
#include <QLabel>
#include <QMenu>
#include <QMimeData>
#include <QToolBar>
#include <QVBoxLayout>

#include "app/gui/curves/position_plot.h"
#include "app/gui/curves/read_out.h"
#include "app/gui/views/table_text.h"
#include "app/gui/views/theme.h"
#include "backend/base/csv_field.h"

namespace foxscope::gui::curves {
namespace {

/// Lines of text below which a tab's plot needs the room of its legend.
constexpr int kLowTab = 14;

}  // namespace

CurveTab::CurveTab(RunList& runs, const ModelRuns& modelRuns, const QString& name, QWidget* parent)
    : QWidget(parent),
      m_runs(runs),
      m_modelRuns(modelRuns),
      m_controls(new QToolBar(name, parent)),
      m_readOut(new ReadOut(this)) {
  m_controls->setToolButtonStyle(Qt::ToolButtonTextOnly);
  m_controls->setMovable(false);
  auto* plotWidget = new QWidget(this);
  m_note = new QLabel(plotWidget);
  m_note->setWordWrap(true);
  m_note->setVisible(false);
  m_plotPage = new QVBoxLayout(plotWidget);
  m_plotPage->setContentsMargins(0, 0, 0, 0);
  m_plotPage->setSpacing(2);
  m_plotPage->addWidget(m_readOut);
  m_plotPage->addWidget(m_note);
  m_pages = new MessagePages(plotWidget, this);
  muteText(*m_note, palette());
  Selection& selection = runs.selection();
  connect(&runs, &RunList::runsChanged, this, &CurveTab::outdate);
  connect(&runs, &RunList::referenceChanged, this, &CurveTab::outdate);
  connect(&modelRuns, &ModelRuns::noRunTextChanged, this, &CurveTab::outdate);
  connect(m_readOut, &ReadOut::toggled, this, [this] {
    if (m_fresh && message().isEmpty()) restyle();
  });
  for (const auto signal : {&Selection::hoverChanged, &Selection::pinChanged, &Selection::headChanged}) {
    connect(&selection, signal, this, [this] {
      if (isVisible()) showReading();
    });
  }
}

void CurveTab::setPlot(QWidget* plot) {
  m_plotPage->insertWidget(1, plot, 1);
  auto* positions = qobject_cast<PositionPlot*>(plot);
  if (positions == nullptr) positions = plot->findChild<PositionPlot*>();
  if (positions == nullptr) return;
  connect(positions, &PositionPlot::menuAsked, this, &CurveTab::openMenu);
  connect(positions, &PositionPlot::drawnAnew, m_readOut,
          [this, positions] { m_readOut->setWithoutRoom(positions->entriesWithoutRoom()); });
}

PlotContent CurveTab::withoutHidden(PlotContent content) const {
  const auto hidden = std::erase_if(content.lines, [this](const Line& line) {
    return m_readOut->isHidden(line.entry.isEmpty() ? line.name : line.entry);
  });
  // A strip that has lost its lines leaves its room to the others.
  for (int strip = static_cast<int>(content.strips.size()) - 1; hidden > 0 && strip >= 0; --strip) {
    const bool used = std::any_of(content.lines.begin(), content.lines.end(),
                                  [strip](const Line& line) { return line.strip == strip; });
    if (used || content.strips.size() == 1) continue;
    content.strips.erase(content.strips.begin() + strip);
    if (strip == 0) content.marks.clear();
    for (Line& line : content.lines) line.strip -= line.strip > strip ? 1 : 0;
  }
  return content;
}

QMimeData* CurveTab::copied() {
  if (!message().isEmpty()) return nullptr;
  auto* copy = new QMimeData;
  copy->setImageData(grab().toImage());
  setTableText(*copy, tsvOf(data()));
  return copy;
}

void CurveTab::contextMenuEvent(QContextMenuEvent* event) { openMenu(event->globalPos()); }

void CurveTab::openMenu(const QPoint& place) {
  auto* menu = new QMenu(this);
  menu->setAttribute(Qt::WA_DeleteOnClose);
  fillMenu(*menu);
  menu->popup(place);
}

void CurveTab::fillMenu(QMenu& menu) {
  const bool drawn = message().isEmpty();
  const auto add = [&](const QString& text, const std::function<void()>& act) {
    menu.addAction(text, this, act)->setEnabled(drawn);
  };
  add(tr("Copy Picture and Data"), [this] { QApplication::clipboard()->setMimeData(copied()); });
  add(tr("Copy Picture"), [this] { QApplication::clipboard()->setImage(grab().toImage()); });
  add(tr("Copy Data"), [this] {
    auto* copy = new QMimeData;
    setTableText(*copy, tsvOf(data()));
    QApplication::clipboard()->setMimeData(copy);
  });
  add(tr("Export…"), [this] { emit exportWanted(); });
  menu.addSeparator();
  for (QAction* choice : m_controls->actions()) {
    if (choice->isCheckable()) menu.addAction(choice);
  }
  menu.addSeparator();
  for (const ReadOut::Entry& entry : m_readOut->entries()) {
    const QString name = entry.name;
    QAction* shown = menu.addAction(tr("Show %1").arg(name), this, [this, name] { m_readOut->toggle(name); });
    shown->setCheckable(true);
    shown->setChecked(!m_readOut->isHidden(name));
  }
  menu.addSeparator();
  if (auto* plot = findChild<PositionPlot*>()) add(tr("Show All of the Text"), [plot] { plot->fit(); });
}

QString CurveTab::noRunText() const {
  if (!m_runs.empty()) return tr("All runs are hidden: the eye in the list of runs shows them.");
  return m_modelRuns.noRunText() + '.';
}

QJsonObject CurveTab::saveState() const {
  QJsonObject state;
  for (const QAction* choice : m_choices) state[choice->objectName()] = choice->isChecked();
  return state;
}

void CurveTab::restoreState(const QJsonObject& state) {
  for (QAction* choice : m_choices) choice->setChecked(state[choice->objectName()].toBool(choice->isChecked()));
}

QAction* CurveTab::addChoice(const QString& name, const QString& text, const QString& tip, bool on) {
  QAction* action = m_controls->addAction(text);
  action->setObjectName(name);
  if (!name.isEmpty()) m_choices.push_back(action);
  action->setCheckable(true);
  action->setChecked(on);
  action->setToolTip(tip);
  action->setStatusTip(tip);
  return action;
}

QString CurveTab::note() const { return m_note->text(); }

void CurveTab::outdate() {
  m_fresh = false;
  if (isVisible()) refresh();
}

void CurveTab::showPlot(const QString& note) {
  m_fresh = true;
  m_note->setText(note);
  m_note->setVisible(!note.isEmpty());
  m_pages->showContent();
  restyle();
  showReading();
}

void CurveTab::showMessage(const QString& message, QAction* remedy) {
  m_fresh = true;
  m_pages->showMessage(message, remedy);
}

void CurveTab::showEvent(QShowEvent* event) {
  QWidget::showEvent(event);
  if (m_fresh) {
    showReading();
  } else {
    refresh();
  }
}

void CurveTab::resizeEvent(QResizeEvent* event) {
  QWidget::resizeEvent(event);
  m_readOut->setOneLine(height() < kLowTab * fontMetrics().height());
}

void CurveTab::changeEvent(QEvent* event) {
  QWidget::changeEvent(event);
  if (event->type() != QEvent::PaletteChange) return;
  muteText(*m_note, palette());
  if (m_fresh && message().isEmpty()) {
    restyle();
    showReading();
  }
}

QString readingText(const TokenTable& tokens, std::int64_t position) {
  return CurveTab::tr("%1 reads “%2”").arg(position).arg(readText(tokens, position, Whitespace::visible));
}

QString csvField(const QString& text) { return QString::fromStdString(csv_field(text.toStdString())); }

}  // namespace foxscope::gui::curves
