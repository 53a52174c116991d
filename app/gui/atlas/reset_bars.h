#pragma once

#include <QWidget>

#include "backend/eval/atlas/atlas_reader.h"

namespace foxscope::gui::atlas {

/// The share of a head's resets that falls on each class of tokens, as bars, against the share that chance gives: a
/// mark with its standard deviation. Beside each stands p, and a dot where it is beyond chance among all heads and
/// classes.
class ResetBars : public QWidget {
  Q_OBJECT

 public:
  explicit ResetBars(QWidget* parent = nullptr);
  void setResets(AtlasHeadResets resets, double falseDiscoveryRate);
  [[nodiscard]] const AtlasHeadResets& resets() const { return m_resets; }
  /// The words of a class: all its numbers.
  [[nodiscard]] QString description(int row) const;
  /// The line above the bars. The tooltip says more.
  [[nodiscard]] static QString caption();
  [[nodiscard]] QSize minimumSizeHint() const override;

 signals:
  void hovered(const QString& words);

 protected:
  void paintEvent(QPaintEvent* event) override;
  void mouseMoveEvent(QMouseEvent* event) override;
  void leaveEvent(QEvent* event) override;
  void changeEvent(QEvent* event) override;

 private:
  [[nodiscard]] int count() const { return static_cast<int>(m_resets.share.size()); }
  [[nodiscard]] int rowHeight() const { return fontMetrics().height() + 6; }
  [[nodiscard]] QRect place(int row) const;
  void paintRow(QPainter& painter, int row) const;

  AtlasHeadResets m_resets;
  double m_rate = 0;
  int m_row = -1;
};

}  // namespace foxscope::gui::atlas
