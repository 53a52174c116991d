#include "app/gui/maps/position_ticker.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "app/figure/maps/map_layout.h"
#include "app/gui/document/number_text.h"

namespace foxscope::gui {
namespace {

/// Characters of a token that a label shows; most tokens are shorter.
constexpr int kLongestLabel = 9;

std::int64_t roundStep(double least) {
  std::int64_t decade = 1;
  for (;; decade *= 10) {
    for (const std::int64_t step : {1, 2, 5}) {
      if (static_cast<double>(step * decade) >= least) return step * decade;
    }
  }
}

}  // namespace

std::int64_t AxisRun::covered() const {
  if (fromReference) return fromReference->covered();
  return tokens ? static_cast<std::int64_t>(tokens->input_id.size()) : std::numeric_limits<std::int64_t>::max();
}

Range AxisRun::own(const Range& ofReference) const {
  if (fromReference) return fromReference->part(ofReference);
  const std::int64_t end = std::min(ofReference.end, covered());
  return ofReference.begin < end ? Range{ofReference.begin, end} : Range{0, 0};
}

std::int64_t AxisRun::own(std::int64_t ofReference) const {
  return fromReference ? (*fromReference)(ofReference).value_or(0) : ofReference;
}

QString PositionTicker::labelOf(std::int64_t own) const {
  if (m_labels == Labels::numbers || !m_run.tokens) return QString::number(own);
  return shortened(readText(*m_run.tokens, own, Whitespace::visible), kLongestLabel);
}

void PositionTicker::generate(const QCPRange& range, const QLocale& /*locale*/, QChar /*formatChar*/, int /*precision*/,
                              QVector<double>& ticks, QVector<double>* subTicks, QVector<QString>* tickLabels) {
  ticks.clear();
  if (subTicks != nullptr) subTicks->clear();
  if (tickLabels != nullptr) tickLabels->clear();
  const Range shown{std::max<std::int64_t>(0, static_cast<std::int64_t>(std::ceil(range.lower))),
                    std::min(static_cast<std::int64_t>(std::floor(range.upper)) + 1, m_run.covered())};
  const auto add = [&](std::int64_t place, std::int64_t own) {
    ticks.append(static_cast<double>(place));
    if (tickLabels != nullptr) tickLabels->append(labelOf(own));
  };
  if (shown.begin >= shown.end) return;
  if (m_labels == Labels::tokens) {
    for (std::int64_t place = shown.begin; place < shown.end; ++place) add(place, m_run.own(place));
    return;
  }
  const Range own = m_run.own(shown);
  // The number of labels that there is room for in the part that the run has read.
  const double tokensOfPlace = static_cast<double>(own.size()) / static_cast<double>(shown.size());
  const std::int64_t step = roundStep(tokensOfPlace * range.size() / static_cast<double>(std::max(m_most, 1)));
  for (std::int64_t position = (own.begin + step - 1) / step * step; position < own.end; position += step) {
    const auto place = m_run.toReference ? (*m_run.toReference)(position) : position;
    if (place) add(*place, position);
  }
}

void DistanceTicker::generate(const QCPRange& /*range*/, const QLocale& /*locale*/, QChar /*formatChar*/,
                              int /*precision*/, QVector<double>& ticks, QVector<double>* subTicks,
                              QVector<QString>* tickLabels) {
  const figure::Ticks all = figure::distanceTicks(m_axis.distances, std::max(2, m_most));
  ticks.clear();
  if (subTicks != nullptr) subTicks->clear();
  if (tickLabels != nullptr) tickLabels->clear();
  for (const figure::Tick& tick : all.major) {
    ticks.append(m_axis.middle(tick.value));
    if (tickLabels != nullptr) tickLabels->append(QString::fromStdString(tick.label));
  }
  for (const double value : all.minor) {
    if (subTicks != nullptr) subTicks->append(m_axis.middle(value));
  }
}

}  // namespace foxscope::gui
