#include "app/gui/window/main_window.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include <QApplication>
#include <QClipboard>
#include <QCloseEvent>
#include <QDir>
#include <QDockWidget>
#include <QDropEvent>
#include <QFileDialog>
#include <QFileInfo>
#include <QLocale>
#include <QMenu>
#include <QMessageBox>
#include <QMimeData>
#include <QPushButton>
#include <QStackedWidget>
#include <QStatusBar>
#include <QTableView>
#include <QTimer>
#include <QToolBar>
#include <QVBoxLayout>

#include "app/gui/curves/curves_view.h"
#include "app/gui/effects/effects_view.h"
#include "app/gui/evaluations/evaluations_view.h"
#include "app/gui/heads/heads_view.h"
#include "app/gui/maps/maps_view.h"
#include "app/gui/text/text_view.h"
#include "app/gui/training/training_view.h"
#include "app/gui/views/icon.h"
#include "app/gui/views/table_text.h"
#include "app/gui/window/figures/export_bar.h"
#include "app/gui/window/figures/export_dialog.h"
#include "app/gui/window/figures/thumbnails.h"
#include "app/gui/window/help/start_page.h"
#include "app/gui/window/message_bar.h"
#include "app/gui/window/preferences.h"
#include "app/gui/window/readout.h"
#include "app/gui/window/run_bar.h"
#include "app/gui/window/run_list_view.h"
#include "app/gui/words/words_view.h"

