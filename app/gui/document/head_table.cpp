#include "app/gui/document/head_table.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <QTimer>

#include "app/gui/document/number_text.h"
#include "app/gui/document/shown_choices.h"
#include "backend/base/index.h"
#include "backend/map/statistics/distance_summary.h"

namespace foxscope::gui {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
constexpr int kFixedColumns = 2;
constexpr int kHeadChannels = 1'000'000;  // more than a run has heads

/// Tells views of new values, of many heads at once: each view goes through all heads, of which a model may have
/// thousands.
void announceLater(HeadTable& table) {
  constexpr int kTogetherMs = 100;
  if (table.findChild<QTimer*>() != nullptr) return;
  auto* timer = new QTimer(&table);
  timer->setSingleShot(true);
  QObject::connect(timer, &QTimer::timeout, &table, [&table, timer] {
    timer->setParent(nullptr);
    timer->deleteLater();
    emit table.valuesChanged();
  });
  timer->start(kTogetherMs);
}

// Below the channels of heads.
int pinChannel(RunId run) { return -1 - run; }

std::size_t labelIndex(HeadQuantity quantity) {
  return static_cast<std::size_t>(quantity) - static_cast<std::size_t>(kQuantitiesBesideScores);
}

bool isScore(HeadQuantity quantity) {
  return quantity >= HeadQuantity::firstScore && quantity < HeadQuantity::saliencyAbsolute;
}

SaliencyNumber saliencyNumber(HeadQuantity quantity) {
  if (quantity == HeadQuantity::saliencyScale) return SaliencyNumber::scale;
  return quantity == HeadQuantity::saliencyPerNat ? SaliencyNumber::per_nat : SaliencyNumber::absolute;
}

double statisticOf(const HeadStatistics& statistics, HeadQuantity quantity) {
  const bool attention = statistics.has_attention;
  if (isScore(quantity)) return statistics.label_scores[labelIndex(quantity)];
  switch (quantity) {
    case HeadQuantity::rateDecayTime:
      return statistics.rate_decay_time;
    case HeadQuantity::backwardHorizon:
      return statistics.backward_horizon[0].median;
    case HeadQuantity::forwardSurvival:
      return statistics.forward_survival[0].median;
    case HeadQuantity::halfLife:
      return statistics.backward_horizon[1].median;
    case HeadQuantity::distance50:
      return attention ? statistics.distance.d50 : kUnknown;
    case HeadQuantity::distance90:
      return attention ? statistics.distance.d90 : kUnknown;
    case HeadQuantity::entropy:
      return attention ? statistics.entropy : kUnknown;
    case HeadQuantity::massOnFirst:
      return attention ? statistics.mass_on_first : kUnknown;
    case HeadQuantity::massOnSink:
      return statistics.mass_on_sink.value_or(kUnknown);
    case HeadQuantity::saliencyAbsolute:
    case HeadQuantity::saliencyScale:
    case HeadQuantity::saliencyPerNat:
      return statistics.saliency ? value_of(*statistics.saliency, saliencyNumber(quantity)) : kUnknown;
    default:
      return kUnknown;
  }
}

QString saliencyName(HeadQuantity quantity) { return QString::fromLatin1(to_string(saliencyNumber(quantity))); }

double pinnedValue(const PairReading& reading, HeadQuantity quantity) {
  switch (quantity) {
    case HeadQuantity::pinnedForget:
      return reading.forget;
    case HeadQuantity::pinnedAttention:
      return reading.has_attention ? reading.attention : kUnknown;
    case HeadQuantity::pinnedSurvival:
      return reading.forward_survival;
    default:
      return kUnknown;
  }
}

}  // namespace

int headChannel(const HeadChoice& head, const TraceInfo& info) {
  return head.run * kHeadChannels + head.layer * info.heads + head.head;
}

