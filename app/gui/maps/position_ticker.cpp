#include "app/gui/maps/position_ticker.h"

#include <algorithm>
#include <cmath>

#include "app/gui/document/places.h"

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

QString PositionTicker::labelOf(std::int64_t position) const {
  const bool token = m_labels == Labels::tokens && m_tokens && position >= 0 &&
                     position < static_cast<std::int64_t>(m_tokens->input_id.size());
  if (!token) return QString::number(position);
  const QString text = readText(*m_tokens, position, Whitespace::visible);
  return text.size() <= kLongestLabel ? text : text.left(kLongestLabel - 1) + QChar(0x2026);
}

void PositionTicker::generate(const QCPRange& range, const QLocale& /*locale*/, QChar /*formatChar*/, int /*precision*/,
                              QVector<double>& ticks, QVector<double>* subTicks, QVector<QString>* tickLabels) {
  ticks.clear();
  if (subTicks != nullptr) subTicks->clear();
  if (tickLabels != nullptr) tickLabels->clear();
  const std::int64_t step =
      m_labels == Labels::tokens ? 1 : roundStep(range.size() / static_cast<double>(std::max(m_most, 1)));
  const auto first = static_cast<std::int64_t>(std::ceil(range.lower / static_cast<double>(step))) * step;
  for (std::int64_t position = first; static_cast<double>(position) <= range.upper; position += step) {
    ticks.append(static_cast<double>(position));
    if (tickLabels != nullptr) tickLabels->append(labelOf(position));
  }
}

}  // namespace foxscope::gui
