#pragma once

#include <QToolButton>

namespace foxscope::gui {

/// A flat button that opens a menu: its text gives way where there is no room, and a small arrow says that there is a
/// menu.
class HeaderButton : public QToolButton {
 public:
  enum class Weight { regular, title };
  HeaderButton(Weight weight, QMenu* menu);

  /// @param whole  shown where there is room; where there is less, what stands before the brief text is cut
  /// @param brief  its end, which is left at least
  void setTexts(const QString& whole, const QString& brief);
  /// A picture in the place of the text.
  void setPicture(const QPixmap& picture);
  /// Width with the whole text, and with the brief one.
  [[nodiscard]] int wholeWidth() const { return widthFor(m_whole); }
  [[nodiscard]] int briefWidth() const { return minimumSizeHint().width(); }
  [[nodiscard]] QSize sizeHint() const override;
  [[nodiscard]] QSize minimumSizeHint() const override;

 protected:
  void paintEvent(QPaintEvent* event) override;

 private:
  [[nodiscard]] QFont usedFont() const;
  [[nodiscard]] int widthFor(const QString& text) const;
  [[nodiscard]] QString textIn(int room) const;

  Weight m_weight;
  QString m_whole;
  QString m_brief;
  QPixmap m_picture;
};

}  // namespace foxscope::gui
