#include "app/gui/training/training_view.h"

#include <algorithm>
#include <cmath>

#include <QAction>
#include <QEvent>
#include <QFileDialog>
#include <QFileInfo>
#include <QLocale>
#include <QSplitter>
#include <QVBoxLayout>

#include "app/figure/film/film_file.h"
#include "app/gui/document/figure_export.h"
#include "app/gui/document/number_text.h"
#include "app/gui/views/plot_style.h"
#include "app/gui/views/theme.h"

namespace foxscope::gui {

bool TrainingView::Content::operator==(const Content& other) const {
  const auto sameLook = [](const auto& a, const auto& b) {
    return a.first == b.first && a.second.colour == b.second.colour && a.second.change == b.second.change;
  };
  return records == other.records && shown == other.shown && ground == other.ground &&
         std::ranges::equal(looks, other.looks, sameLook);
}

TrainingView::TrainingView(RunList& runs, FileWriter& files, Trainings& trainings, QWidget* parent)
    : QWidget(parent),
      m_runs(runs),
      m_files(files),
      m_trainings(trainings),
      m_player(new FilmPlayer(trainings, this)),
      m_bar(new TrainingBar(trainings, *m_player)),
      m_losses(new TrainingPlot(tr("Loss over tokens seen"))),
      m_decays(new TrainingPlot(tr("Decay times of heads over tokens seen"))),
      m_none(new QLabel(tr("No decay times: the model has no gates, or nothing was saved yet"))),
      m_reading(new QLabel) {
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins(6, 4, 6, 4);
  layout->setSpacing(4);
  layout->addWidget(m_bar);
  auto* both = new QSplitter;
  both->setChildrenCollapsible(false);
  both->addWidget(m_losses);
  both->addWidget(m_decays);
  both->addWidget(m_none);
  both->setStretchFactor(0, 1);
  both->setStretchFactor(1, 1);
  layout->addWidget(both, 1);
  m_none->setAlignment(Qt::AlignCenter);
  m_none->setWordWrap(true);
  m_reading->setTextFormat(Qt::PlainText);
  m_reading->setTextInteractionFlags(Qt::TextSelectableByMouse);
  layout->addWidget(m_reading);
  makeCommands();
  for (TrainingPlot* plot : {m_losses, m_decays}) {
    connect(plot, &TrainingPlot::chosen, this, &TrainingView::chooseNearest);
    connect(plot, &TrainingPlot::pointed, this, &TrainingView::tell);
  }
  connect(&m_trainings, &Trainings::changed, this, &TrainingView::follow);
  connect(&m_runs, &RunList::modelsChanged, this, &TrainingView::follow);
  connect(&m_runs, &RunList::runsChanged, this, &TrainingView::follow);
  connect(&m_runs.selection(), &Selection::headChanged, this, &TrainingView::followHead);
  follow();
}

void TrainingView::makeCommands() {
  const auto add = [this](const QString& words, const QKeySequence& keys, const QString& tip, auto act) {
    auto* action = new QAction(words, this);
    action->setShortcut(keys);
    action->setToolTip(tip);
    action->setStatusTip(tip);
    connect(action, &QAction::triggered, this, act);
    m_commands += action;
  };
  add(tr("&Previous Checkpoint"), QKeySequence("Alt+Left"), tr("The model at an earlier step of its training"),
      [this] { m_bar->step(-1); });
  add(tr("&Next Checkpoint"), QKeySequence("Alt+Right"), tr("The model at a later step of its training"),
      [this] { m_bar->step(1); });
  add(tr("Ne&west Checkpoint"), QKeySequence("Alt+End"), tr("The model at the last step that was saved"),
      [this] { m_bar->slider().setValue(m_bar->slider().maximum()); });
  add(tr("&Export Training…"), {}, tr("Save the figure of these trainings as PDF, SVG or PNG"),
      [this] { choosePath(); });
  add(tr("P&lay or Pause"), QKeySequence("Alt+P"),
      tr("The model at one step of its training after the other, four a second where they have been run"),
      [this] { m_player->setPlaying(!m_player->playing()); });
  add(tr("&Follow the Newest"), {}, tr("Show a checkpoint that a running training adds when it comes"),
      [this] { m_player->setFollowing(!m_player->following()); });
  m_commands.back()->setCheckable(true);
  connect(m_player, &FilmPlayer::changed, m_commands.back(),
          [this, follow = m_commands.back()] { follow->setChecked(m_player->following()); });
  add(tr("Export Film as &WebP…"), {},
      tr("Save heads, maps and curves at all steps as an animated picture, which browsers show"),
      [this] { chooseFilm(QStringLiteral("training.webp"), tr("Animated pictures (*.webp)")); });
  add(tr("Export Film as &MP4…"), {}, tr("Save heads, maps and curves at all steps as a film for slides"),
      [this] { chooseFilm(QStringLiteral("training.mp4"), tr("Films (*.mp4)")); });
  if (const QString obstacle = QString::fromStdString(figure::whyNoFilm(figure::FilmFormat::mp4));
      !obstacle.isEmpty()) {
    m_noFilm = m_commands.back();
    m_noFilm->setToolTip(obstacle);
    m_noFilm->setStatusTip(obstacle);
  }
}

// Runs that are hidden in the list are hidden here.
TrainingView::Content TrainingView::content() const {
  Content content;
  const OpenTraining* shown = m_trainings.shown();
  for (const OpenTraining& training : m_trainings.open()) {
    const auto& models = m_runs.models();
    const auto model = std::ranges::find(models, training.model, &ModelInput::name);
    if (model == models.end() || model->look.hidden) continue;
    if (&training == shown) content.shown = content.records.size();
    content.records.emplace_back(training.title, training.record);
    content.looks.push_back({training.title.toStdString(), {model->look.colour, model->look.change}});
  }
  content.ground = isDark(palette()) ? figure::Ground::dark : figure::Ground::light;
  return content;
}

std::vector<figure::TrainingSource> TrainingView::sourcesOf(const Content& content) {
  std::vector<figure::TrainingSource> sources;
  for (const auto& [name, record] : content.records) sources.push_back({name.toStdString(), *record});
  return sources;
}

TrainingView::Plots TrainingView::plotsOf(const Content& content) {
  const std::vector<figure::TrainingSource> sources = sourcesOf(content);
  if (sources.empty()) return {};
  figure::FigureStyle style;
  style.looks = content.looks;
  Plots plots{figure::tokenUnit(sources), figure::trainingLossPlot(sources, {}, style), {}};
  if (content.shown) plots.decays = figure::trainingDecayPlot(sources[*content.shown], plots.unit, content.ground);
  plots.decays.xLimits = plots.losses.xLimits;
  plots.losses.yLabel = "loss (nats)";  // there is less room than on a page
  return plots;
}

void TrainingView::choosePath() {
  const QString path = QFileDialog::getSaveFileName(this, tr("Export figure"), QStringLiteral("training.pdf"),
                                                    tr("Figures (*.pdf *.svg *.png)"));
  if (!path.isEmpty()) exportTo(path);
}

void TrainingView::chooseFilm(const QString& name, const QString& filter) {
  // The dialog's own suffix, so that it asks before the file of that name is replaced.
  QFileDialog dialog(this, tr("Export film"), QString(), filter);
  dialog.setAcceptMode(QFileDialog::AcceptSave);
  dialog.setDefaultSuffix(QFileInfo(name).suffix());
  dialog.selectFile(name);
  if (dialog.exec() == QDialog::Accepted) emit filmWanted(dialog.selectedFiles().value(0));
}

void TrainingView::exportTo(const QString& path) {
  exportFigure(m_files, path, [content = m_content](figure::FigureStyle style) {
    style.looks = content.looks;
    return figure::drawTraining(sourcesOf(content), {}, style);
  });
}

void TrainingView::follow() {
  Content now = content();
  for (QAction* action : m_commands) action->setEnabled(!m_trainings.open().empty() && action != m_noFilm);
  if (now == m_content) return followMark();
  m_content = now;
  m_waiting = true;
  JobRunner::Request<Plots> request;
  request.work = [now](const Job&) { return std::optional(plotsOf(now)); };
  request.done = [this](Plots plots) { take(std::move(plots)); };
  request.failed = [this](const QString& message) {
    m_waiting = false;
    m_reading->setText(message);
  };
  m_runs.quickJobs().submit(this, kPlots, std::move(request));
}

void TrainingView::take(Plots plots) {
  m_waiting = false;
  m_unit = plots.unit;
  const bool any = !plots.decays.curves.empty();
  QStringList words{tr("A click chooses the nearest checkpoint")};
  if (any) words += tr("thick: the chosen head");
  if (!plots.losses.note.empty()) words += QString::fromStdString(plots.losses.note);
  m_reading->setText(words.join(QStringLiteral("; ")));
  m_losses->setPlot(std::move(plots.losses), std::nullopt);
  m_decays->setPlot(std::move(plots.decays), strongCurve());
  m_decays->setVisible(any);
  m_none->setVisible(!any);
  followMark();
}

std::optional<std::size_t> TrainingView::strongCurve() const {
  const OpenTraining* training = m_trainings.shown();
  const HeadChoice head = m_runs.selection().head();
  const Run* run = m_runs.run(head.run);
  if (training == nullptr || run == nullptr || run->plainName() != training->model) return std::nullopt;
  return static_cast<std::size_t>(head.layer * training->record->heads() + head.head);
}

void TrainingView::followHead() { m_decays->setStrong(strongCurve()); }

void TrainingView::followMark() {
  const OpenTraining* training = m_trainings.shown();
  std::optional<double> mark;
  if (training != nullptr) mark = static_cast<double>(training->tokensAt(training->chosen())) / m_unit.tokens;
  for (TrainingPlot* plot : {m_losses, m_decays}) plot->setMark(mark);
  followHead();
}

void TrainingView::chooseNearest(double x) {
  const OpenTraining* training = m_trainings.shown();
  if (training == nullptr) return;
  const auto distance = [&](const TrainingCheckpoint& checkpoint) {
    return std::abs(static_cast<double>(training->tokensAt(checkpoint)) - x * m_unit.tokens);
  };
  const auto nearest = std::ranges::min_element(training->record->checkpoints, {}, distance);
  m_trainings.choose(static_cast<std::size_t>(nearest - training->record->checkpoints.begin()));
}

// The step nearest to the mouse, and what was measured at it.
void TrainingView::tell(double x) {
  const OpenTraining* training = m_trainings.shown();
  if (training == nullptr) return;
  const TrainingRecord& record = *training->record;
  const auto distance = [&](const auto& line) {
    return std::abs(static_cast<double>(line.tokens) - x * m_unit.tokens);
  };
  const auto step = std::ranges::min_element(record.steps, {}, distance);
  const QLocale locale;
  QString words = tr("%1: step %2, %3 tokens, loss %4 nats")
                      .arg(training->title, locale.toString(static_cast<qlonglong>(step->step)),
                           locale.toString(static_cast<qlonglong>(step->tokens)))
                      .arg(step->loss, 0, 'f', 4);
  const auto strong = strongCurve();
  const auto measured = std::ranges::min_element(record.measures, {}, distance);
  if (strong && measured != record.measures.end() && *strong < measured->decay_times.size()) {
    const HeadChoice head = m_runs.selection().head();
    words +=
        tr("; layer %1, head %2 at step %3: decay time %4 tokens")
            .arg(head.layer)
            .arg(head.head)
            .arg(locale.toString(static_cast<qlonglong>(measured->step)), numberText(measured->decay_times[*strong]));
  }
  m_reading->setText(words);
}

bool TrainingView::isSettled() const { return !m_waiting && !m_trainings.computing(); }

void TrainingView::changeEvent(QEvent* event) {
  QWidget::changeEvent(event);
  if (event->type() == QEvent::PaletteChange && m_reading != nullptr) follow();
}

}  // namespace foxscope::gui
