#include "app/gui/window/film/film_export.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>

#include <QLocale>
#include <QMenuBar>
#include <QPainter>
#include <QStatusBar>
#include <QToolBar>

#include "app/figure/film/film_file.h"
#include "app/gui/maps/maps_view.h"
#include "app/gui/training/training_view.h"
#include "app/gui/views/theme.h"
#include "app/gui/window/main_window.h"
#include "app/gui/window/message_bar.h"
#include "backend/base/error.h"

namespace foxscope::gui {
namespace {

constexpr int kLookMs = 30;
constexpr int kFilmCalm = 3;     ///< what one view's answer makes another view ask for has then been asked
constexpr int kCaptionGap = 10;  ///< logical pixels
constexpr int kCaptionBar = 3;

/// The place of a step among the checkpoints of the training that is shown; nothing where it is gone.
std::optional<std::size_t> placeOf(const OpenTraining& training, std::int64_t step) {
  const auto& checkpoints = training.record->checkpoints;
  const auto found = std::ranges::find(checkpoints, step, &TrainingCheckpoint::step);
  if (found == checkpoints.end()) return std::nullopt;
  return static_cast<std::size_t>(found - checkpoints.begin());
}

}  // namespace

/// Pictures on their way from the window's thread to the one that writes them.
class FrameQueue {
 public:
  [[nodiscard]] bool hasRoom() {
    const std::lock_guard lock(m_mutex);
    return m_pictures.size() < kMost;
  }
  void push(QImage picture) {
    const std::lock_guard lock(m_mutex);
    m_pictures.push_back(std::move(picture));
    m_come.notify_one();
  }
  void end() {
    const std::lock_guard lock(m_mutex);
    m_ended = true;
    m_come.notify_one();
  }
  /// There is no film, for this reason.
  void fail(std::string reason) {
    const std::lock_guard lock(m_mutex);
    m_failure = std::move(reason);
    m_come.notify_one();
  }
  /// Waits for the next one. @returns nothing behind the last one, and when it was asked to stop
  /// @throws Error with the reason why there is no film
  std::optional<QImage> take(const std::stop_token& stop) {
    std::unique_lock lock(m_mutex);
    if (!m_come.wait(lock, stop, [this] { return m_ended || !m_failure.empty() || !m_pictures.empty(); }))
      return std::nullopt;
    if (!m_failure.empty()) throw Error(m_failure);
    if (m_pictures.empty()) return std::nullopt;
    QImage picture = std::move(m_pictures.front());
    m_pictures.pop_front();
    return picture;
  }

