#pragma once

#include <QWidget>

namespace foxscope::gui {

/// A line of text that gives way: cut at its end where there is no room, whole in its tooltip.
class PaneLine : public QWidget {
  Q_OBJECT

 public:
  enum class Weight { regular, bold, muted };
  explicit PaneLine(Weight weight, QWidget* parent = nullptr);

  void setText(const QString& text);
  [[nodiscard]] const QString& text() const { return m_text; }
  [[nodiscard]] QSize sizeHint() const override;
  [[nodiscard]] QSize minimumSizeHint() const override;

 protected:
  void paintEvent(QPaintEvent* event) override;

 private:
  [[nodiscard]] QFont usedFont() const;

  QString m_text;
  Weight m_weight;
};

}  // namespace foxscope::gui