HeadQuantity scoreOf(HeadLabel label) {
  return static_cast<HeadQuantity>(kQuantitiesBesideScores + static_cast<int>(label));
}

bool isSaliency(HeadQuantity quantity) {
  return quantity >= HeadQuantity::saliencyAbsolute && quantity <= HeadQuantity::saliencyPerNat;
}

bool isOfGate(HeadQuantity quantity) {
  switch (quantity) {
    case HeadQuantity::rateDecayTime:
    case HeadQuantity::backwardHorizon:
    case HeadQuantity::forwardSurvival:
    case HeadQuantity::halfLife:
    case HeadQuantity::pinnedForget:
    case HeadQuantity::pinnedSurvival:
      return true;
    default:
      return false;
  }
}

QString nameOf(HeadLabel label) { return QString::fromUtf8(text_of(label).name); }

QString meaningOf(HeadLabel label) {
  return HeadTable::tr(
             "%1; scores of %2 and more get the label. They depend on the length: of a longer text a head may have "
             "others")
      .arg(QString::fromUtf8(text_of(label).definition))
      .arg(text_of(label).threshold);
}

HeadQuantityText textOf(HeadQuantity quantity) {
  if (isScore(quantity)) {
    const auto label = static_cast<HeadLabel>(labelIndex(quantity));
    return {HeadTable::tr("%1, score").arg(nameOf(label)), {}, false, false, meaningOf(label)};
  }
  const auto tr = [](const char* text) { return HeadTable::tr(text); };
  switch (quantity) {
    case HeadQuantity::rateDecayTime:
      return {tr("decay time"), tr("tokens"), false, true,
              tr("−1 / mean(log f): after so many tokens 1/e (37 %) of a token is left")};
    case HeadQuantity::backwardHorizon:
      return {tr("memory back"), tr("tokens"), false, true,
              tr("backward horizon: how far back F stays above 1/e, median over queries")};
    case HeadQuantity::forwardSurvival:
      return {tr("memory ahead"), tr("tokens"), false, true,
              tr("forward survival: how far ahead a key's F stays above 1/e, median over keys")};
    case HeadQuantity::halfLife:
      return {tr("half-life"), tr("tokens"), false, true, tr("how far back F stays above 1/2, median over queries")};
    case HeadQuantity::distance50:
      return {tr("distance of 50 % of A"), tr("tokens"), false, true,
              tr("half of the attention mass is no further away; 0: on the token itself")};
    case HeadQuantity::distance90:
      return {tr("distance of 90 % of A"), tr("tokens"), false, true,
              tr("nine tenths of the attention mass are no further away; 0: on the token itself")};
    case HeadQuantity::entropy:
      return {tr("entropy"), tr("nats"), false, false, tr("of a row of attention, mean over queries")};
    case HeadQuantity::massOnFirst:
      return {tr("mass on key 0"), {}, false, true, tr("share of attention on the first position, mean over queries")};
    case HeadQuantity::massOnSink:
      return {
          tr("mass on the sink"),
          {},
          false,
          true,
          tr("share of attention on the sink, a logit of the head without a token, mean over queries; only heads with "
             "sinks have it")};
    case HeadQuantity::pinnedForget:
      // Linear: on a logarithmic scale a head that kept a thousandth looks half alive.
      return {tr("F(i, j) of the pin"),
              {},
              true,
              false,
              tr("what the gates between the pinned key and query let through"),
              false,
              true};
    case HeadQuantity::pinnedAttention:
      return {tr("A(i, j) of the pin"), {}, true, true, tr("attention of the pinned query on the pinned key")};
    case HeadQuantity::pinnedSurvival:
      return {tr("survival of the pinned key"), tr("tokens"), true, true,
              tr("how far ahead the pinned key's F stays above 1/e")};
    case HeadQuantity::saliencyAbsolute:
      return {
          saliencyName(quantity), tr("nats"), false, true,
          tr("sum over positions of |g log f|, g being the gradient of the loss by log f: how much small changes of "
             "the head's forgetting move the loss, not what the head does without a gate")};
    case HeadQuantity::saliencyScale:
      return {
          saliencyName(quantity),
          tr("nats"),
          false,
          false,
          tr("sum over positions of g log f, g being the gradient of the loss by log f: with all log f 10 % smaller "
             "the loss changes by -0.1 of it, to first order"),
          true};
    case HeadQuantity::saliencyPerNat:
      return {saliencyName(quantity), tr("nats of loss per nat of log f"), false, true,
              tr("mean over positions of |g|, g being the gradient of the loss by log f: it is large where f is near "
                 "1, and does not measure how much a head's forgetting matters")};
    case HeadQuantity::firstScore:
      break;
  }
  return {};
}

