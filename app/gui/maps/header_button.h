#pragma once

#include <vector>

#include <QToolButton>

namespace foxscope::gui {

/// Part of a title. Where there is no room for all of it hints are left out first, then names are cut to their first
/// letters; the rest stays.
struct TitlePart {
  enum class Kind { hint, name, rest };
  QString text;
  Kind kind = Kind::rest;
  bool operator==(const TitlePart&) const = default;
};

/// The text of a whole title.
inline QString textOf(const std::vector<TitlePart>& parts) {
  QString text;
  for (const TitlePart& part : parts) text += part.text;
  return text;
}

/// A flat button that opens a menu: its text gives way where there is no room, and a small arrow says that there is a
/// menu.
class HeaderButton : public QToolButton {
 public:
  enum class Weight { regular, title };
  HeaderButton(Weight weight, QMenu* menu);

  /// @param whole  shown where there is room
  /// @param brief  shown where there is less
  void setTexts(const QString& whole, const QString& brief);
  /// Where there is less room than for all of it, each name is cut, and all are told apart as long as that goes.
  void setTitle(const std::vector<TitlePart>& parts);
  /// A picture in the place of the text.
  void setPicture(const QPixmap& picture);
  /// Width with the whole text, and with the brief one or the shortest names.
  [[nodiscard]] int wholeWidth() const { return widthFor(m_whole); }
  [[nodiscard]] int briefWidth() const { return minimumSizeHint().width(); }
  /// The text as far as there is room for it.
  [[nodiscard]] QString shownText() const { return textIn(textRoom().width()); }
  [[nodiscard]] QSize sizeHint() const override;
  [[nodiscard]] QSize minimumSizeHint() const override;

 protected:
  void paintEvent(QPaintEvent* event) override;

 private:
  [[nodiscard]] QFont usedFont() const;
  [[nodiscard]] QRect textRoom() const;
  [[nodiscard]] int widthFor(const QString& text) const;
  [[nodiscard]] QString textIn(int room) const;
  [[nodiscard]] QString titleIn(int width) const;

  Weight m_weight;
  QString m_whole;
  QString m_brief;
  std::vector<TitlePart> m_title;  ///< empty: it has a whole and a brief text
  QPixmap m_picture;
};

}  // namespace foxscope::gui
