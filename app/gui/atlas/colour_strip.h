#pragma once

#include <QString>
#include <QWidget>

#include "app/figure/colour_scale.h"

namespace foxscope::gui::atlas {

/// One line that says what colours mean: a name, and a bar between the values of its ends.
class ColourStrip : public QWidget {
 public:
  explicit ColourStrip(QWidget* parent = nullptr);
  void setColours(const figure::ScaledColours& colours, const QString& title);
  /// In the place of the bar.
  void setWords(const QString& words);
  [[nodiscard]] QSize sizeHint() const override { return {200, fontMetrics().height() + 4}; }
  [[nodiscard]] QSize minimumSizeHint() const override { return {60, fontMetrics().height() + 4}; }

 protected:
  void paintEvent(QPaintEvent* event) override;

 private:
  figure::ScaledColours m_colours;
  QString m_title;
};

}  // namespace foxscope::gui::atlas
