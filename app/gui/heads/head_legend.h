#pragma once

#include <optional>

#include <QWidget>

#include "app/gui/heads/head_colours.h"

namespace foxscope::gui {

/// The colour bar under the grid, with numbers, unit and, where one is marked, the chosen head's place.
class HeadLegend : public QWidget {
  Q_OBJECT

 public:
  explicit HeadLegend(QWidget* parent = nullptr);
  void show(const HeadColours& colours, const QString& title);
  void hideScale(const QString& title);
  [[nodiscard]] QSize sizeHint() const override;
  [[nodiscard]] QSize minimumSizeHint() const override { return {80, sizeHint().height()}; }

 protected:
  void paintEvent(QPaintEvent* event) override;

 private:
  std::optional<HeadColours> m_colours;
  QString m_title;
};

}  // namespace foxscope::gui
