#include "app/gui/maps/pane/pane_pictures.h"

#include <algorithm>
#include <utility>

namespace foxscope::gui {
namespace {

/// Entries of attention that a linear picture may leave out; no colour shows less (docs/maps.md).
constexpr double kLinearTolerance = 0x1p-24;
/// Entries that a logarithmic picture may leave out: its colours begin above (makeExactPicture). Another number than a
/// linear picture's, which has not looked at entries between the two.
constexpr double kLogarithmicTolerance = 0x1p-25;
/// Up to so many entries the exact picture is there as soon as a coarse one would be.
constexpr double kQuickEntries = 1 << 20;
/// An exact picture that is there within so many milliseconds needs none before it: that would cost more than it shows.
constexpr double kSoonMs = 30;
/// The same of one from another machine: so long it is waited for, rather than asked anew for each step of a pan.
constexpr double kSoonFromThereMs = 600;
/// How long an exact picture may take before its progress is told.
constexpr qint64 kQuietMs = 250;

double entriesOf(const View& view) {
  return static_cast<double>(view.rows.size()) * static_cast<double>(view.columns.size());
}

bool quick(const PictureRequest& request) {
  return request.content.hasClosedForm() || entriesOf(request.view) <= kQuickEntries;
}

/// The picture's values are those that the request would give.
bool answers(const PictureRequest& answered, const PictureRequest& wanted) {
  return answered.content == wanted.content && answered.view == wanted.view && answered.pixels == wanted.pixels &&
         answered.skipTolerance <= wanted.skipTolerance && answered.shades() == wanted.shades();
}

}  // namespace

PanePictures::PanePictures(RunList& runs, std::function<Shading()> shading)
    : m_runs(runs), m_shading(std::move(shading)) {}

// Quick pictures on logarithmic scales leave nothing out: they have nothing to gain.
double PanePictures::toleranceOf(const PictureRequest& request) {
  if (request.content.hasClosedForm()) return 0;
  const ColourState& colours = request.shading.colours;
  if (request.shading.scale == figure::ColourScale::linear) return kLinearTolerance;
  if (quick(request) || request.content.sides.size() > 1) return 0;
  const double tolerance = std::min(kLogarithmicTolerance, colours.lower.value_or(kLogarithmicTolerance));
  return std::max(0.0, std::min(tolerance, colours.blankBelow.value_or(tolerance)));
}

bool PanePictures::soon(const PictureRequest& request) const {
  if (quick(request)) return true;
  if (!m_exact || m_exact->request.content != request.content) return false;
  const double soon = request.content.isElsewhere() ? kSoonFromThereMs : kSoonMs;
  return m_exact->milliseconds * entriesOf(request.view) <= soon * entriesOf(m_exact->request.view);
}

bool PanePictures::isExact() const { return m_exact && m_wanted && answers(m_exact->request, *m_wanted); }

std::vector<PicturePointer> PanePictures::layers() const {
  std::vector<PicturePointer> pictures;
  if (m_coarse) pictures.push_back(m_coarse);
  if (m_exact) pictures.push_back(m_exact);
  if (pictures.size() == 2 && m_coarse->tokensPerPixel() < m_exact->tokensPerPixel())
    std::swap(pictures[0], pictures[1]);
  return pictures;
}

void PanePictures::clear() {
  cancel();
  m_wanted.reset();
  m_exact.reset();
  m_coarse.reset();
  m_firstDue = false;
}

bool PanePictures::drop(const std::function<bool(const PictureContent& content)>& isGone) {
  bool gone = false;
  for (PicturePointer* picture : {&m_exact, &m_coarse}) {
    if (!*picture || !isGone((*picture)->request.content)) continue;
    picture->reset();
    gone = true;
  }
  return gone;
}

void PanePictures::announcePainted() {
  if (std::exchange(m_firstPending, false)) emit firstPictureShown();
  if (std::exchange(m_exactPending, false)) emit exactPictureShown();
}

void PanePictures::want(const PictureRequest& wanted) {
  if (!m_wanted || !answers(*m_wanted, wanted)) {
    m_firstDue = true;
    emit told({});
  }
  m_wanted = wanted;
  // Pictures of another range are welcome while the range moves; of other values they are not.
  const auto stale = [&](const std::optional<PictureRequest>& flight) {
    return flight && (flight->content != wanted.content || flight->skipTolerance > wanted.skipTolerance);
  };
  if (stale(m_coarseFlight) || stale(m_exactFlight)) cancel();
  if (m_exact && answers(m_exact->request, wanted)) {
    cancel();
    m_firstDue = false;
    m_coarse.reset();
    emit picturesChanged();
    return recolour();
  }
  recolour();
  // From another machine the exact picture comes by itself from coarse to fine.
  if (m_exactFlight && answers(*m_exactFlight, wanted)) return;
  if (soon(wanted) || wanted.content.isElsewhere()) {
    // A picture on its way is waited for, if that is not long.
    if (!m_exactFlight || !soon(*m_exactFlight)) submitExact(wanted, Priority::interactive);
    return;
  }
  m_runs.jobs().cancel(this, kExact);
  m_exactFlight.reset();
  // The one that is on its way asks again when it is there.
  if (m_coarseFlight) return;
  submitCoarse(wanted);
  submitExact(wanted, Priority::refining);
}

void PanePictures::submitCoarse(const PictureRequest& wanted) {
  m_coarseFlight = wanted;
  const PicturePointer beside =
      m_exact && m_exact->request.content == wanted.content && m_exact->request.shading == wanted.shading ? m_exact
                                                                                                          : nullptr;
  JobRunner::Request<PicturePointer> job;
  job.work = [wanted, beside](const Job& running) { return makeCoarsePicture(wanted, beside, running); };
  job.done = [this](const PicturePointer& picture) {
    m_coarseFlight.reset();
    take(picture);
    if (m_exactFlight) return;
    if (m_wanted && answers(picture->request, *m_wanted)) {
      submitExact(*m_wanted, Priority::refining);
    } else {
      emit outdated();
    }
  };
  job.failed = [this](const QString& message) { fail(message); };
  m_runs.jobs().submit(this, kCoarse, std::move(job));
}

void PanePictures::submitExact(const PictureRequest& wanted, Priority priority) {
  m_exactFlight = wanted;
  m_exactSince.start();
  JobRunner::Request<PicturePointer> job;
  job.stages = [wanted](const Job& running, const std::function<void(PicturePointer)>& show) {
    return makeExactPicture(wanted, running, {show});
  };
  job.shown = [this](const PicturePointer& picture) { take(picture); };
  job.progress = [this](const JobProgress& progress) { showProgress(progress); };
  job.done = [this](const PicturePointer& picture) {
    m_exactFlight.reset();
    m_progress.clear();
    take(picture);
    if (!m_wanted || !answers(picture->request, *m_wanted)) emit outdated();
  };
  job.failed = [this](const QString& message) { fail(message); };
  job.priority = priority;
  m_runs.jobs().submit(this, kExact, std::move(job));
}

void PanePictures::showProgress(const JobProgress& progress) {
  constexpr double kPercent = 100;
  // A picture that is there in a moment needs no progress.
  if (progress.fraction < 0 || m_exactSince.elapsed() < kQuietMs) return;
  m_progress = tr("%1 %2 %").arg(progress.stage).arg(static_cast<int>(progress.fraction * kPercent));
  emit progressed();
}

void PanePictures::cancel() {
  m_progress.clear();
  m_runs.jobs().cancel(this, kCoarse);
  m_runs.jobs().cancel(this, kExact);
  m_coarseFlight.reset();
  m_exactFlight.reset();
}

void PanePictures::take(const PicturePointer& picture) {
  // A first picture that is not painted yet is painted before a better one takes its place.
  if (m_firstPending && picture->exact) emit overtaken();
  if (m_exact && m_exact->request.content != picture->request.content) m_exact.reset();
  m_coarse.reset();
  (picture->exact ? m_exact : m_coarse) = picture;
  emit told({});
  const bool wanted = m_wanted && answers(picture->request, *m_wanted);
  if (m_firstDue && m_wanted && picture->request.content == m_wanted->content) {
    m_firstDue = false;
    m_firstPending = true;
  }
  if (picture->exact && wanted) m_exactPending = true;
  emit picturesChanged();
  recolour();
}

void PanePictures::fail(const QString& message) {
  cancel();
  m_firstDue = false;
  emit told(message);
  emit progressed();
}

void PanePictures::recolour() {
  const Shading wanted = m_shading();
  if (m_colourFlight && *m_colourFlight == wanted) return;
  if (m_refused == wanted) return;
  // A picture that another one is about to replace keeps its colours: they would not suit it.
  const auto current = [&](const PicturePointer& picture) {
    return !picture || picture->request.shading == wanted || !m_wanted || picture->request.content != m_wanted->content;
  };
  if (current(m_exact) && current(m_coarse)) {
    m_runs.quickJobs().cancel(this, kColours);
    m_colourFlight.reset();
    return;
  }
  m_colourFlight = wanted;
  struct Both {
    PicturePointer exact;
    PicturePointer coarse;
  };
  JobRunner::Request<Both> job;
  const Both from{m_exact, m_coarse};
  job.work = [from, wanted](const Job&) {
    Both to;
    if (from.exact) to.exact = recoloured(*from.exact, wanted);
    if (from.coarse) to.coarse = recoloured(*from.coarse, wanted);
    return std::optional(to);
  };
  job.done = [this, from](const Both& to) {
    m_colourFlight.reset();
    if (m_exact == from.exact) m_exact = to.exact;
    if (m_coarse == from.coarse) m_coarse = to.coarse;
    emit picturesChanged();
    recolour();
  };
  job.failed = [this, wanted](const QString& message) {
    // Asking again would fail again: the colours stay as they are until others are chosen.
    m_colourFlight.reset();
    m_refused = wanted;
    emit told(message);
    emit progressed();
  };
  m_runs.quickJobs().submit(this, kColours, std::move(job));
}

}  // namespace foxscope::gui
