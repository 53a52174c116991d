#pragma once

#include <optional>
#include <set>
#include <vector>

#include <QColor>
#include <QString>
#include <QWidget>

namespace foxscope::gui::curves {

/// Legend and read-out in one, above a plot: a line that says where the cursor is, and every curve with its value
/// there. A click on an entry hides or shows its curve. Its height does not depend on the values, so that the plot
/// stays where it is.
class ReadOut : public QWidget {
  Q_OBJECT

 public:
  struct Entry {
    QString name;
    QColor colour;
    Qt::PenStyle style = Qt::SolidLine;
    QString value;       ///< at the cursor, with its unit; empty: none
    QColor second = {};  ///< of every other dash of the sample; not valid: one colour
  };

  explicit ReadOut(QWidget* parent);

  /// Where the cursor is, or what to do.
  void setPlace(const QString& place);
  void setEntries(const std::vector<Entry>& entries);
  [[nodiscard]] const QString& place() const { return m_place; }
  [[nodiscard]] const std::vector<Entry>& entries() const { return m_entries; }
  /// Where an entry's sample and name are; empty of one without room.
  [[nodiscard]] QRect entryRect(std::size_t entry) const;
  /// Curves that are hidden, by the names of their entries.
  [[nodiscard]] bool isHidden(const QString& name) const { return m_hidden.contains(name); }
  void toggle(const QString& name);
  /// Entries, by their names, whose curves have no room in the plot: they are named in the first line, not shown, and
  /// keep their place in more than one line, so that the plot has the height that it had without room for them.
  void setWithoutRoom(const std::set<QString>& names);
  /// "a − b: no room, make the curves higher"; empty where all have room.
  [[nodiscard]] QString roomText() const;
  /// The value of an entry as it is written: in one line without the remark in brackets where the name would have no
  /// room beside it; the tooltip has both.
  [[nodiscard]] QString shownValue(std::size_t entry) const;
  /// Puts all entries in one line, names cut off before values: where the plot has more need of the room.
  void setOneLine(bool oneLine);

  [[nodiscard]] bool hasHeightForWidth() const override { return true; }
  [[nodiscard]] int heightForWidth(int width) const override;
  [[nodiscard]] QSize sizeHint() const override;
  [[nodiscard]] QSize minimumSizeHint() const override;

 signals:
  void toggled(const QString& name);

 protected:
  void mousePressEvent(QMouseEvent* event) override;
  void mouseMoveEvent(QMouseEvent* event) override;
  void paintEvent(QPaintEvent* event) override;

 private:
  /// Upper left corners of the entries in a widget of this width, below the place's line.
  [[nodiscard]] std::vector<QPoint> layOut(int width) const;
  [[nodiscard]] std::optional<std::size_t> entryAt(const QPoint& place) const;
  [[nodiscard]] int widthOf(const Entry& entry) const;
  /// Right of its sample, in a widget of this width.
  [[nodiscard]] int textWidth(const Entry& entry, const QPoint& corner) const;
  [[nodiscard]] int shareOf(int width) const;
  /// "1 more: make the curves higher", where there is no room for names.
  [[nodiscard]] QString shortRoomText() const;
  [[nodiscard]] bool isShown(const Entry& entry) const { return !m_withoutRoom.contains(entry.name); }

  QString m_place;
  std::vector<Entry> m_entries;
  std::set<QString> m_hidden;
  std::set<QString> m_withoutRoom;
  bool m_oneLine = false;
};

}  // namespace foxscope::gui::curves
