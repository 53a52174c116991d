#pragma once

#include <vector>

#include <QWidget>

#include "backend/eval/loss/loss_comparison.h"

namespace foxscope::gui {

/// The mean difference of two models' losses as a bar for each octave of position, with its standard error: below 0,
/// in blue, the first model predicts better; above, in red, worse. Hovering a bar tells its numbers.
class OctaveBars : public QWidget {
  Q_OBJECT

 public:
  explicit OctaveBars(QWidget* parent = nullptr);

  void setOctaves(std::vector<LossOctave> octaves);
  [[nodiscard]] const std::vector<LossOctave>& octaves() const { return m_octaves; }
  /// The bar of an octave; empty where there is none.
  [[nodiscard]] QRectF bar(int index) const;
  /// The end of the axis: no bar, with its error, is larger. Nats per token.
  [[nodiscard]] double limit() const { return m_limit; }
  /// "positions 256 to 511: −0.0123 ± 0.0041 nats/token (3.0123 and 3.0246)"
  [[nodiscard]] QString description(int index) const;

  [[nodiscard]] QSize sizeHint() const override;
  [[nodiscard]] QSize minimumSizeHint() const override;

 protected:
  void paintEvent(QPaintEvent* event) override;
  bool event(QEvent* event) override;

 private:
  /// The rectangle of the bars, without the labels around it.
  [[nodiscard]] QRectF area() const;
  /// The height at which a difference stands.
  [[nodiscard]] double heightOf(double difference) const;

  std::vector<LossOctave> m_octaves;
  double m_limit = 1;
};

}  // namespace foxscope::gui