QString valueText(HeadQuantity quantity, double value, Unit unit) {
  if (std::isnan(value)) return QStringLiteral("–");
  if (std::isinf(value)) return unit == Unit::with ? HeadTable::tr("never forgets") : QStringLiteral("∞");
  const HeadQuantityText text = textOf(quantity);
  const bool whole = std::abs(value) >= 1000 && std::abs(value) < 1e7;
  const QString number = whole ? QString::number(value, 'f', 0) : QString::number(value, 'g', 3);
  const QString written = withPowers(number);
  return unit == Unit::without || text.unit.isEmpty() ? written : written + ' ' + text.unit;
}

HeadTable::HeadTable(RunList& runs, QObject* parent) : QAbstractTableModel(parent), m_runs(runs) {
  connect(&m_runs, &RunList::runsChanged, this, &HeadTable::followRuns);
  connect(&m_runs, &RunList::referenceChanged, this, &HeadTable::followPin);
  connect(&m_runs.selection(), &Selection::pinChanged, this, &HeadTable::followPin);
  followRuns();
}

int HeadTable::total() const {
  int heads = 0;
  for (const Run& run : m_runs) {
    // Layers of several kinds need not have equally many.
    const TraceInfo& info = run.trace->info();
    for (int layer = 0; layer < info.layers; ++layer) heads += shown_heads(info.mixer(layer));
  }
  return heads;
}

void HeadTable::followRuns() {
  beginResetModel();
  const auto gone = [&](RunId id) { return m_runs.run(id) == nullptr; };
  std::erase_if(m_known, [&](const auto& entry) { return gone(entry.first.run); });
  std::erase_if(m_pinned, [&](const auto& entry) { return gone(entry.first); });
  std::erase_if(m_requested, gone);
  if (gone(m_run)) m_run = m_runs.reference() != nullptr ? m_runs.reference()->id : kNoRun;
  listRows();
  endResetModel();
  for (const Run& run : m_runs) {
    if (std::find(m_requested.begin(), m_requested.end(), run.id) != m_requested.end()) continue;
    m_requested.push_back(run.id);
    requestStatistics(run);
  }
  followPin();
  emit valuesChanged();
}

void HeadTable::listRows() {
  m_rows.clear();
  if (const Run* const shown = m_runs.run(m_run)) {
    forShownHeads(*shown, [&](const HeadChoice& head) { m_rows.push_back(head); });
  }
}

// Gates take milliseconds a head and are there at once; attention takes a pass over all of it.
void HeadTable::requestStatistics(const Run& run) {
  forShownHeads(run, [&](const HeadChoice& choice) {
    request(choice, {.with_attention = false}, m_runs.quickJobs());
    request(choice, {.with_attention = true}, m_runs.jobs());
  });
}

