#pragma once

#include <QWidget>

#include "backend/eval/atlas/atlas_reader.h"

class QCustomPlot;
class QCPGraph;
class QCPItemStraightLine;

namespace foxscope::gui::atlas {

/// A histogram of one head on a logarithmic axis.
class GateBars : public QWidget {
  Q_OBJECT

 public:
  /// -log f of positions; the decay times -1 / log f of positions; distances of neighbouring resets.
  enum class Shown { logGate, decayTime, gaps };

  explicit GateBars(QWidget* parent = nullptr);
  void setHistogram(AtlasHistogram histogram, const AtlasHeadResets& resets);
  void show(Shown shown);
  [[nodiscard]] Shown shown() const { return m_shown; }
  /// Lower ends of the bars that are drawn, and the shares of all positions (of all gaps) in them.
  [[nodiscard]] const QVector<double>& ends() const { return m_ends; }
  [[nodiscard]] const QVector<double>& shares() const { return m_shares; }
  /// The share of positions whose f is 1 in float32, which no logarithmic axis has a place for.
  [[nodiscard]] double keptShare() const { return m_kept; }

 signals:
  void hovered(const QString& words);

 protected:
  void changeEvent(QEvent* event) override;

 private:
  void draw();
  void tell(double x);

  AtlasHistogram m_histogram;
  AtlasHeadResets m_resets;
  Shown m_shown = Shown::logGate;
  QVector<double> m_ends;
  QVector<double> m_shares;
  double m_kept = 0;
  QCustomPlot* m_plot;
  QCPGraph* m_graph;
  QCPItemStraightLine* m_half;  ///< where f = 1/2
};

}  // namespace foxscope::gui::atlas
