#pragma once

#include <memory>
#include <optional>

#include <qcustomplot.h>

#include "app/gui/document/places.h"
#include "backend/map/distance_axis.h"

namespace foxscope::gui {

/// The run whose positions the axes of a plot show. The plot itself lies in positions of the reference run.
struct AxisRun {
  QString name;
  std::shared_ptr<const TokenTable> tokens;       ///< null: there is no run, and positions are numbers
  std::shared_ptr<const PlaceMap> fromReference;  ///< null: it is the reference run
  std::shared_ptr<const PlaceMap> toReference;
  bool operator==(const AxisRun&) const = default;

  /// Positions of the reference run, from 0 on, that this run has read as well.
  [[nodiscard]] std::int64_t covered() const;
  /// The run's own positions of a part of the reference run; empty (0:0) where it has read none of it.
  [[nodiscard]] Range own(const Range& ofReference) const;
  [[nodiscard]] std::int64_t own(std::int64_t ofReference) const;  ///< of a position below covered()
};

/// Ticks of an axis: the run's own positions at round distances, or every place with the token that the run reads
/// there. None where the run has not read so far.
class PositionTicker : public QCPAxisTicker {
 public:
  void setRun(const AxisRun& run) { m_run = run; }
  enum class Labels { numbers, tokens };
  void setLabels(Labels labels) { m_labels = labels; }
  /// How many labels there is room for.
  void setMost(int most) { m_most = most; }

  void generate(const QCPRange& range, const QLocale& locale, QChar formatChar, int precision, QVector<double>& ticks,
                QVector<double>* subTicks, QVector<QString>* tickLabels) override;

 private:
  [[nodiscard]] QString labelOf(std::int64_t own) const;

  AxisRun m_run;
  Labels m_labels = Labels::numbers;
  int m_most = 6;
};

/// Ticks of an axis of distances whose coordinate is their place on it, from 0 to 1.
class DistanceTicker : public QCPAxisTicker {
 public:
  void setAxis(const DistanceAxis& axis) { m_axis = axis; }
  void setMost(int most) { m_most = most; }

  void generate(const QCPRange& range, const QLocale& locale, QChar formatChar, int precision, QVector<double>& ticks,
                QVector<double>* subTicks, QVector<QString>* tickLabels) override;

 private:
  DistanceAxis m_axis{{1, 2}};
  int m_most = 4;
};

}  // namespace foxscope::gui
