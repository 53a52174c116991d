#include "app/gui/window/readout.h"

#include <QPainter>
#include <QStyle>

#include "app/gui/document/number_text.h"
#include "backend/base/index.h"

namespace foxscope::gui {
namespace {

enum Channel { kPair };

QString number(double value) { return numberOf(value, 3); }

}  // namespace

Readout::Readout(RunList& runs, QWidget* parent) : QLabel(parent), m_runs(runs) {
  setTextFormat(Qt::PlainText);
  setAccessibleName(tr("Read-out of the cursor"));
  // A long token must not widen the window.
  setSizePolicy(QSizePolicy::Ignored, QSizePolicy::Fixed);
  const Selection& selection = m_runs.selection();
  connect(&selection, &Selection::hoverChanged, this, &Readout::follow);
  connect(&selection, &Selection::pinChanged, this, &Readout::follow);
  connect(&selection, &Selection::headChanged, this, &Readout::follow);
  connect(&m_runs, &RunList::runsChanged, this, &Readout::follow);
  follow();
}

void Readout::follow() {
  m_reading.reset();
  const Cursor cursor = m_runs.selection().cursor();
  const HeadChoice choice = m_runs.selection().head();
  const auto head = m_runs.headOf(choice);
  const auto query = cursor.query ? m_runs.positionIn(choice.run, *cursor.query) : std::nullopt;
  const auto key = cursor.key ? m_runs.positionIn(choice.run, *cursor.key) : std::nullopt;
  if (!head || !query || !key) {
    m_runs.quickJobs().cancel(this, kPair);
    return tell();
  }
  JobRunner::Request<PairReading> request;
  request.work = [of = *head, i = *query, j = *key](const Job&) { return std::optional(pair_reading(of, i, j)); };
  request.done = [this](const PairReading& reading) {
    m_reading = reading;
    tell();
  };
  request.failed = [this](const QString& message) { setText(message); };
  m_runs.quickJobs().submit(this, kPair, std::move(request));
  tell();
}

QString Readout::positionText(const Run& run, std::int64_t position) const {
  const auto own = m_runs.positionIn(run.id, position);
  if (!own) return tr("%1, which %2 has not read").arg(position).arg(run.name);
  return QStringLiteral("%1 %2").arg(*own).arg(readText(*run.trace->tokens(), *own, Whitespace::visible));
}

void Readout::tell() {
  const Cursor cursor = m_runs.selection().cursor();
  const HeadChoice choice = m_runs.selection().head();
  const Run* run = m_runs.run(choice.run);
  if (run == nullptr || (!cursor.query && !cursor.key)) return clear();
  QStringList parts;
  if (cursor.query) {
    QString part = tr("query %1").arg(positionText(*run, *cursor.query));
    if (const auto query = m_runs.positionIn(run->id, *cursor.query)) {
      const QString token = predictedText(*run->trace->tokens(), *query, Whitespace::visible);
      if (!token.isEmpty()) part += tr(" → predicts %1").arg(token);
      const auto losses = run->trace->per_token_loss();
      if (static_cast<std::size_t>(*query) < losses.size()) {
        part += tr(", loss %1 nats").arg(number(static_cast<double>(losses[index_of(*query)])));
      }
    }
    parts += part;
  }
  if (cursor.key) parts += tr("key %1").arg(positionText(*run, *cursor.key));
  if (m_reading) {
    const auto query = m_runs.positionIn(run->id, *cursor.query);
    const auto key = m_runs.positionIn(run->id, *cursor.key);
    if (query && key) parts += tr("distance %1").arg(*query - *key);
    parts += tr("layer %1, head %2").arg(choice.layer).arg(choice.head);
    if (m_reading->has_mixing) parts += QStringLiteral("M %1").arg(number(m_reading->mixing));
    const LayerMixer mixer = run->trace->info().mixer(choice.layer);
    const QString means = mixer.decays_by_channel() ? tr(" (mean of channels)") : QString();
    if (mixer.decays()) {
      parts += QStringLiteral("F %1%2").arg(number(m_reading->forget), means);
      parts += tr("log F %1 nats%2").arg(number(m_reading->log_forget), means);
    }
    if (m_reading->has_attention) {
      // A model without attention has the share of its row's |M| there.
      const QString name = m_reading->has_mixing ? tr("|M| share") : QStringLiteral("A");
      parts += QStringLiteral("%1 %2").arg(name, number(m_reading->attention));
      if (!m_reading->has_mixing) parts += tr("logit %1 nats").arg(number(m_reading->logit));
      if (m_reading->sink_share) parts += tr("on the sink %1").arg(number(*m_reading->sink_share));
    }
  }
  setText(parts.join(QStringLiteral("  ·  ")));
  setToolTip(text());
}

void Readout::paintEvent(QPaintEvent* /*event*/) {
  QPainter painter(this);
  style()->drawItemText(&painter, contentsRect(), Qt::AlignLeft | Qt::AlignVCenter, palette(), isEnabled(),
                        fontMetrics().elidedText(text(), Qt::ElideRight, contentsRect().width()), foregroundRole());
}

}  // namespace foxscope::gui