void HeadTable::request(const HeadChoice& choice, const StatisticsOptions& options, JobRunner& runner) {
  const Run& run = *m_runs.run(choice.run);
  JobRunner::Request<Known> request;
  request.priority = Priority::background;
  request.work = [of = HeadOf{run.trace, choice.layer, choice.head}, options](const Job& job) -> std::optional<Known> {
    auto statistics = head_statistics(of, options, job);
    if (!statistics) return std::nullopt;
    Known known{std::move(*statistics), {}};
    if (known.statistics.has_attention) known.sketch = distance_summary(of, known.statistics).sketch;
    known.statistics.distance.mass = {};
    known.statistics.distance_without_first.mass = {};
    return known;
  };
  request.done = [this, choice](Known known) {
    const auto before = m_known.find(choice);
    const bool lessThanBefore =
        before != m_known.end() && before->second.statistics.has_attention && !known.statistics.has_attention;
    if (m_runs.run(choice.run) == nullptr || lessThanBefore) return;
    const bool isLast = before == m_known.end() && this->known() + 1 == total();
    m_known[choice] = std::move(known);
    const int row = rowOf(choice);
    if (row >= 0) emit dataChanged(index(row, 0), index(row, columnCount() - 1));
    if (isLast) {
      emit valuesChanged();
    } else {
      announceLater(*this);
    }
  };
  // A statistic that cannot be computed stays unknown; views of that head say why.
  request.failed = [](const QString&) {};
  runner.submit(this, headChannel(choice, run.trace->info()), std::move(request));
}

void HeadTable::followPin() {
  const Cursor pin = m_runs.selection().pin();
  m_pinned.clear();
  for (const Run& run : m_runs) {
    const auto key = pin.key ? m_runs.positionIn(run.id, *pin.key) : std::nullopt;
    // How long a key survives is known without a query.
    const auto query = pinnedPairOf(run.id) ? m_runs.positionIn(run.id, *pin.query) : key;
    if (!query || !key) {
      m_runs.quickJobs().cancel(this, pinChannel(run.id));
      continue;
    }
    JobRunner::Request<std::vector<std::optional<PairReading>>> request;
    request.work = [trace = run.trace, query = *query, key = *key](const Job& job) {
      std::optional<std::vector<std::optional<PairReading>>> readings;
      readings.emplace();
      const TraceInfo& info = trace->info();
      for (int layer = 0; layer < info.layers; ++layer) {
        for (int head = 0; head < info.heads; ++head) {
          if (job.stopped()) return decltype(readings)();
          const bool there = head < info.mixer(layer).heads && head % shown_step(info.mixer(layer)) == 0;
          readings->push_back(there ? std::optional(pair_reading({trace, layer, head}, query, key)) : std::nullopt);
        }
      }
      return readings;
    };
    request.done = [this, id = run.id](std::vector<std::optional<PairReading>> readings) {
      takePinned(id, std::move(readings));
    };
    request.failed = [](const QString&) {};
    m_runs.quickJobs().submit(this, pinChannel(run.id), std::move(request));
  }
  emit valuesChanged();
}

// A key after the query is no pair.
bool HeadTable::pinnedPairOf(RunId run) const {
  const Cursor pin = m_runs.selection().pin();
  if (!pin.query || !pin.key) return false;
  const auto query = m_runs.positionIn(run, *pin.query);
  const auto key = m_runs.positionIn(run, *pin.key);
  return query && key && *key <= *query;
}

void HeadTable::takePinned(RunId run, std::vector<std::optional<PairReading>> readings) {
  m_pinned[run] = std::move(readings);
  if (run == m_run && rowCount() > 0) emit dataChanged(index(0, 0), index(rowCount() - 1, columnCount() - 1));
  emit valuesChanged();
}

void HeadTable::setRun(RunId run) {
  if (run == m_run || m_runs.run(run) == nullptr) return;
  beginResetModel();
  m_run = run;
  listRows();
  endResetModel();
  emit valuesChanged();
}

const HeadStatistics* HeadTable::statistics(const HeadChoice& head) const {
  const auto found = m_known.find(head);
  return found == m_known.end() ? nullptr : &found->second.statistics;
}

