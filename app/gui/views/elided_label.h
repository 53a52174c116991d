#pragma once

#include <QLabel>

namespace foxscope::gui {

/// One line of text, unless it is wrapped, that is shortened where there is no room for it. Its tooltip then has the
/// whole text.
class ElidedLabel : public QLabel {
  Q_OBJECT

 public:
  explicit ElidedLabel(QWidget* parent = nullptr);
  void setFullText(const QString& text);
  /// Wraps the text in as many lines as it takes, instead of eliding it.
  void setWrapped(bool wrapped);

 protected:
  void paintEvent(QPaintEvent* event) override;
  [[nodiscard]] QSize minimumSizeHint() const override;
};

}  // namespace foxscope::gui
