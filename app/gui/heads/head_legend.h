#pragma once

#include <optional>

#include <QWidget>

#include "app/gui/heads/head_colours.h"

namespace foxscope::gui {

/// The legend of the grid's colours: a bar with numbers and unit, or the labels with their letters.
class HeadLegend : public QWidget {
  Q_OBJECT

 public:
  explicit HeadLegend(QWidget* parent = nullptr);
  void show(const HeadColours& colours, const QString& title);
  void hideScale(const QString& title);
  void showLabels();
  [[nodiscard]] QSize sizeHint() const override;
  [[nodiscard]] QSize minimumSizeHint() const override { return {80, sizeHint().height()}; }

 protected:
  bool event(QEvent* event) override;
  void paintEvent(QPaintEvent* event) override;
  void resizeEvent(QResizeEvent* event) override;

 private:
  /// Height of the title in as many lines as it takes.
  [[nodiscard]] int titleHeight() const;
  [[nodiscard]] QRect labelPlace(HeadLabel label) const;
  void paintLabels(QPainter& painter) const;

  std::optional<HeadColours> m_colours;
  QString m_title;
  bool m_ofLabels = false;
};

}  // namespace foxscope::gui