double HeadTable::value(const HeadChoice& head, HeadQuantity quantity) const {
  if (textOf(quantity).ofPin) {
    const auto found = m_pinned.find(head.run);
    const Run* run = m_runs.run(head.run);
    if (found == m_pinned.end() || run == nullptr) return kUnknown;
    const auto place = static_cast<std::size_t>(head.layer) * static_cast<std::size_t>(run->trace->info().heads) +
                       static_cast<std::size_t>(head.head);
    if (place >= found->second.size() || !found->second[place]) return kUnknown;
    if (quantity != HeadQuantity::pinnedSurvival && !pinnedPairOf(head.run)) return kUnknown;
    return pinnedValue(*found->second[place], quantity);
  }
  const HeadStatistics* known = statistics(head);
  return known == nullptr ? kUnknown : statisticOf(*known, quantity);
}

std::optional<HeadChoice> HeadTable::nearestHead(const HeadChoice& head, RunId other) const {
  const auto of = m_known.find(head);
  if (of == m_known.end() || !of->second.statistics.has_attention) return std::nullopt;
  std::optional<HeadChoice> nearest;
  double least = std::numeric_limits<double>::infinity();
  for (const auto& [choice, known] : m_known) {
    if (choice.run != other || choice == head || !known.statistics.has_attention) continue;
    const double apart = octaves_apart(of->second.sketch, known.sketch);
    if (apart < least) {
      least = apart;
      nearest = choice;
    }
  }
  return nearest;
}

double HeadTable::difference(const HeadChoice& head, RunId other, HeadQuantity quantity) const {
  const auto nearest = nearestHead(head, other);
  if (!nearest) return kUnknown;
  const double a = value(head, quantity);
  const double b = value(*nearest, quantity);
  return std::isfinite(a) && std::isfinite(b) ? a - b : kUnknown;
}

std::vector<HeadLabel> HeadTable::labels(const HeadChoice& head) const {
  const HeadStatistics* known = statistics(head);
  return known == nullptr ? std::vector<HeadLabel>() : labels_of(known->label_scores);
}

QString HeadTable::labelsTold(const HeadChoice& head) const {
  const HeadStatistics* known = statistics(head);
  if (known == nullptr || !known->has_attention) return {};
  QString text = QStringLiteral("<table>");
  for (int number = 0; number < kHeadLabels; ++number) {
    const auto label = static_cast<HeadLabel>(number);
    const double score = known->label_scores[index_of(number)];
    const bool has = score >= text_of(label).threshold;
    const QString name = nameOf(label).toHtmlEscaped();
    text += QStringLiteral("<tr><td>%1&nbsp;&nbsp;</td><td align='right'>%2&nbsp;&nbsp;</td><td>%3</td></tr>")
                .arg(has ? QStringLiteral("<b>%1</b>").arg(name) : name, valueText(scoreOf(label), score),
                     meaningOf(label).toHtmlEscaped());
  }
  return text + QStringLiteral("</table>");
}

QVariant HeadTable::labelsData(const HeadChoice& head, int role) const {
  const std::vector<HeadLabel> had = labels(head);
  switch (role) {
    case Qt::DisplayRole: {
      if (!had.empty()) return QString::fromStdString(names_of(had, ", "));
      const HeadStatistics* known = statistics(head);
      return known != nullptr && known->has_attention ? QString() : QStringLiteral("–");
    }
    case Qt::ToolTipRole:
      return labelsTold(head);
    case LabelsRole: {
      int bits = 0;
      for (const HeadLabel label : had) bits |= 1 << static_cast<int>(label);
      return bits;
    }
    case OrderRole: {
      // Heads of one label stand together, the strongest first where the order descends.
      if (had.empty()) return kUnknown;
      const auto first = static_cast<int>(had.front());
      const double score = statistics(head)->label_scores[index_of(first)];
      return kHeadLabels - first + score / 2;
    }
    default:
      return {};
  }
}

