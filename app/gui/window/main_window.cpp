#include "app/gui/window/main_window.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include <QApplication>
#include <QClipboard>
#include <QCloseEvent>
#include <QDir>
#include <QDropEvent>
#include <QMenu>
#include <QMimeData>
#include <QScreen>
#include <QStackedWidget>
#include <QStatusBar>
#include <QTableView>
#include <QToolBar>
#include <QVBoxLayout>

#include "app/gui/comparison/comparison_view.h"
#include "app/gui/curves/curves_view.h"
#include "app/gui/effects/effects_view.h"
#include "app/gui/evaluations/evaluations_view.h"
#include "app/gui/experts/experts_view.h"
#include "app/gui/heads/heads_view.h"
#include "app/gui/maps/maps_view.h"
#include "app/gui/predictions/predictions_view.h"
#include "app/gui/text/text_view.h"
#include "app/gui/training/training_view.h"
#include "app/gui/views/icon.h"
#include "app/gui/views/table_text.h"
#include "app/gui/window/docks.h"
#include "app/gui/window/extreme_heads.h"
#include "app/gui/window/figures/export_bar.h"
#include "app/gui/window/figures/export_dialog.h"
#include "app/gui/window/figures/thumbnails.h"
#include "app/gui/window/film/film_export.h"
#include "app/gui/window/help/answer_bar.h"
#include "app/gui/window/help/help.h"
#include "app/gui/window/help/start_page.h"
#include "app/gui/window/key_commands.h"
#include "app/gui/window/memory_question.h"
#include "app/gui/window/message_bar.h"
#include "app/gui/window/new_text_card.h"
#include "app/gui/window/preferences.h"
#include "app/gui/window/readout.h"
#include "app/gui/window/remote/machine_bar.h"
#include "app/gui/window/remote/machine_label.h"
#include "app/gui/window/run_bar.h"
#include "app/gui/window/run_list_view.h"
#include "app/gui/words/words_view.h"
#include "backend/eval/predictions/predictions.h"

