#pragma once

#include <vector>

#include <QWidget>

#include "app/gui/text/text_tint.h"

namespace foxscope::gui {

/// The experts that tint words: a field of its colour for each with its number, the others together, in as many rows as
/// the width needs.
class TintLegend : public QWidget {
  Q_OBJECT

 public:
  explicit TintLegend(QWidget* parent = nullptr);

  void setExperts(const TintedExperts& experts);
  /// "5", "others" of each field.
  [[nodiscard]] QStringList texts() const;

  [[nodiscard]] bool hasHeightForWidth() const override { return true; }
  [[nodiscard]] int heightForWidth(int width) const override;
  [[nodiscard]] QSize sizeHint() const override;
  [[nodiscard]] QSize minimumSizeHint() const override;

 protected:
  void paintEvent(QPaintEvent* event) override;
  void changeEvent(QEvent* event) override;

 private:
  struct Field {
    int hue = 0;
    QString text;
  };
  [[nodiscard]] int widthOf(const Field& field) const;
  [[nodiscard]] int rowHeight() const { return fontMetrics().height() + 2; }
  /// The upper left corner of each field.
  [[nodiscard]] std::vector<QPoint> layOut(int width) const;

  std::vector<Field> m_fields;
};

}  // namespace foxscope::gui
