#include "app/gui/text/text_view.h"

#include <algorithm>
#include <utility>

#include <QApplication>
#include <QClipboard>
#include <QEvent>
#include <QFileInfo>
#include <QHBoxLayout>
#include <QLabel>
#include <QLocale>
#include <QMenu>
#include <QStackedWidget>
#include <QToolButton>
#include <QToolTip>
#include <QVBoxLayout>

#include "app/gui/document/runs/saliency_action.h"
#include "app/gui/document/step_limits.h"
#include "app/gui/text/find_bar.h"
#include "app/gui/text/go_bar.h"
#include "app/gui/text/text_editor.h"
#include "app/gui/text/text_overview.h"
#include "app/gui/text/text_page.h"
#include "app/gui/text/text_readout.h"
#include "app/gui/text/text_search.h"
#include "app/gui/text/text_tinter.h"
#include "app/gui/text/text_tool_row.h"
#include "app/gui/views/flow_layout.h"
#include "app/gui/views/theme.h"
#include "backend/base/index.h"
#include "backend/map/statistics/head_saliency.h"

namespace foxscope::gui {
namespace {

enum Channel { kShape, kSearch, kReadout, kMostSalient };

/// How far behind a word the query stands that asks who remembers it.
constexpr std::int64_t kLater = 500;

bool sameTokens(const Trace* a, const Trace* b) {
  if (a == nullptr || b == nullptr) return false;
  return a->tokens()->id == b->tokens()->id && a->tokens()->input_id == b->tokens()->input_id;
}

}  // namespace

TextView::TextView(RunList& runs, ModelRuns& modelRuns, QWidget* parent)
    : QWidget(parent),
      m_runs(runs),
      m_modelRuns(modelRuns),
      m_tools(new TextToolRow(this)),
      m_find(new FindBar(this)),
      m_go(new GoBar(this)),
      m_stack(new QStackedWidget(this)) {
  m_stack->addWidget(makePage());
  m_stack->addWidget(makeEditor());
  m_find->hide();
  m_go->hide();
  auto* column = new QVBoxLayout(this);
  column->setContentsMargins(0, 0, 0, 0);
  column->setSpacing(0);
  column->addWidget(m_tools);
  m_tools->setRemedy(makeSaliencyAction(runs, modelRuns, this));
  column->addWidget(m_find);
  column->addWidget(m_go);
  column->addWidget(m_stack, 1);
  m_tinter = new TextTinter(runs, modelRuns, *m_tools, *m_page);
  makeCommands();
  connectPage();
  connectBars();
  connectDocument();
  takeInputs();
  takeRuns();
}

QWidget* TextView::makePage() {
  auto* whole = new QWidget(m_stack);
  m_page = new TextPage(whole);
  m_overview = new TextOverview(*m_page, whole);
  auto* row = new QHBoxLayout(whole);
  row->setContentsMargins(0, 0, 0, 0);
  row->setSpacing(0);
  row->addWidget(m_page, 1);
  row->addWidget(m_overview);
  return whole;
}

QWidget* TextView::makeEditor() {
  auto* whole = new QWidget(m_stack);
  m_editor = new TextEditor(whole);
  m_editorNote = new QLabel(whole);
  m_editorNote->setObjectName(QStringLiteral("editorNote"));
  m_editorNote->setWordWrap(true);
  m_clear = new QToolButton(whole);
  m_clear->setText(tr("Clear"));
  m_clear->setToolTip(tr("Begin with an empty text"));
  auto* note = new QHBoxLayout;
  note->setContentsMargins(6, 0, 6, 0);
  note->addWidget(m_editorNote, 1);
  note->addWidget(m_clear);
  m_samples = new QWidget(whole);
  m_samples->setObjectName(QStringLiteral("samples"));
  auto* samples = new FlowLayout(4, 4);
  m_samples->setLayout(samples);
  samples->addWidget(new QLabel(tr("Or a sample:")));
  auto* column = new QVBoxLayout(whole);
  column->setContentsMargins(0, 0, 0, 0);
  column->addWidget(m_editor, 1);
  column->addWidget(m_samples);
  column->addLayout(note);
  m_editorNote->hide();
  m_clear->hide();
  return whole;
}

QAction* TextView::addCommand(const QString& text, const QString& tip, const QKeySequence& shortcut) {
  auto* action = new QAction(text, this);
  action->setToolTip(tip);
  action->setShortcut(shortcut);
  addAction(action);
  m_commands += action;
  return action;
}

void TextView::makeCommands() {
  const auto onPage = [this](QAction* action, auto handler) {
    m_pageCommands += action;
    connect(action, &QAction::triggered, this, handler);
  };
  onPage(addCommand(tr("Find in the text"), tr("Looks for words in the text that was run"), QKeySequence::Find),
         [this] {
           closeBars();
           m_find->open();
           requestSearch();
         });
  onPage(addCommand(tr("Find next"), tr("The next place that was found"), Qt::Key_F3), [this] { goToHit(1); });
  onPage(addCommand(tr("Find previous"), tr("The previous place that was found"), Qt::SHIFT | Qt::Key_F3),
         [this] { goToHit(-1); });
  onPage(addCommand(tr("Go to position"), tr("Pins a position, by number, percentage or distance (+500), and shows it"),
                    Qt::CTRL | Qt::Key_G),
         [this] {
           closeBars();
           const Cursor& pin = m_runs.selection().pin();
           m_go->open(m_runs.length(), pin.key ? *pin.key : pin.query.value_or(0));
         });
  onPage(addCommand(tr("Compute saliency"),
                    tr("Runs the chosen head's model once more, and differentiates its loss by every gate"), {}),
         [this] { computeSaliency(std::nullopt); });
  onPage(addCommand(tr("Compute saliency of the range shown"),
                    tr("The same for the mean loss of the chosen range of positions"), {}),
         [this] { computeSaliency(m_runs.selection().view().rows); });
  for (const TintKind kind : kTintKinds) {
    onPage(addCommand(tr("Tint text: %1").arg(tintName(kind)), tr("What the words of the text are tinted by"), {}),
           [this, kind] {
             TintChoice choice = m_tools->choice();
             choice.kind = kind;
             m_tools->setChoice(choice);
             m_tinter->request();
           });
    m_tintCommands += m_pageCommands.back();
    if (kind == TintKind::expert) m_tintExperts = m_pageCommands.back();
  }
  connect(addCommand(tr("Edit text or show run"), tr("Switches between the text that was run and the text to run"), {}),
          &QAction::triggered, this, [this] { setEditing(!m_editing); });
}

void TextView::computeSaliency(std::optional<Range> target) {
  const RunId run = m_runs.selection().head().run;
  const auto places = m_runs.placesOf(run).fromReference;
  if (target && places) target = places->part(*target);
  // An obstacle is told, and nothing changes.
  if (!m_modelRuns.saliencyObstacle(run).isEmpty()) return m_modelRuns.startSaliency(run, target);
  TintChoice choice = m_tools->choice();
  if (!isOwed(choice.kind)) choice.kind = TintKind::saliency;
  m_tools->setChoice(choice);
  m_modelRuns.startSaliency(run, target);
  m_tinter->request();
}

void TextView::askWhoRemembers(std::int64_t cell) {
  Selection& selection = m_runs.selection();
  selection.setPin({std::min(cell + kLater, m_runs.length() - 1), cell});
  m_page->showCell(cell);
  emit headOrderAsked(HeadQuantity::pinnedForget);
}

void TextView::askWhatItHangsOn(std::int64_t cell) {
  Range target{cell - 1, cell};
  if (const auto places = m_runs.placesOf(m_runs.selection().head().run).fromReference) target = places->part(target);
  computeSaliency(Range{cell - 1, cell});
  if (!m_modelRuns.runStatus().running) return;
  m_awaitedTarget = QStringLiteral("mean of loss[%1:%2]").arg(target.begin).arg(target.end).toStdString();
}

// The head whose gates the loss that was differentiated hangs on most, of the run that has just come.
void TextView::chooseMostSalient() {
  const HeadChoice chosen = m_runs.selection().head();
  const Run* run = m_runs.run(chosen.run);
  if (m_awaitedTarget.empty() || run == nullptr || run->trace->info().saliency_target != m_awaitedTarget) return;
  m_awaitedTarget.clear();
  struct Strongest {
    HeadChoice head;
    SaliencyNumber number;
  };
  JobRunner::Request<Strongest> request;
  request.work = [chosen, trace = run->trace](const Job& job) -> std::optional<Strongest> {
    Strongest strongest{chosen, ordering_number(*trace)};
    double most = -1;
    const TraceInfo& info = trace->info();
    for (int layer = 0; layer < info.layers; ++layer) {
      for (int head = 0; head < info.mixer(layer).heads; ++head) {
        if (job.stopped()) return std::nullopt;
        const auto saliency = head_saliency({trace, layer, head}, 0);
        const double size = saliency ? value_of(*saliency, strongest.number) : -1;
        if (!(size > most)) continue;
        most = size;
        strongest.head = {chosen.run, layer, head};
      }
    }
    return strongest;
  };
  request.done = [this](const Strongest& strongest) {
    m_runs.selection().setHead(strongest.head);
    emit headOrderAsked(strongest.number == SaliencyNumber::absolute ? HeadQuantity::saliencyAbsolute
                                                                     : HeadQuantity::saliencyPerNat);
  };
  request.failed = [this](const QString& message) { emit messageRaised({Message::Kind::error, message}); };
  m_runs.quickJobs().submit(this, kMostSalient, std::move(request));
}

void TextView::connectDocument() {
  connect(&m_runs, &RunList::runsChanged, this, &TextView::takeRuns);
  connect(&m_runs, &RunList::runsChanged, this, &TextView::chooseMostSalient);
  connect(&m_modelRuns, &ModelRuns::runStatusChanged, this, [this] {
    if (!m_modelRuns.runStatus().running) m_awaitedTarget.clear();
  });
  connect(&m_runs, &RunList::referenceChanged, this, &TextView::takeRuns);
  connect(&m_modelRuns, &ModelRuns::inputsChanged, this, &TextView::takeInputs);
  Selection& selection = m_runs.selection();
  connect(&selection, &Selection::pinChanged, this, &TextView::takePin);
  connect(&selection, &Selection::headChanged, this, &TextView::chooseMostSalient);
  connect(&selection, &Selection::hoverChanged, this, &TextView::takeHover);
  connect(&selection, &Selection::viewChanged, this, &TextView::takeView);
}

void TextView::connectPage() {
  Selection& selection = m_runs.selection();
  connect(m_page, &TextPage::cellHovered, this, [this, &selection](std::optional<std::int64_t> cell) {
    Cursor hover;
    // The last cell is read by no position.
    if (cell && *cell < m_runs.length()) hover.query = cell;
    selection.setHover(hover);
  });
  connect(m_page, &TextPage::queryPicked, &selection, &Selection::pinQuery);
  connect(m_page, &TextPage::keyPicked, &selection, &Selection::pinKey);
  connect(m_page, &TextPage::readoutAsked, this, &TextView::requestReadout);
  connect(m_page, &TextPage::menuAsked, this, &TextView::openMenu);
  connect(m_tools, &TextToolRow::modeToggled, this, [this] { setEditing(!m_editing); });
  connect(m_editor, &TextEditor::contentEdited, this, [this] { m_modelRuns.editText(m_editor->content()); });
  connect(m_editor, &TextEditor::contentReplaced, this, [this] { m_modelRuns.setText({{}, m_editor->content()}); });
  connect(m_editor, &TextEditor::refused, this, [this](const QString& reason) {
    m_editorNote->setText(reason);
    m_editorNote->show();
  });
  connect(m_clear, &QToolButton::clicked, this, [this] { m_modelRuns.setText({}); });
}

void TextView::connectBars() {
  connect(m_find, &FindBar::changed, this, &TextView::requestSearch);
  connect(m_find, &FindBar::next, this, [this] { goToHit(1); });
  connect(m_find, &FindBar::previous, this, [this] { goToHit(-1); });
  connect(m_find, &FindBar::closed, this, &TextView::closeBars);
  connect(m_go, &GoBar::closed, this, &TextView::closeBars);
  connect(m_go, &GoBar::chosen, this, &TextView::goTo);
}

// ---- Runs and inputs

void TextView::takeRuns() {
  QStringList names;
  for (const Run* run : m_runs.runsOnText()) names += run->name;
  m_tools->setRuns(names);
  m_offersExperts =
      std::ranges::any_of(m_runs.runsOnText(), [](const Run* run) { return run->trace->has(TraceArray::expert); });
  m_tools->offerExperts(m_offersExperts);
  const Run* reference = m_runs.reference();
  const std::shared_ptr<const Trace> trace = reference != nullptr ? reference->trace : nullptr;
  const QString steps = shownSteps(m_runs).of;
  if (trace != m_reference) {
    const bool otherStep = !steps.isEmpty() && steps == m_steps && sameTokens(trace.get(), m_reference.get());
    m_reference = trace;
    m_tinter->setReference(trace);
    // The text that was asked for is there: it is shown.
    m_editing = false;
    // At another step of a training it is the same one, and stays as it is.
    if (!otherStep) requestShape();
  }
  m_steps = steps;
  showMode();
  takeInputs();
  m_tinter->request();
}

void TextView::takeInputs() {
  const TextInput& text = m_modelRuns.text();
  const std::string& content = text.content;
  const bool isOther = m_editor->content() != content;
  m_editor->setContent(content);
  m_samples->setVisible(content.empty() && m_samples->layout()->count() > 1);
  m_clear->setVisible(m_editor->showsBeginning());
  m_editorNote->setVisible(m_editor->showsBeginning());
  if (m_editor->showsBeginning()) {
    const QString size = QLocale().formattedDataSize(static_cast<qint64>(content.size()), 1, QLocale::DataSizeSIFormat);
    m_editorNote->setText(tr("%1 of text: only the beginning is shown, but a run reads all of it.").arg(size));
  }
  const bool isNew = m_reference && m_modelRuns.isTextNew();
  m_tools->setNotice(!isNew                ? QString()
                     : text.file.isEmpty() ? tr("edited: press F5 to run")
                                           : tr("not run yet: press F5"));
  if (!isOther) return;
  // A text that was opened is shown at once, and the one before it when that comes back.
  m_editing = isNew && (m_editing || !text.file.isEmpty());
  showMode();
}

void TextView::setSamples(const QStringList& paths) {
  for (const QString& path : paths) {
    auto* button = new QToolButton(m_samples);
    button->setText(QFileInfo(path).completeBaseName());
    button->setToolTip(tr("Open this text: %1").arg(path));
    connect(button, &QToolButton::clicked, this, [this, path] { emit textWanted(path); });
    m_samples->layout()->addWidget(button);
  }
  takeInputs();
}

void TextView::setEditing(bool editing) {
  m_editing = editing && m_reference;
  closeBars();
  showMode();
  if (m_editing) m_editor->setFocus(Qt::OtherFocusReason);
}

void TextView::showMode() {
  const bool hasRun = m_reference != nullptr;
  const bool showsPage = hasRun && !m_editing;
  m_stack->setCurrentIndex(showsPage ? 0 : 1);
  m_tools->setMode(showsPage ? TextToolRow::Mode::run : hasRun ? TextToolRow::Mode::editor : TextToolRow::Mode::empty);
  for (QAction* action : m_pageCommands) action->setEnabled(showsPage);
  m_tintExperts->setVisible(m_offersExperts);
  m_tintExperts->setEnabled(showsPage && m_offersExperts);
  m_commands.back()->setEnabled(hasRun);
  if (!showsPage) closeBars();
  m_tinter->showScale();
}

void TextView::requestShape() {
  if (m_page->hits().current >= 0) m_leftHits = m_page->hits();
  m_page->setShape(nullptr);
  m_shapePending = m_reference != nullptr;
  if (!m_reference) {
    m_runs.quickJobs().cancel(this, kShape);
    return;
  }
  JobRunner::Request<std::shared_ptr<const TextShape>> request;
  request.work = [trace = m_reference,
                  font = m_page->font()](const Job& job) -> std::optional<std::shared_ptr<const TextShape>> {
    auto shape = shapeText(std::make_shared<const TextCells>(cellsOf(*trace)), font, job);
    if (!shape) return std::nullopt;
    return std::make_shared<const TextShape>(std::move(*shape));
  };
  request.done = [this](std::shared_ptr<const TextShape> shape) { takeShape(std::move(shape)); };
  request.failed = [this](const QString& message) {
    m_shapePending = false;
    emit messageRaised({Message::Kind::error, message});
  };
  m_runs.quickJobs().submit(this, kShape, std::move(request));
}

void TextView::takeShape(std::shared_ptr<const TextShape> shape) {
  m_shapePending = false;
  const auto tint = m_page->tint() != nullptr ? std::make_shared<const Tint>(*m_page->tint()) : nullptr;
  m_page->setShape(std::move(shape));
  if (tint) m_page->setTint(tint);
  const Selection& selection = m_runs.selection();
  m_page->setPin(selection.pin());
  m_page->setView(selection.view());
  if (selection.pin().query) m_page->showCell(*selection.pin().query);
  if (m_find->isVisible()) requestSearch();
}

// ---- Selection

void TextView::takePin() {
  const Cursor& pin = m_runs.selection().pin();
  m_page->setPin(pin);
  if (pin.query && pin.query != m_lastPin.query) {
    m_page->showCell(*pin.query);
  } else if (pin.key && pin.key != m_lastPin.key) {
    m_page->showCell(*pin.key);
  }
  m_lastPin = pin;
  m_tinter->followPin();
}

void TextView::takeHover() {
  m_page->setHover(m_runs.selection().hover());
  m_tinter->followHover();
}

void TextView::takeView() {
  const View& view = m_runs.selection().view();
  m_page->setView(view);
  const TextLayout* layout = m_page->textLayout();
  if (layout == nullptr || view.rows.size() <= 0 || view.rows.end > m_runs.length()) return;
  const Range lines = m_page->visibleLines();
  const std::int64_t first = layout->lineOfCell(view.rows.begin);
  const std::int64_t last = layout->lineOfCell(view.rows.end - 1);
  if (last < lines.begin || first >= lines.end) m_page->showCell(view.rows.begin);
}

// ---- Find, go to, read-out, menu

void TextView::requestSearch() {
  const TextLayout* layout = m_page->textLayout();
  if (layout == nullptr) return;
  JobRunner::Request<std::vector<Stretch>> request;
  request.work = [shape = layout->sharedShape(), words = m_find->words(), sensitivity = m_find->sensitivity()](
                     const Job& job) { return findInText(*shape, words, sensitivity, job); };
  m_searching = true;
  m_find->showSearching();
  request.done = [this](std::vector<Stretch> found) {
    m_searching = false;
    // A hit that was found before, and again where the text was laid anew, does not move the page.
    const SearchHits before = std::exchange(m_leftHits, {});
    if (before.current >= 0 && before.place == found) {
      m_page->setHits(before);
      return m_find->showCount(before.current, static_cast<int>(before.place.size()));
    }
    m_page->setHits({std::move(found), -1});
    goToHit(0);
  };
  m_runs.quickJobs().submit(this, kSearch, std::move(request));
}

void TextView::goToHit(int step) {
  if (m_searching) return;
  SearchHits hits = m_page->hits();
  const auto count = static_cast<int>(hits.place.size());
  if (count > 0 && hits.current < 0) {
    // The first that is seen or comes after what is seen, else the first of all.
    const TextLayout& layout = *m_page->textLayout();
    const double top = layout.cells().cell[index_of(layout.firstCell(m_page->visibleLines().begin))].begin;
    const auto next = std::lower_bound(hits.place.begin(), hits.place.end(), top,
                                       [](const Stretch& place, double byte) { return place.begin < byte; });
    hits.current = next == hits.place.end() ? 0 : static_cast<int>(next - hits.place.begin());
  } else if (count > 0) {
    hits.current = (hits.current + step + count) % count;
  }
  m_find->showCount(hits.current, count);
  if (count > 0) m_page->showStretch(hits.place[index_of(hits.current)]);
  m_page->setHits(std::move(hits));
}

void TextView::closeBars() {
  const bool hadKeys =
      m_find->isAncestorOf(QApplication::focusWidget()) || m_go->isAncestorOf(QApplication::focusWidget());
  m_runs.quickJobs().cancel(this, kSearch);
  m_searching = false;
  m_find->hide();
  m_go->hide();
  if (!m_page->hits().place.empty()) m_page->setHits({});
  if (hadKeys) m_page->setFocus(Qt::OtherFocusReason);
}

void TextView::goTo(std::int64_t position) {
  m_runs.selection().pinQuery(position);
  m_page->showCell(position);
  closeBars();
}

void TextView::requestReadout(std::int64_t cell, const QPoint& globalPosition) {
  ReadoutRequest wanted;
  wanted.reference = m_reference;
  wanted.cell = cell;
  const HeadChoice& head = m_runs.selection().head();
  for (const Run* run : m_runs.runsOnText()) {
    if (run->id == head.run && m_runs.headOf(head)) wanted.headRun = static_cast<int>(wanted.runs.size());
    wanted.runs.push_back({run->name, run->trace});
  }
  wanted.layer = head.layer;
  wanted.head = head.head;
  wanted.pinnedQuery = m_runs.selection().pin().query;
  wanted.pinnedKey = m_runs.selection().pin().key;
  JobRunner::Request<QString> request;
  request.work = [wanted](const Job&) { return std::optional<QString>(readoutOf(wanted)); };
  request.done = [this, cell, globalPosition](const QString& html) {
    QToolTip::showText(globalPosition, html, m_page->viewport(), m_page->cellRect(cell).toAlignedRect());
  };
  request.failed = [this](const QString& message) { emit messageRaised({Message::Kind::error, message}); };
  m_runs.quickJobs().submit(this, kReadout, std::move(request));
}

QString TextView::shownText() const {
  if (!m_reference) return {};
  const Range& rows = m_runs.selection().view().rows;
  const std::int64_t end = std::min(rows.end, m_reference->info().length);
  QString text;
  for (std::int64_t position = rows.begin; position < end; ++position) {
    text += readText(*m_reference->tokens(), position, Whitespace::asIs);
  }
  return text;
}

void TextView::openMenu(std::int64_t cell, const QPoint& globalPosition) {
  auto* menu = new QMenu(this);
  menu->setAttribute(Qt::WA_DeleteOnClose);
  const bool isRead = cell < m_runs.length();
  Selection& selection = m_runs.selection();
  QAction* query = menu->addAction(tr("Pin as query"), &selection, [&selection, cell] { selection.pinQuery(cell); });
  QAction* key = menu->addAction(tr("Pin as key"), &selection, [&selection, cell] { selection.pinKey(cell); });
  query->setEnabled(isRead);
  key->setEnabled(isRead);
  menu->addSeparator();
  const auto ask = [&](const QString& question, const QString& tip, bool can, auto handler) {
    QAction* action = menu->addAction(question, this, handler);
    action->setToolTip(tip);
    action->setEnabled(can);
  };
  const bool far = cell + kLater < m_runs.length();
  ask(far ? tr("Which heads remember this word %1 tokens later?").arg(kLater)
          : tr("Which heads remember this word at the text's end?"),
      tr("Pins it as key, and the position %1 as query; colours and sorts the heads by F of the pair")
          .arg(std::min(cell + kLater, m_runs.length() - 1)),
      cell + 1 < m_runs.length(), [this, cell] { askWhoRemembers(cell); });
  ask(tr("Where does it come back?"),
      tr("Pins it as key, and shows how much each later query of the chosen head attends to it"),
      cell + 1 < m_runs.length(), [this, cell] {
        m_runs.selection().pinKey(cell);
        emit columnAsked();
      });
  ask(tr("What does predicting it hang on?"),
      tr("Computes the saliency of this one prediction, chooses the head that it hangs on most, and colours the heads "
         "and the text by it"),
      cell > 0, [this, cell] { askWhatItHangsOn(cell); });
  menu->addSeparator();
  const TokenTable& tokens = *m_reference->tokens();
  const QString token =
      isRead ? readText(tokens, cell, Whitespace::asIs) : predictedText(tokens, cell - 1, Whitespace::asIs);
  menu->addAction(tr("Copy token"), this, [token] { QApplication::clipboard()->setText(token); });
  QAction* copyPosition =
      menu->addAction(tr("Copy position"), this, [cell] { QApplication::clipboard()->setText(QString::number(cell)); });
  copyPosition->setEnabled(isRead);
  menu->addAction(tr("Copy text shown"), this, [this] { QApplication::clipboard()->setText(shownText()); });
  menu->addSeparator();
  for (QAction* action : m_pageCommands) {
    if (!m_tintCommands.contains(action)) menu->addAction(action);
  }
  QMenu* tints = menu->addMenu(tr("Tint the text by"));
  tints->addActions(m_tintCommands);
  menu->setToolTipsVisible(true);
  menu->popup(globalPosition);
}

// ---- Session

QJsonObject TextView::saveState() const { return m_tools->choice().toJson(); }

void TextView::restoreState(const QJsonObject& state) {
  m_tools->setChoice(TintChoice::fromJson(state, m_tools->choice()));
  m_tinter->request();
}

bool TextView::isSettled() const { return !m_shapePending && !m_tinter->isPending(); }

void TextView::resizeEvent(QResizeEvent* event) {
  QWidget::resizeEvent(event);
  // The text's height in a window of less than 800 pixels.
  constexpr int kLow = 660;
  m_tools->setLow(height() < kLow);
}

void TextView::changeEvent(QEvent* event) {
  QWidget::changeEvent(event);
  if (event->type() == QEvent::FontChange && m_reference) requestShape();
}

}  // namespace foxscope::gui