 private:
  static constexpr std::size_t kMost = 2;
  std::mutex m_mutex;
  std::condition_variable_any m_come;
  std::deque<QImage> m_pictures;
  std::string m_failure;
  bool m_ended = false;
};

FilmExport::FilmExport(MainWindow& window) : QObject(&window), m_window(window) {
  m_clock.setInterval(kLookMs);
  connect(&m_clock, &QTimer::timeout, this, &FilmExport::look);
  connect(&window.document().files(), &FileWriter::notWritten, this, [this](const QString& path) {
    if (path == m_path) end();
  });
}

FilmExport::~FilmExport() = default;

void FilmExport::write(const QString& path) {
  const OpenTraining* training = m_window.trainings().shown();
  Document& document = m_window.document();
  if (training == nullptr || running()) return;
  if (document.runs().empty()) {
    emit document.messageRaised({Message::Kind::warning, document.modelRuns().noRunText()});
    return;
  }
  m_window.training().player().setPlaying(false);
  m_window.training().player().setFollowing(false);
  m_path = path;
  m_folder = training->folder;
  m_before = training->chosen().step;
  m_steps.clear();
  for (const TrainingCheckpoint& checkpoint : training->record->checkpoints) m_steps.push_back(checkpoint.step);
  m_next = 0;
  m_drawing = m_failed = false;
  m_queue = std::make_shared<FrameQueue>();
  document.files().writeFile(path,
                             [queue = m_queue, path, total = m_steps.size()](const Job& job) -> std::optional<bool> {
                               const auto film = figure::makeFilm(path.toStdString());
                               const auto steps = static_cast<std::int64_t>(total);
                               for (std::int64_t n = 0;; ++n) {
                                 const char* const stage = n < steps ? "looking at the steps" : "filming the steps";
                                 job.tell({n, 2 * steps, "steps", stage});
                                 const std::optional<QImage> picture = queue->take(job.stop);
                                 if (job.stopped()) return std::nullopt;
                                 if (!picture) break;
                                 if (!picture->isNull()) film->add(*picture);
                               }
                               film->commit();
                               return true;
                             });
  m_window.trainings().setQuiet(true);
  m_window.trainings().setAhead(true);
  m_clock.start();
  goOn();
}

// The limits of colours are those of all steps only when all have been shown: pictures are taken the second time.
void FilmExport::goOn() {
  m_calm = m_tries = 0;
  const OpenTraining* training = m_window.trainings().shown();
  for (const bool drawing : {m_drawing, true}) {
    if (drawing != m_drawing) m_next = 0;
    m_drawing = drawing;
    for (; m_next < m_steps.size(); ++m_next) {
      // A training that keeps few checkpoints may have removed one meanwhile.
      const auto place = placeOf(*training, m_steps[m_next]);
      if (!place) continue;
      m_window.trainings().choose(*place);
      return;
    }
  }
  m_queue->end();
  end();
}

// The writer ends with the reason: it is the only error, and no file is left.
void FilmExport::fail(const QString& reason) {
  m_failed = true;
  const QString step = QLocale().toString(static_cast<qlonglong>(m_steps[m_next]));
  m_queue->fail(tr("%1: not written, since step %2 cannot be shown: %3").arg(m_path, step, reason).toStdString());
}

void FilmExport::end() {
  if (!running()) return;
  m_clock.stop();
  Trainings& trainings = m_window.trainings();
  trainings.setAhead(false);
  trainings.setQuiet(false);
  const OpenTraining* training = trainings.shown();
  if (training == nullptr || training->folder != m_folder) return;
  if (const auto place = placeOf(*training, m_before)) trainings.choose(*place);
}

void FilmExport::look() {
  if (m_failed) return;
  Trainings& trainings = m_window.trainings();
  const OpenTraining* training = trainings.shown();
  if (training == nullptr || training->folder != m_folder || m_window.document().runs().empty()) {
    // Without what it shows there is no film.
    return m_window.document().files().cancelExport(m_path);
  }
  if (!trainings.failure().isEmpty()) return fail(trainings.failure());
  const bool final = !trainings.computing() && m_window.isDrawn() && m_queue->hasRoom();
  m_calm = final ? m_calm + 1 : 0;
  if (m_calm < kFilmCalm) return;
  const bool wanted = training->chosen().step == m_steps[m_next] && training->shown == training->wanted;
  const auto place = placeOf(*training, m_steps[m_next]);
  // Somebody chose another step meanwhile: this one is tried once more.
  if (!wanted && place) {
    if (m_tries++ > 0) return fail(tr("another one was chosen: export the film again, and let it go by itself"));
    m_calm = 0;
    return trainings.choose(*place);
  }
  if (wanted) m_queue->push(m_drawing ? frame() : QImage());
  ++m_next;
  goOn();
}

// Docks say little of it: one behind a tab keeps a place outside of the window.
QRect FilmExport::area() const {
  QRect area = m_window.rect();
  const auto above = [&](const QWidget& bar) {
    if (bar.isVisible()) area.setTop(std::max(area.top(), bar.geometry().bottom() + 1));
  };
  above(*m_window.menuBar());
  for (const QToolBar* bar : m_window.findChildren<QToolBar*>(QString(), Qt::FindDirectChildrenOnly)) above(*bar);
  if (m_window.statusBar()->isVisible()) area.setBottom(m_window.statusBar()->geometry().top() - 1);
  return area;
}

QImage FilmExport::frame() {
  const QWidget& centre = *m_window.centralWidget();
  const QRect all = area();
  // Messages lie over the window, and are not of the training.
  auto* messages = m_window.findChild<MessageBar*>();
  const bool told = messages->isVisible();
  messages->hide();
  QPixmap shown = m_window.grab(all);
  messages->setVisible(told);
  const QRect maps(m_window.maps().mapTo(&m_window, QPoint()), m_window.maps().size());
  QRect caption(centre.geometry().left(), centre.geometry().top(), centre.width(),
                maps.top() - centre.geometry().top());
  caption.translate(-all.topLeft());
  const OpenTraining& training = *m_window.trainings().shown();
  QPainter painter(&shown);
  painter.fillRect(caption, m_window.palette().color(QPalette::Window));
  const double share = m_steps.size() < 2 ? 1 : static_cast<double>(m_next) / static_cast<double>(m_steps.size() - 1);
  painter.fillRect(QRectF(caption.left(), caption.bottom() + 1 - kCaptionBar, caption.width(), kCaptionBar),
                   lineColour(m_window.palette()));
  painter.fillRect(QRectF(caption.left(), caption.bottom() + 1 - kCaptionBar, share * caption.width(), kCaptionBar),
                   m_window.palette().color(QPalette::Highlight));
  painter.setFont(m_window.font());
  painter.setPen(m_window.palette().color(QPalette::WindowText));
  const QRect room = caption.adjusted(kCaptionGap, 0, -kCaptionGap, -kCaptionBar);
  const QString words = training.title + QStringLiteral(" · ") + captionOf(training, training.chosen());
  painter.drawText(room, Qt::AlignLeft | Qt::AlignVCenter,
                   painter.fontMetrics().elidedText(words, Qt::ElideRight, room.width()));
  painter.end();
  return shown.toImage();
}

}  // namespace foxscope::gui