namespace foxscope::gui {
namespace {

// Of parts at first, logical pixels: least and most.
constexpr std::pair kHeadsWidth{160, 190};
constexpr std::pair kTextWidth{240, 340};
constexpr int kAroundCentre = 110;  ///< height of menus, bars and the status line
constexpr int kBesideMap = 25;      ///< by how much a pane is wider than high

QDockWidget* makeDock(QMainWindow& window, QWidget* view, const QString& title, const QString& key) {
  auto* dock = new QDockWidget(title, &window);
  dock->setObjectName(key);
  dock->setWidget(view);
  return dock;
}

/// Work that outlives the window: sweeps, head by head.
QString sweepsFolder() {
  const QString state = qEnvironmentVariable("XDG_STATE_HOME", QDir::homePath() + QStringLiteral("/.local/state"));
  return state + QStringLiteral("/foxscope/sweeps");
}

}  // namespace

MainWindow::MainWindow(const QString& demo, QWidget* parent)
    : QMainWindow(parent), m_headTable(m_document.runs()),
      m_sweeps(m_document.runs(), m_document.modelRuns()),
      m_trainings(m_document.runs(), m_document.modelRuns()),
      m_demo(demo) {
  setWindowTitle(QStringLiteral("Foxscope[*]"));
  setRemembering(m_remembering);
  setAcceptDrops(true);
  setDockNestingEnabled(true);
  makeViews();
  makeMenus();
  connectDocument();
  fillRecent();
  followInputs();
  followRuns();
}

// Views read the document to their end, and Qt would take them apart after it; out of sight nothing is sent to halves.
MainWindow::~MainWindow() {
  hide();
  qDeleteAll(findChildren<QWidget*>(QString(), Qt::FindDirectChildrenOnly));
}

void MainWindow::setRemembering(Remembering remembering) {
  m_remembering = remembering;
  m_sweeps.setFolder(remembering == Remembering::on ? sweepsFolder() : QString());
}

void MainWindow::makeViews() {
  RunList& runs = m_document.runs();
  ModelRuns& modelRuns = m_document.modelRuns();
  FileWriter& files = m_document.files();
  m_heads = new HeadsView(runs, modelRuns, m_headTable);
  m_maps = new MapsView(runs);
  m_text = new TextView(runs, modelRuns);
  m_words = new WordsView(runs, modelRuns, files);
  m_curves = new CurvesView(runs, modelRuns);
  m_effects = new EffectsView(runs, files, m_sweeps);
  m_evaluations = new EvaluationsView(m_document.evaluations(), runs, modelRuns, files);
  m_training = new TrainingView(runs, files, m_trainings);
  m_maps->setNearestHead([this](const HeadChoice& head, RunId other) { return m_headTable.nearestHead(head, other); });
  connect(&m_headTable, &HeadTable::valuesChanged, m_maps, &MapsView::nearestHeadsChanged);
  m_parts = {{"heads", tr("&Heads"), m_heads},
             {"maps", tr("&Maps"), m_maps},
             {"text", tr("&Text"), m_text},
             {"words", tr("&Words"), m_words},
             {"curves", tr("&Curves"), m_curves},
             {"effects", tr("&Effects"), m_effects},
             {"evaluations", tr("E&valuations"), m_evaluations},
             {"training", tr("Tra&ining"), m_training}};

  auto* centre = new QWidget;
  auto* layout = new QVBoxLayout(centre);
  layout->setContentsMargins(0, 0, 0, 0);
  layout->setSpacing(0);
  layout->addWidget(new ExportBar(files));
  layout->addWidget(&m_training->bar());
  m_centre = new QStackedWidget;
  m_start = new StartPage;
  m_centre->addWidget(m_start);
  m_centre->addWidget(m_maps);
  layout->addWidget(m_centre, 1);
  setCentralWidget(centre);
  m_messages = new MessageBar(*centre);

  m_headsDock = makeDock(*this, m_heads, tr("Heads"), "heads");
  auto* list = new RunListView(runs);
  m_runsDock = makeDock(*this, list, tr("Runs"), "runs");
  m_textDock = makeDock(*this, m_text, tr("Text"), "text");
  m_curvesDock = makeDock(*this, m_curves, tr("Curves"), "curves");
  m_wordsDock = makeDock(*this, m_words, tr("Words"), "words");
  m_effectsDock = makeDock(*this, m_effects, tr("Effects"), "effects");
  m_evaluationsDock = makeDock(*this, m_evaluations, tr("Evaluations"), "evaluations");
  m_trainingDock = makeDock(*this, m_training, tr("Training"), "training");
  // The corners belong to the sides, so that curves stand under the maps.
  setCorner(Qt::BottomLeftCorner, Qt::LeftDockWidgetArea);
  setCorner(Qt::BottomRightCorner, Qt::RightDockWidgetArea);
  resetDocks();

  auto* bar = new QToolBar(tr("Run"));
  bar->setObjectName("run");
  bar->setMovable(false);
  QAction* showRuns = m_runsDock->toggleViewAction();
  showRuns->setIcon(themedIcon(QStringLiteral("runs")));
  showRuns->setShortcut(QKeySequence("Ctrl+R"));
  connect(showRuns, &QAction::triggered, list, [this, list](bool shown) {
    if (!shown) return;
    // As high as its rows need; the text keeps the rest.
    if (std::exchange(m_firstRuns, false)) {
      const int rows = m_runsDock->height() - list->height() + list->sizeHint().height();
      resizeDocks({m_runsDock, m_textDock}, {rows, height() - rows}, Qt::Vertical);
    }
    list->setFocus();
    if (!list->currentIndex().isValid()) list->setCurrentIndex(list->list().index(0, RunListModel::kName));
  });
  QAction* showWords = m_wordsDock->toggleViewAction();
  showWords->setShortcut(QKeySequence("Ctrl+W"));
  connect(showWords, &QAction::triggered, m_words, [this](bool shown) {
    if (!shown) return;
    m_wordsDock->raise();
    m_words->table().setFocus();
  });
  bar->addWidget(new RunBar(runs, modelRuns, showRuns));
  addToolBar(bar);
  statusBar()->addWidget(new Readout(runs), 1);
  statusBar()->setSizeGripEnabled(false);
}

void MainWindow::resetDocks() {
  // Maps and text have the room until somebody asks for the list of runs; behind the curves stands what is asked for,
  // or there is something to be seen of.
  struct Place {
    QDockWidget* dock;
    Qt::DockWidgetArea area;
    bool shown;
  };
  const Place places[] = {{m_headsDock, Qt::LeftDockWidgetArea, true},
                          {m_runsDock, Qt::RightDockWidgetArea, false},
                          {m_textDock, Qt::RightDockWidgetArea, true},
                          {m_curvesDock, Qt::BottomDockWidgetArea, true},
                          {m_wordsDock, Qt::BottomDockWidgetArea, false},
                          {m_effectsDock, Qt::BottomDockWidgetArea, m_sweeps.shown() != nullptr},
                          {m_evaluationsDock, Qt::BottomDockWidgetArea, !m_document.evaluations().empty()},
                          {m_trainingDock, Qt::BottomDockWidgetArea, !m_trainings.open().empty()}};
  // Each dock that comes into sight asks for its least width at once: those of the bottom, side by side until they lie
  // behind one another, would widen the window.
  for (const Place& place : places) place.dock->hide();
  for (const Place& place : places) {
    place.dock->setFloating(false);
    addDockWidget(place.area, place.dock);
  }
  for (QDockWidget* dock : {m_wordsDock, m_effectsDock, m_evaluationsDock, m_trainingDock}) {
    tabifyDockWidget(m_curvesDock, dock);
  }
  for (const Place& place : places) place.dock->setVisible(place.shown);
  m_firstRuns = true;
  m_curvesDock->raise();
  const int heads = std::clamp(width() * 12 / 100, kHeadsWidth.first, kHeadsWidth.second);
  const int text = std::clamp(width() * 21 / 100, kTextWidth.first, kTextWidth.second);
  resizeDocks({m_headsDock, m_textDock}, {heads, text}, Qt::Horizontal);
  // Two maps beside each other are about as high as they are wide; curves take what that leaves.
  const int map = (width() - heads - text) / 2 - kBesideMap;
  resizeDocks({m_curvesDock}, {std::clamp(height() - kAroundCentre - map, height() / 4, height() * 2 / 5)},
              Qt::Vertical);
}

bool MainWindow::isAnyRun() {
  if (m_document.runs().empty()) m_messages->show({Message::Kind::warning, m_document.modelRuns().noRunText()});
  return !m_document.runs().empty();
}

bool MainWindow::anythingOpen() const {
  return !m_document.runs().empty() || !m_document.runs().models().empty() || !m_document.modelRuns().text().empty();
}

void MainWindow::followDocks() {
  if (!isVisible() || anythingOpen() != m_docksAway.has_value()) return;
  if (!m_docksAway) {
    m_docksAway = m_docksUntouched ? QByteArray() : docks();
    m_wantedDocks.clear();
    for (QDockWidget* dock : {m_headsDock, m_runsDock, m_textDock, m_wordsDock, m_curvesDock}) dock->hide();
    m_effectsDock->setVisible(m_sweeps.shown() != nullptr);
    m_evaluationsDock->setVisible(!m_document.evaluations().empty());
    m_trainingDock->setVisible(!m_trainings.open().empty());
    return;
  }
  const QByteArray before = *std::exchange(m_docksAway, std::nullopt);
  if (before.isEmpty()) return resetDocks();
  m_wantedDocks = before;
  placeDocks(Size::pending);
  // They may have come while the others were away.
  if (!m_document.evaluations().empty()) m_evaluationsDock->show();
  if (m_sweeps.shown() != nullptr) m_effectsDock->show();
  if (!m_trainings.open().empty()) m_trainingDock->show();
}

void MainWindow::showEffects() {
  m_effectsDock->show();
  m_effectsDock->raise();
}

void MainWindow::connectDocument() {
  connect(m_effects, &EffectsView::answered, this, &MainWindow::showEffects);
  connect(&m_sweeps, &Sweeps::added, this, &MainWindow::showEffects);
  connect(&m_document, &Document::sweepOpened, &m_sweeps, &Sweeps::open);
  connect(&m_document, &Document::pathOpened, &m_trainings, &Trainings::readAgain);
  connect(&m_trainings, &Trainings::added, this, &MainWindow::followTrainings);
  connect(&m_trainings, &Trainings::changed, this, [this] {
    if (m_trainings.open().empty()) m_trainingDock->hide();
  });
  connect(&m_document.runs(), &RunList::runsChanged, this, &MainWindow::followRuns);
  connect(&m_document.modelRuns(), &ModelRuns::inputsChanged, this, &MainWindow::followInputs);
  connect(&m_document.evaluations(), &EvaluationList::evaluationsChanged, this, &MainWindow::followEvaluations);
  connect(&m_document, &Document::messageRaised, this, [this](const Message& message) { m_messages->show(message); });
  connect(&m_document.files(), &FileWriter::notWritten, this, [this](const QString& path) {
    if (path == m_saving) m_afterSaving = nullptr;
  });
  m_document.setReplaceGuard([this](std::function<void()> replace) { whenNothingIsLost(std::move(replace)); });
  connect(&m_document.modelRuns(), &ModelRuns::memoryAsked, this, &MainWindow::askForMemory);
  connect(&m_document.sessions(), &SessionStore::fileMissing, this, &MainWindow::askForMissing);
  connect(&m_document.sessions(), &SessionStore::sessionOpened, this, [this](const QJsonObject& state) {
    m_messages->clearNotes();
    m_wantedViews = state;
    restoreDocks(QByteArray::fromBase64(state["docks"].toString().toLatin1()));
    restoreViews(state);
  });
  connect(&m_document, &Document::pathOpened, this, [this](const QString& path) {
    if (m_afterSaving && path == m_saving) saveUnsaved();
    if (m_remembering == Remembering::off || isDemo(path)) return;
    m_shownFiles += path;
    m_settings.addRecent(path);
    fillRecent();
  });
  connect(&m_document.modelRuns(), &ModelRuns::runStatusChanged, this, [this] {
    if (m_document.modelRuns().runStatus().running && m_document.modelRuns().runStatus().index == 0) m_messages->clearNotes();
    followInputs();
  });
  connect(m_curves, &CurvesView::exportWanted, this, [this] { exportShown(ExportDialog::Source::curves); });
  connect(m_text, &TextView::messageRaised, m_messages, qOverload<const Message&>(&MessageBar::show));
  connect(m_maps, &MapsView::exportWanted, this, [this] { exportShown(ExportDialog::Source::map); });
  connect(m_maps, &MapsView::profileWanted, this, [this](MapLine::Along along) {
    m_curvesDock->show();
    m_curvesDock->raise();
    m_curves->showProfile(along);
  });
  connect(m_start, &StartPage::demoWanted, this, [this] { m_document.open({m_demo}); });
  connect(m_start, &StartPage::modelWanted, this, &MainWindow::openModel);
  connect(m_start, &StartPage::textWanted, this, [this] { openWith(tr("Open text"), tr("All files (*)")); });
  connect(m_start, &StartPage::fileWanted, this, [this] {
    openWith(tr("Open run file or session"),
             tr("Run files, evaluations, sessions (*.h5 *.hdf5 *.json);;All files (*)"));
  });
  connect(m_start, &StartPage::pathWanted, this, [this](const QString& path) { m_document.open({path}); });
  connect(m_start, &StartPage::tourWanted, this, &MainWindow::startTour);
  connect(m_start, &StartPage::questionAsked, this, [this](const QString& session) { m_document.open({session}); });
  m_start->setDemo(m_demo);
}

// Demo sessions lie beside one another.
bool MainWindow::isDemo(const QString& path) const {
  return !m_demo.isEmpty() && path.endsWith(QStringLiteral(".json")) &&
         QFileInfo(path).absolutePath() == QFileInfo(m_demo).absolutePath();
}

void MainWindow::showExtremes() {
  const auto panes = [this] { return m_maps->saveState().value("panes"); };
  if (m_beforeExtremes && panes() == m_extremes) return m_maps->restoreState(*std::exchange(m_beforeExtremes, {}));
  if (!isAnyRun()) return;
  const Run* run = m_document.runs().run(m_document.runs().selection().head().run);
  std::optional<NamedHead> fastest;
  std::optional<NamedHead> slowest;
  double least = 0;
  double most = 0;
  const TraceInfo& info = run->trace->info();
  for (int place = 0; place < info.layers * info.heads; ++place) {
    if (!forgets(info, place / info.heads)) continue;
    const NamedHead head{run->name, place / info.heads, place % info.heads};
    const double time = m_headTable.value({run->id, head.layer, head.head}, HeadQuantity::rateDecayTime);
    if (std::isnan(time)) continue;
    if (!fastest || time < least) {
      least = time;
      fastest = head;
    }
    if (!slowest || time > most) {
      most = time;
      slowest = head;
    }
  }
  if (!fastest) {
    const QString why = forgets(info) ? tr("Decay times of %1 are not known yet") : tr("%1 has no forget gate");
    return m_messages->show({Message::Kind::warning, why.arg(run->name)});
  }
  m_beforeExtremes = m_maps->saveState();
  int pane = 0;
  for (const auto& head : {fastest, slowest}) {
    for (const Quantity quantity : {Quantity::forget, Quantity::attention}) {
      PaneState state;
      state.own = head;
      state.setQuantity(quantity);
      m_maps->setPaneState(pane++, state);
    }
  }
  m_maps->setPaneCount(pane);
  m_extremes = panes();
}

void MainWindow::followRuns() {
  followDocks();
  const bool empty = m_document.runs().empty();
  m_centre->setCurrentWidget(empty ? static_cast<QWidget*>(m_start) : m_maps);
  QStringList names;
  for (const Run& run : m_document.runs()) names += run.name;
  setWindowTitle(empty ? QStringLiteral("Foxscope") : names.join(", ") + QStringLiteral(" – Foxscope"));
  if (empty || m_wantedViews.isEmpty()) return;
  restoreViews(m_wantedViews);
  if (!m_document.modelRuns().runStatus().running) m_wantedViews = {};
}

// They come into sight when they are opened, and go with the last of them.
void MainWindow::followEvaluations() {
  const bool any = !m_document.evaluations().empty();
  m_evaluationsDock->setVisible(any);
  // A session says itself which dock is in front.
  if (any && !m_document.evaluations().back().ofSession) m_evaluationsDock->raise();
  if (any && m_document.runs().empty()) resizeDocks({m_evaluationsDock}, {height() / 2}, Qt::Vertical);
}

void MainWindow::followTrainings() {
  m_trainingDock->show();
  // A session says itself which dock is in front.
  if (m_wantedViews.isEmpty()) m_trainingDock->raise();
}

void MainWindow::followInputs() {
  followDocks();
  m_start->setInputs(anythingOpen() ? m_document.modelRuns().noRunText() + '.' : QString());
}

void MainWindow::fillRecent() {
  const QStringList paths = m_settings.recent();
  m_start->setRecent(paths);
  m_recentMenu->clear();
  for (const QString& path : paths) {
    QAction* action = m_recentMenu->addAction(path);
    connect(action, &QAction::triggered, this, [this, path] { m_document.open({path}); });
  }
  m_recentMenu->addSeparator();
  QAction* clear = m_recentMenu->addAction(tr("Clear List"));
  connect(clear, &QAction::triggered, this, [this] {
    forgetThumbnails(m_settings.recent());
    m_settings.clearRecent();
    fillRecent();
  });
  m_recentMenu->setEnabled(!paths.isEmpty());
}

void MainWindow::openModel() {
  const QString folder =
      QFileDialog::getExistingDirectory(this, tr("Open checkpoint folder or training"), m_settings.folder());
  if (folder.isEmpty()) return;
  m_settings.setFolder(QFileInfo(folder).absolutePath());
  m_document.open({folder});
}

void MainWindow::openWith(const QString& title, const QString& filter) {
  const QStringList files = QFileDialog::getOpenFileNames(this, title, m_settings.folder(), filter);
  if (files.isEmpty()) return;
  m_settings.setFolder(QFileInfo(files.front()).absolutePath());
  m_document.open(files);
}

void MainWindow::askForMissing(const QString& what, const QString& path) {
  const Message message{Message::Kind::warning, tr("The session's %1 is not there any more: %2").arg(what, path)};
  m_messages->show(message, tr("Locate…"), [this, what] {
    const QString title = tr("Where is the %1?").arg(what);
    const QString found = what == tr("checkpoint") ? QFileDialog::getExistingDirectory(this, title, m_settings.folder())
                                                   : QFileDialog::getOpenFileName(this, title, m_settings.folder());
    if (!found.isEmpty()) m_document.open({found});
  });
}

void MainWindow::askForMemory(const MemoryQuestion& question) {
  const auto sized = [](double bytes) {
    return QLocale().formattedDataSize(static_cast<qint64>(bytes), 1, QLocale::DataSizeSIFormat);
  };
  const QString name = QStringLiteral("memory");
  delete findChild<QMessageBox*>(name);  // a newer question takes the place of the older
  auto* box = new QMessageBox(
      QMessageBox::Warning, tr("Much memory"),
      tr("This takes about %1 of memory, and %2 are free.").arg(sized(question.needed), sized(question.free)),
      QMessageBox::Cancel, this);
  box->setInformativeText(tr("The models are to read %1 tokens. Fewer tokens, or runs without attention maps "
                             "(Preferences), take less.")
                              .arg(QLocale().toString(static_cast<qlonglong>(question.tokens))));
  box->setObjectName(name);
  box->setAttribute(Qt::WA_DeleteOnClose);
  const QPushButton* all = box->addButton(tr("Run Anyway"), QMessageBox::DestructiveRole);
  connect(all, &QPushButton::clicked, &m_document.modelRuns(), &ModelRuns::runAnyway);
  if (question.fewer > 0) {
    QPushButton* fewer = box->addButton(
        tr("First %1 Tokens").arg(QLocale().toString(static_cast<qlonglong>(question.fewer))), QMessageBox::AcceptRole);
    connect(fewer, &QPushButton::clicked, &m_document, [this, question] { m_document.modelRuns().runFewer(question.fewer); });
    box->setDefaultButton(fewer);
  }
  box->open();
}

void MainWindow::saveSession(const QString& path) { m_document.sessions().save(path, viewState()); }

void MainWindow::saveSessionAs() {
  const QString path = QFileDialog::getSaveFileName(
      this, tr("Save session"), m_settings.folder() + "/session.foxscope.json", tr("Sessions (*.json)"));
  if (!path.isEmpty()) saveSession(path);
}

void MainWindow::saveRunFile() {
  if (!isAnyRun()) return;
  const QString path =
      QFileDialog::getSaveFileName(this, tr("Save run file"), m_settings.folder() + "/run.h5", tr("Run files (*.h5)"));
  if (!path.isEmpty()) m_document.files().saveRunFile(path);
}

void MainWindow::whenNothingIsLost(std::function<void()> then) {
  const Unsaved unsaved = m_document.sessions().unsaved();
  if (unsaved.empty() || m_remembering == Remembering::off) return then();
  QStringList what;
  for (const QString& run : unsaved.runs) what += tr("the run %1").arg(run);
  if (unsaved.text) what += tr("the text that was typed or changed");
  QMessageBox box(QMessageBox::Question, tr("Not saved"), tr("This is in no file and will be lost:"),
                  QMessageBox::NoButton, this);
  box.setInformativeText(what.join('\n'));
  QString words = tr("&Save Text…");
  if (!unsaved.runs.isEmpty()) words = unsaved.text ? tr("&Save Runs and Text…") : tr("&Save Runs…");
  const QPushButton* save = box.addButton(words, QMessageBox::AcceptRole);
  const QPushButton* discard = box.addButton(tr("&Discard"), QMessageBox::DestructiveRole);
  box.setDefaultButton(box.addButton(QMessageBox::Cancel));
  box.exec();
  if (box.clickedButton() == discard) then();
  if (box.clickedButton() != save) return;
  m_afterSaving = std::move(then);
  saveUnsaved();
}

// One file after the other, each in the background; what waits for them goes on when nothing is left to save.
void MainWindow::saveUnsaved() {
  const Unsaved unsaved = m_document.sessions().unsaved();
  if (unsaved.empty()) return std::exchange(m_afterSaving, nullptr)();
  const auto ask = [this](const QString& title, const QString& name, const QString& filter) {
    return QFileDialog::getSaveFileName(this, title, m_settings.folder() + name, filter);
  };
  QString path;
  if (!unsaved.runs.isEmpty()) {
    path = ask(tr("Save run file"), QStringLiteral("/run.h5"), tr("Run files (*.h5)"));
    if (!path.isEmpty()) m_document.files().saveUnsavedRuns(path);
  } else {
    path = ask(tr("Save text"), QStringLiteral("/text.txt"), tr("Texts (*.txt)"));
    if (!path.isEmpty()) m_document.files().saveText(path);
  }
  m_saving = path;
  if (path.isEmpty()) m_afterSaving = nullptr;
}

void MainWindow::exportShown(ExportDialog::Source source) {
  ExportDialog dialog(m_document, *m_maps, *m_curves, m_settings, *this);
  const int entry = dialog.source().findData(static_cast<int>(source));
  if (entry >= 0) dialog.source().setCurrentIndex(entry);
  dialog.exec();
}

void MainWindow::copyShown() {
  QClipboard& clipboard = *QApplication::clipboard();
  QWidget* focus = QApplication::focusWidget();
  const auto has = [focus](const QWidget* view) { return view->isAncestorOf(focus); };
  if (has(m_heads)) return clipboard.setMimeData(m_heads->copied());
  if (has(m_words)) return clipboard.setMimeData(m_words->copied());
  if (const auto* table = qobject_cast<QTableView*>(focus)) {
    auto* copy = new QMimeData;
    setTableText(*copy, tsvOf(*table, Rows::all));
    return clipboard.setMimeData(copy);
  }
  if (has(m_text)) return clipboard.setText(m_text->shownText());
  QMimeData* curves = has(m_curves) ? m_curves->copied() : nullptr;
  if (curves != nullptr) return clipboard.setMimeData(curves);
  clipboard.setImage(m_maps->grabActivePane());
}

QJsonObject MainWindow::viewState() const {
  QJsonObject state{{"docks", QString::fromLatin1(docks().toBase64())}};
  for (const Part& part : m_parts) state[part.key] = part.part->saveState();
  return state;
}

void MainWindow::restoreViews(const QJsonObject& state) {
  for (const Part& part : m_parts) {
    if (state.contains(part.key)) part.part->restoreState(state[part.key].toObject());
  }
}

bool MainWindow::restorePlaces() {
  if (m_settings.windowGeometry().isEmpty()) return false;
  restoreGeometry(m_settings.windowGeometry());
  restoreDocks(m_settings.windowState());
  return true;
}

// Empty where they were put away before anybody placed them.
QByteArray MainWindow::docks() const {
  if (m_docksAway) return *m_docksAway;
  return m_wantedDocks.isEmpty() ? saveState() : m_wantedDocks;
}

void MainWindow::restoreDocks(const QByteArray& docks) {
  if (docks.isEmpty()) return;
  m_firstDocks = false;
  if (m_docksAway) {
    m_docksAway = docks;
    return;
  }
  m_wantedDocks = docks;
  placeDocks(Size::pending);
}

// A window that is to be maximised gets its size from the window manager, some time after it was shown.
bool MainWindow::hasItsSize() const {
  if (!isMaximized() && !isFullScreen()) return true;
  return isVisible() && size() != normalGeometry().size();
}

// QMainWindow keeps a state that does not fit a window yet to be maximised, and applies it at a later resize even if
// another state was restored meanwhile, whose items are then gone: so it is given one state, when it has the room.
void MainWindow::placeDocks(Size size) {
  if (m_wantedDocks.isEmpty() || (size == Size::pending && !hasItsSize())) return;
  restoreState(std::exchange(m_wantedDocks, {}));
}

void MainWindow::showEvent(QShowEvent* event) {
  QMainWindow::showEvent(event);
  // Without a window manager no other size comes.
  constexpr int kPatienceMs = 1000;
  if (std::exchange(m_firstDocks, false)) {
    resetDocks();
    m_docksUntouched = true;
  }
  followDocks();
  m_docksUntouched = false;
  if (!m_wantedDocks.isEmpty()) QTimer::singleShot(kPatienceMs, this, [this] { placeDocks(Size::final); });
}

void MainWindow::resizeEvent(QResizeEvent* event) {
  QMainWindow::resizeEvent(event);
  if (m_wantedDocks.isEmpty()) return;
  // When this size has been laid out.
  QMetaObject::invokeMethod(
      this, [this] { placeDocks(Size::pending); }, Qt::QueuedConnection);
}

bool MainWindow::isSettled() const {
  if (m_document.busy() || m_document.modelRuns().runStatus().running || !m_wantedDocks.isEmpty()) return false;
  return std::all_of(m_parts.begin(), m_parts.end(), [](const Part& part) { return part.part->isSettled(); });
}

QStringList MainWindow::messages() const { return m_messages->texts(); }

void MainWindow::showPreferences() {
  Preferences dialog(m_document.modelRuns(), m_settings, this);
  if (dialog.exec() == QDialog::Accepted) emit themeChosen();
}

void MainWindow::closeEvent(QCloseEvent* event) {
  const auto asked = std::make_shared<bool>(true);
  bool mayClose = false;
  // When files have been saved, the closing that asked is over: then there is another one.
  whenNothingIsLost([this, asked, &mayClose] {
    if (*asked) {
      mayClose = true;
    } else {
      close();
    }
  });
  *asked = false;
  if (!mayClose) return event->ignore();
  if (m_remembering == Remembering::on) {
    // They come with what they show.
    for (QDockWidget* dock : {m_effectsDock, m_evaluationsDock, m_trainingDock}) dock->hide();
    m_settings.setWindow(docks(), saveGeometry());
    if (!m_document.runs().empty()) keepThumbnail(m_shownFiles, m_maps->grab().toImage());
  }
  event->accept();
}

void MainWindow::dragEnterEvent(QDragEnterEvent* event) {
  if (event->mimeData()->hasUrls() || event->mimeData()->hasText()) event->acceptProposedAction();
}

void MainWindow::dropEvent(QDropEvent* event) {
  QStringList paths;
  for (const QUrl& url : event->mimeData()->urls()) {
    if (url.isLocalFile()) paths += url.toLocalFile();
  }
  if (!paths.isEmpty()) {
    m_document.open(paths);
  } else if (event->mimeData()->hasText()) {
    m_document.modelRuns().setText({{}, event->mimeData()->text().toStdString()});
  }
  event->acceptProposedAction();
}

}  // namespace foxscope::gui