namespace foxscope::gui {
namespace {

/// A folder of work that outlives the window: sweeps, head by head; what was open when the program ended unasked.
QString stateFolder(const QString& name) {
  const QString state = qEnvironmentVariable("XDG_STATE_HOME", QDir::homePath() + QStringLiteral("/.local/state"));
  return state + QStringLiteral("/foxscope/") + name;
}

}  // namespace

MainWindow::MainWindow(const QString& demo, QWidget* parent)
    : QMainWindow(parent),
      m_headTable(m_document.runs()),
      m_sweeps(m_document.runs(), m_document.modelRuns()),
      m_trainings(m_document.runs(), m_document.modelRuns(), &m_document.machines()) {
  setWindowTitle(QStringLiteral("Foxscope[*]"));
  m_autosave = std::make_unique<Autosave>(m_document.runs(), m_document.modelRuns(), m_document.sessions());
  m_files = new FileCommands(*this, m_document, m_settings, demo, [this] { return viewState(); });
  m_help = new Help(*this, demo);
  setRemembering(m_remembering);
  setAcceptDrops(true);
  makeViews();
  makeMenus();
  makeHistory();
  connectDocument();
  followInputs();
  followRuns();
  for (const Part& part : m_parts) m_firstViews[part.key] = part.part->saveState();
}

// Views read the document to their end, and Qt would take them apart after it; out of sight nothing is sent to halves.
MainWindow::~MainWindow() {
  hide();
  m_history.reset();
  m_autosave.reset();
  qDeleteAll(findChildren<QWidget*>(QString(), Qt::FindDirectChildrenOnly));
}

void MainWindow::setRemembering(Remembering remembering) {
  m_remembering = remembering;
  m_files->setRemembering(remembering);
  const bool on = remembering == Remembering::on;
  m_sweeps.setFolder(on ? stateFolder(QStringLiteral("sweeps")) : QString());
  m_autosave->setFolder(on ? stateFolder(QStringLiteral("windows")) : QString());
}

void MainWindow::makeHistory() {
  const std::vector<ViewHistory::Part> parts{{"heads", tr("colour or sort the heads otherwise"), m_heads},
                                             {"maps", tr("show other maps"), m_maps},
                                             {"text", tr("tint the text otherwise"), m_text},
                                             {"words", tr("list other words"), m_words},
                                             {"curves", tr("draw other curves"), m_curves},
                                             {"comparison", tr("compare other runs"), m_comparison}};
  m_history = std::make_unique<ViewHistory>(m_document.runs(), parts);
  for (QAction* command : commands()) m_history->nameBy(*command);
  m_autosave->setViews([this] { return viewState(); }, [this] { return thumbnailFrom(m_maps->grab().toImage()); });
  connect(m_history.get(), &ViewHistory::inputEnded, m_autosave.get(), &Autosave::noteChange);
  connect(m_autosave.get(), &Autosave::messageRaised, this,
          [this](const Message& message) { m_messages->show(message); });
  connect(m_autosave.get(), &Autosave::found, m_start, &StartPage::setLeft);
  connect(&m_document.sessions(), &SessionStore::leftOpened, m_autosave.get(), &Autosave::goOn);
  connect(m_start, &StartPage::continueWanted, this, [this](const QString& session) {
    if (m_autosave->takeOver(session)) m_document.open({session});
  });
  connect(m_start, &StartPage::discardWanted, m_autosave.get(), &Autosave::discard);
}

void MainWindow::makeViews() {
  RunList& runs = m_document.runs();
  ModelRuns& modelRuns = m_document.modelRuns();
  FileWriter& files = m_document.files();
  m_heads = new HeadsView(runs, modelRuns, m_headTable);
  m_maps = new MapsView(runs);
  m_extremes = new ExtremeHeads(*m_maps, runs, m_headTable, this);
  m_text = new TextView(runs, modelRuns);
  m_words = new WordsView(runs, modelRuns, files);
  m_curves = new CurvesView(runs, modelRuns);
  m_comparison = new ComparisonView(runs);
  m_predictions = new PredictionsView(runs, modelRuns);
  m_experts = new ExpertsView(runs, modelRuns, files);
  m_effects = new EffectsView(runs, files, m_sweeps);
  m_evaluations = new EvaluationsView(m_document.evaluations(), runs, modelRuns, files);
  m_training = new TrainingView(runs, files, m_trainings);
  m_training->player().setReady([this] { return m_maps->isSettled() && m_text->isSettled() && m_heads->showsStep(); });
  m_maps->setNearestHead([this](const HeadChoice& head, RunId other) { return m_headTable.nearestHead(head, other); });
  connect(&m_headTable, &HeadTable::valuesChanged, m_maps, &MapsView::nearestHeadsChanged);
  using Place = Menus::Place;
  // Eight menus in the bar: parts that stand behind the curves are in that of what is shown, or of what makes them.
  m_parts = {{"heads", tr("&Heads"), m_heads, Place::bar},
             {"maps", tr("&Maps"), m_maps, Place::bar},
             {"text", tr("&Text"), m_text, Place::bar},
             {"words", tr("&Words"), m_words, Place::view},
             {"curves", tr("&Curves"), m_curves, Place::view},
             {"comparison", tr("C&ompare"), m_comparison, Place::view},
             {"predictions", tr("&Predictions"), m_predictions, Place::bar},
             {"experts", tr("E&xperts"), m_experts, Place::view},
             {"effects", tr("&Effects"), m_effects, Place::run},
             {"evaluations", tr("E&valuations"), m_evaluations, Place::run},
             {"training", tr("Tra&ining"), m_training, Place::run}};

  auto* centre = new QWidget;
  auto* layout = new QVBoxLayout(centre);
  layout->setContentsMargins(0, 0, 0, 0);
  layout->setSpacing(0);
  layout->addWidget(new ExportBar(m_document));
  layout->addWidget(new MachineBar(m_document));
  layout->addWidget(&m_training->bar());
  m_answer = new AnswerBar(runs, m_headTable, m_document.evaluations());
  layout->addWidget(m_answer);
  m_centre = new QStackedWidget;
  m_start = new StartPage;
  m_centre->addWidget(m_start);
  m_centre->addWidget(m_maps);
  layout->addWidget(m_centre, 1);
  setCentralWidget(centre);
  m_messages = new MessageBar(*this);
  new NewTextCard(runs, modelRuns, *m_maps, {m_curves});
  const QDir texts(QFileInfo(m_files->demo()).dir().filePath(QStringLiteral("texts")));
  QStringList samples;
  if (!m_files->demo().isEmpty()) {
    for (const QString& name : texts.entryList({QStringLiteral("*.txt")}, QDir::Files)) samples += texts.filePath(name);
  }
  m_text->setSamples(samples);
  connect(m_text, &TextView::textWanted, this, [this](const QString& path) { m_document.open({path}); });

  const auto* numbers = new RunNumbers(runs, this);
  auto* list = new RunListView(runs, *numbers);
  const Docks::Views views{m_heads,       list,      m_text,    m_curves,      m_words,   m_comparison,
                           m_predictions, m_experts, m_effects, m_evaluations, m_training};
  m_docks = new Docks(*this, views, [this] {
    const RunList& open = m_document.runs();
    const bool predictions =
        std::any_of(open.begin(), open.end(), [](const Run& run) { return keeps_predictions(*run.trace); });
    const bool experts =
        std::any_of(open.begin(), open.end(), [](const Run& run) { return run.trace->has(TraceArray::expert); });
    return Docks::Content{anythingOpen(),
                          open.runsOnText().size() > 1,
                          predictions,
                          experts,
                          m_sweeps.shown() != nullptr,
                          !m_document.evaluations().empty() && !evaluationsAlone(),
                          !m_trainings.open().empty()};
  });

  m_docks->heads().setWhatsThis(QStringLiteral("decay-time"));
  m_docks->text().setWhatsThis(QStringLiteral("position"));
  m_words->setWhatsThis(QStringLiteral("loss"));
  m_comparison->setWhatsThis(QStringLiteral("loss"));
  m_effects->setWhatsThis(QStringLiteral("change"));
  m_training->setWhatsThis(QStringLiteral("training"));
  m_docks->predictions().setWhatsThis(QStringLiteral("predictions"));
  m_docks->experts().setWhatsThis(QStringLiteral("experts"));

  auto* bar = new QToolBar(tr("Run"));
  bar->setObjectName("run");
  bar->setMovable(false);
  QAction* showRuns = m_docks->runs().toggleViewAction();
  showRuns->setIcon(themedIcon(QStringLiteral("runs")));
  showRuns->setShortcut(QKeySequence("Ctrl+R"));
  connect(showRuns, &QAction::triggered, list, [this, list](bool shown) {
    if (!shown) return;
    m_docks->fitRuns();
    list->setFocus();
    if (!list->currentIndex().isValid()) list->setCurrentIndex(list->list().index(0, RunListModel::kName));
  });
  QAction* showWords = m_docks->words().toggleViewAction();
  showWords->setShortcut(QKeySequence("Ctrl+W"));
  connect(showWords, &QAction::triggered, m_words, [this](bool shown) {
    if (!shown) return;
    m_docks->words().raise();
    m_words->table().setFocus();
  });
  bar->addWidget(new RunBar(runs, modelRuns, *numbers, showRuns));
  addToolBar(bar);
  statusBar()->addWidget(new Readout(runs), 1);
  statusBar()->addPermanentWidget(new MachineLabel(m_document.machines()));
  statusBar()->setSizeGripEnabled(false);
}

bool MainWindow::anythingOpen() const {
  return !m_document.runs().empty() || !m_document.runs().models().empty() || !m_document.modelRuns().text().empty();
}

void MainWindow::makeMenus() {
  m_menus = new Menus(*this, {m_document, *m_files, m_sweeps, m_settings, *m_docks, *m_help, m_heads->grid()});
  const auto* keys = new KeyCommands(*this);
  m_menus->view().addSeparator();
  m_menus->view().addActions(keys->ofView());
  m_menus->run().addSeparator();
  for (const Part& part : m_parts) {
    if (part.part->commands().isEmpty()) continue;
    QMenu* menu = m_menus->addMenu(part.title, part.menu);
    if (part.part == m_evaluations) {
      m_menus->addCommand(menu, {tr("&Open Evaluation…"), "file"}, {},
                          tr("Losses of a corpus, a needle test or heads over a corpus, as foxscope eval writes them"),
                          [this] { m_files->openEvaluation(); });
    }
    menu->addActions(part.part->commands());
    for (const auto& [view, more] : {std::pair<ViewPart*, QList<QAction*>>{m_heads, keys->ofHeads()},
                                     {m_maps, keys->ofMaps()},
                                     {m_text, keys->ofText()},
                                     {m_curves, keys->ofCurves()}}) {
      if (view != part.part) continue;
      menu->addSeparator();
      menu->addActions(more);
    }
  }
  m_menus->addHelp();
  connect(m_menus, &Menus::exportWanted, this, [this] { exportShown(ExportDialog::Source::map); });
  connect(m_menus, &Menus::copyWanted, this, &MainWindow::copyShown);
  connect(m_menus, &Menus::preferencesWanted, this, &MainWindow::showPreferences);
  connect(m_menus, &Menus::extremesWanted, this, &MainWindow::showExtremes);
  connect(m_menus, &Menus::themeChosen, this, &MainWindow::themeChosen);
  connect(m_menus, &Menus::messageRaised, this, [this](const Message& message) { m_messages->show(message); });
}

QList<QAction*> MainWindow::commands() const { return m_menus->commands(); }

void MainWindow::connectDocument() {
  const auto showEffects = [this] { Docks::bringForward(m_docks->effects()); };
  connect(m_predictions, &PredictionsView::available, this, [this] { m_docks->predictions().show(); });
  connect(m_experts, &ExpertsView::available, this, [this] { m_docks->experts().show(); });
  connect(m_comparison, &ComparisonView::answered, this, [this] { m_docks->comparison().show(); });
  connect(m_effects, &EffectsView::answered, this, [this, showEffects] {
    // The predictions answer what was asked for in them.
    if (!m_predictions->takeAwaited()) showEffects();
  });
  connect(&m_sweeps, &Sweeps::added, this, showEffects);
  connect(&m_document, &Document::sweepOpened, &m_sweeps, &Sweeps::open);
  connect(&m_document, &Document::pathOpened, &m_trainings, &Trainings::readAgain);
  connect(&m_trainings, &Trainings::added, this, &MainWindow::followTrainings);
  connect(&m_trainings, &Trainings::changed, this, [this] {
    if (m_trainings.open().empty()) m_docks->training().hide();
  });
  followObstacle();
  connect(&m_document.runs(), &RunList::runsChanged, this, &MainWindow::followRuns);
  connect(&m_document.modelRuns(), &ModelRuns::inputsChanged, this, &MainWindow::followInputs);
  connect(&m_document.evaluations(), &EvaluationList::evaluationsChanged, this, &MainWindow::followEvaluations);
  connect(&m_document, &Document::messageRaised, this, [this](const Message& message) { m_messages->show(message); });
  connect(&m_document.modelRuns(), &ModelRuns::memoryAsked, this,
          [this](const MemoryQuestion& question) { askForMemory(question, m_document.modelRuns(), *this); });
  connect(&m_document.sessions(), &SessionStore::fileMissing, this, &MainWindow::askForMissing);
  connect(&m_document.sessions(), &SessionStore::sessionOpened, this, &MainWindow::openSession);
  const auto followRecent = [this] { m_start->setRecent(m_settings.recent()); };
  connect(m_files, &FileCommands::recentChanged, m_start, followRecent);
  followRecent();
  connect(&m_document.modelRuns(), &ModelRuns::runStatusChanged, this, [this] {
    const RunStatus& status = m_document.modelRuns().runStatus();
    if (status.running && status.index == 0) m_messages->clearNotes();
    followInputs();
  });
  connect(m_curves, &CurvesView::exportWanted, this, [this] { exportShown(ExportDialog::Source::curves); });
  connect(m_evaluations, &EvaluationsView::panelsExportWanted, this,
          [this] { exportShown(ExportDialog::Source::panels); });
  connect(m_text, &TextView::headOrderAsked, this, &MainWindow::orderHeads);
  connect(m_text, &TextView::columnAsked, this, [this] {
    Docks::bringForward(m_docks->curves());
    m_curves->showProfile(MapLine::Along::column);
  });
  connect(m_text, &TextView::messageRaised, m_messages, qOverload<const Message&>(&MessageBar::show));
  connect(m_training, &TrainingView::filmWanted, new FilmExport(*this), &FilmExport::write);
  connect(m_maps, &MapsView::exportWanted, this, [this] { exportShown(ExportDialog::Source::map); });
  connect(m_maps, &MapsView::profileWanted, this, [this](MapLine::Along along) {
    Docks::bringForward(m_docks->curves());
    m_curves->showProfile(along);
  });
  connect(m_start, &StartPage::demoWanted, m_files, &FileCommands::openDemo);
  connect(m_start, &StartPage::modelWanted, m_files, &FileCommands::openModel);
  connect(m_start, &StartPage::textWanted, m_files, [this] { m_files->openText(tr("All files (*)")); });
  connect(m_start, &StartPage::fileWanted, m_files, &FileCommands::openRunsOrSession);
  connect(m_start, &StartPage::pathWanted, this, [this](const QString& path) { m_document.open({path}); });
  connect(m_start, &StartPage::tourWanted, m_help, &Help::startTour);
  connect(m_start, &StartPage::questionAsked, this, [this](const QString& session) { m_document.open({session}); });
  m_start->setDemo(m_files->demo());
}

// A session takes the place of everything: what it does not speak of is as in a new window.
void MainWindow::openSession(const QJsonObject& state) {
  m_messages->clearNotes();
  m_wantedViews = state;
  for (const Part& part : m_parts) {
    QJsonObject wanted = m_firstViews[part.key].toObject();
    const QJsonObject given = state[part.key].toObject();
    for (auto entry = given.begin(); entry != given.end(); ++entry) wanted[entry.key()] = entry.value();
    m_wantedViews[part.key] = wanted;
  }
  m_docks->restore(QByteArray::fromBase64(state["docks"].toString().toLatin1()));
  restoreViews(m_wantedViews);
  m_answer->ask(state["question"].toString());
}

void MainWindow::orderHeads(HeadQuantity quantity) {
  Docks::bringForward(m_docks->heads());
  m_heads->setTab(HeadsView::Tab::grid);
  m_heads->setColouring({HeadColouring::Kind::quantity, quantity, kNoRun});
  // The command says that somebody has chosen it, so that it stays while runs come and go.
  const QString words = HeadsView::tr("Colour heads by %1").arg(textOf(quantity).name);
  for (QAction* command : m_heads->commands()) {
    if (command->text() == words) command->trigger();
  }
  m_heads->table().sortByColumn(2 + static_cast<int>(quantity), Qt::DescendingOrder);
}

void MainWindow::showExtremes() {
  const ModelRuns& modelRuns = m_document.modelRuns();
  const QString obstacle = m_document.runs().empty() ? modelRuns.noRunText() : m_extremes->toggle();
  if (!obstacle.isEmpty()) m_messages->show({Message::Kind::warning, obstacle});
}

void MainWindow::followRuns() {
  followPlaces();
  followObstacle();
  const bool empty = m_document.runs().empty();
  QStringList names;
  for (const Run& run : m_document.runs()) names += run.name;
  setWindowTitle(empty ? QStringLiteral("Foxscope") : names.join(", ") + QStringLiteral(" – Foxscope"));
  if (empty || m_wantedViews.isEmpty()) return;
  restoreViews(m_wantedViews);
  if (!m_document.modelRuns().runStatus().running) m_wantedViews = {};
}

bool MainWindow::evaluationsAlone() const { return !m_document.evaluations().empty() && m_document.runs().empty(); }

// Where no run is open, evaluations have the place of the maps.
void MainWindow::followCentre() {
  const bool alone = evaluationsAlone();
  QDockWidget& dock = m_docks->evaluations();
  const bool inCentre = m_centre->indexOf(m_evaluations) >= 0;
  if (alone && !inCentre) {
    m_docks->keepEvaluationsRoom();
    dock.hide();
    m_centre->addWidget(m_evaluations);
  } else if (!alone && inCentre) {
    m_centre->removeWidget(m_evaluations);
    dock.setWidget(m_evaluations);
    m_evaluations->show();
    dock.setVisible(!m_document.evaluations().empty());
  }
  QWidget* first = alone ? static_cast<QWidget*>(m_evaluations) : m_start;
  m_centre->setCurrentWidget(m_document.runs().empty() ? first : m_maps);
}

// The atlas that stood in the centre stays in sight beside a run or a model that comes.
void MainWindow::followPlaces() {
  const bool inCentre = m_centre->indexOf(m_evaluations) >= 0;
  followCentre();
  m_docks->follow();
  const EvaluationList& open = m_document.evaluations();
  // A session says itself what is in front, and how much room it has.
  if (!inCentre || m_docks->evaluations().widget() != m_evaluations || open.empty() || open.back().ofSession) return;
  Docks::bringForward(m_docks->evaluations());
  m_docks->giveEvaluationsRoom();
}

// Evaluations come into sight when they are opened, and go with the last of them.
void MainWindow::followEvaluations() {
  followCentre();
  const bool any = !m_document.evaluations().empty() && !evaluationsAlone();
  QDockWidget& dock = m_docks->evaluations();
  const bool seen = dock.isVisible();
  dock.setVisible(any);
  // A session says itself which dock is in front.
  if (!any || m_document.evaluations().back().ofSession) return;
  dock.raise();
  // An atlas needs more room than curves.
  if (!seen && m_document.evaluations().back().as<AtlasReader>() != nullptr) m_docks->giveEvaluationsRoom();
}

void MainWindow::followTrainings() {
  m_docks->training().show();
  // A session says itself which dock is in front.
  if (m_wantedViews.isEmpty()) m_docks->training().raise();
}

// A card that says what a run waits for goes when it waits for something else, or for nothing.
void MainWindow::followObstacle() {
  const ModelRuns& modelRuns = m_document.modelRuns();
  const QString now = m_document.runs().empty() ? modelRuns.noRunText() : modelRuns.runObstacle();
  if (now != m_obstacle) m_messages->remove(std::exchange(m_obstacle, now));
}

void MainWindow::followInputs() {
  followPlaces();
  followObstacle();
  m_start->setInputs(anythingOpen() ? m_document.modelRuns().noRunText() + '.' : QString());
}

void MainWindow::askForMissing(const QString& what, const QString& path) {
  const Message message{Message::Kind::warning, tr("The session's %1 is not there any more: %2").arg(what, path)};
  m_messages->show(message, tr("Locate…"), [this, what] { m_files->locate(what); });
}

void MainWindow::exportShown(ExportDialog::Source source) {
  ExportDialog dialog(m_document, *m_maps, *m_curves, *m_evaluations, m_settings, *this);
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
  QJsonObject state{{"docks", QString::fromLatin1(m_docks->state().toBase64())}};
  for (const Part& part : m_parts) state[part.key] = part.part->saveState();
  return state;
}

QStringList MainWindow::picturedPaths() const {
  QStringList paths;
  if (!m_document.sessions().file().isEmpty()) paths += m_document.sessions().file();
  const RunList& runs = m_document.runs();
  const auto& own = m_maps->paneState(0).own;
  const Run* first = own ? runs.runNamed(own->run) : runs.run(runs.selection().head().run);
  if (first == nullptr) return paths;
  const ModelInput model = runs.modelOf(*first);
  return paths + QStringList{!first->file.isEmpty()     ? first->file
                             : model.training.isEmpty() ? model.path
                                                        : model.training};
}

void MainWindow::restoreViews(const QJsonObject& state) {
  for (const Part& part : m_parts) {
    if (state.contains(part.key)) part.part->restoreState(state[part.key].toObject());
  }
}

bool MainWindow::restorePlaces() {
  if (m_settings.windowGeometry().isEmpty()) return false;
  const bool placed = restoreGeometry(m_settings.windowGeometry());
  m_docks->restore(m_settings.windowState());
  return placed;
}

void MainWindow::resizeToFit(const QSize& wanted) {
  // No window has its frame before it is shown.
  constexpr QSize kFrame(12, 44);
  resize(wanted.boundedTo(screen()->availableSize() - kFrame));
}

void MainWindow::showEvent(QShowEvent* event) {
  QMainWindow::showEvent(event);
  m_docks->followShow();
  if (!event->spontaneous()) m_autosave->look();
}

void MainWindow::resizeEvent(QResizeEvent* event) {
  QMainWindow::resizeEvent(event);
  m_docks->followResize();
}

bool MainWindow::isSettled() const { return !m_document.busy() && isDrawn(); }

bool MainWindow::isDrawn() const {
  if (m_document.runs().busy() || m_document.modelRuns().runStatus().running || !m_docks->isSettled()) return false;
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
  m_files->whenNothingIsLost([this, asked, &mayClose] {
    if (*asked) {
      mayClose = true;
    } else {
      close();
    }
  });
  *asked = false;
  if (!mayClose) return event->ignore();
  if (m_remembering == Remembering::on) {
    // Docks come with what they show.
    for (QDockWidget* dock : {&m_docks->comparison(), &m_docks->predictions(), &m_docks->experts(), &m_docks->effects(),
                              &m_docks->evaluations(), &m_docks->training()}) {
      dock->hide();
    }
    m_settings.setWindow(m_docks->state(), saveGeometry());
    if (!m_document.runs().empty()) keepThumbnail(picturedPaths(), m_maps->grab().toImage());
    m_autosave->finish();
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
