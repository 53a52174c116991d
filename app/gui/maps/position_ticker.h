#pragma once

#include <memory>

#include <qcustomplot.h>

#include "backend/trace/trace.h"

namespace foxscope::gui {

/// Ticks of an axis of positions: whole positions at round distances, or every position with the token that it reads.
class PositionTicker : public QCPAxisTicker {
 public:
  /// Null: positions are always shown as numbers.
  void setTokens(std::shared_ptr<const TokenTable> tokens) { m_tokens = std::move(tokens); }
  enum class Labels { numbers, tokens };
  void setLabels(Labels labels) { m_labels = labels; }
  /// How many labels there is room for.
  void setMost(int most) { m_most = most; }

  void generate(const QCPRange& range, const QLocale& locale, QChar formatChar, int precision, QVector<double>& ticks,
                QVector<double>* subTicks, QVector<QString>* tickLabels) override;

 private:
  [[nodiscard]] QString labelOf(std::int64_t position) const;

  std::shared_ptr<const TokenTable> m_tokens;
  Labels m_labels = Labels::numbers;
  int m_most = 6;
};

}  // namespace foxscope::gui