int HeadTable::rowOf(const HeadChoice& head) const {
  const auto found = std::lower_bound(m_rows.begin(), m_rows.end(), head, Order());
  return found == m_rows.end() || *found != head ? -1 : static_cast<int>(found - m_rows.begin());
}

int HeadTable::rowCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : static_cast<int>(m_rows.size());
}

int HeadTable::columnCount(const QModelIndex& parent) const { return parent.isValid() ? 0 : kLabelsColumn + 1; }

QVariant HeadTable::data(const QModelIndex& index, int role) const {
  if (!index.isValid()) return {};
  const HeadChoice head = m_rows[index_of(index.row())];
  if (role == HeadRole) return QVariant::fromValue(head);
  if (role == OrderRole && index.column() != kLabelsColumn) role = ValueRole;
  if (index.column() == kLabelsColumn || role == LabelsRole) return labelsData(head, role);
  if (role == Qt::TextAlignmentRole) return QVariant(Qt::AlignRight | Qt::AlignVCenter);
  const int column = index.column();
  if (column < kFixedColumns) {
    const int number = column == 0 ? head.layer : head.head;
    if (role == Qt::DisplayRole || role == ValueRole) return number;
    return {};
  }
  const auto quantity = static_cast<HeadQuantity>(column - kFixedColumns);
  if (role == ValueRole) return value(head, quantity);
  if (role == Qt::DisplayRole) return valueText(quantity, value(head, quantity), Unit::without);
  return {};
}

QString termOf(HeadQuantity quantity) {
  switch (quantity) {
    case HeadQuantity::rateDecayTime:
      return QStringLiteral("decay-time");
    case HeadQuantity::backwardHorizon:
    case HeadQuantity::forwardSurvival:
    case HeadQuantity::halfLife:
    case HeadQuantity::pinnedSurvival:
      return QStringLiteral("horizon");
    case HeadQuantity::distance50:
    case HeadQuantity::distance90:
      return QStringLiteral("distance");
    case HeadQuantity::entropy:
    case HeadQuantity::massOnFirst:
    case HeadQuantity::massOnSink:
      return QStringLiteral("entropy");
    case HeadQuantity::pinnedForget:
      return QStringLiteral("forget");
    case HeadQuantity::pinnedAttention:
      return QStringLiteral("attention");
    case HeadQuantity::saliencyAbsolute:
    case HeadQuantity::saliencyScale:
    case HeadQuantity::saliencyPerNat:
      return QStringLiteral("saliency");
    case HeadQuantity::firstScore:
      break;
  }
  return QStringLiteral("labels");  // the scores of all of them
}

QVariant HeadTable::headerData(int section, Qt::Orientation orientation, int role) const {
  if (orientation != Qt::Horizontal) return {};
  if (section < kFixedColumns) {
    // Heads are called L7 H2 everywhere: a narrow table has room for their numbers.
    if (role == Qt::DisplayRole) return section == 0 ? tr("L") : tr("H");
    const bool words = role == Qt::AccessibleTextRole || role == Qt::ToolTipRole;
    return words ? QVariant(section == 0 ? tr("layer") : tr("head")) : QVariant();
  }
  if (section == kLabelsColumn) {
    if (role == Qt::DisplayRole) return tr("labels");
    return role == Qt::ToolTipRole ? QVariant(tr("What the head does, the strongest label first")) : QVariant();
  }
  const HeadQuantityText text = textOf(static_cast<HeadQuantity>(section - kFixedColumns));
  if (role == Qt::DisplayRole)
    return text.unit.isEmpty() ? text.name : text.name + QStringLiteral("\n(%1)").arg(text.unit);
  if (role == Qt::ToolTipRole) return text.meaning;
  if (role == Qt::WhatsThisRole) return termOf(static_cast<HeadQuantity>(section - kFixedColumns));
  return {};
}

}  // namespace foxscope::gui
