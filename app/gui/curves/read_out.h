#pragma once

#include <vector>

#include <QColor>
#include <QString>
#include <QWidget>

namespace foxscope::gui::curves {

/// Legend and read-out in one, above a plot: a line that says where the cursor is, and every curve with its value
/// there. Its height does not depend on the values, so that the plot stays where it is.
class ReadOut : public QWidget {
  Q_OBJECT

 public:
  struct Entry {
    QString name;
    QColor colour;
    Qt::PenStyle style = Qt::SolidLine;
    QString value;  ///< at the cursor, with its unit; empty: none
  };

  explicit ReadOut(QWidget* parent);

  /// Where the cursor is, or what to do.
  void setPlace(const QString& place);
  void setEntries(const std::vector<Entry>& entries);
  [[nodiscard]] const QString& place() const { return m_place; }
  [[nodiscard]] const std::vector<Entry>& entries() const { return m_entries; }

  [[nodiscard]] bool hasHeightForWidth() const override { return true; }
  [[nodiscard]] int heightForWidth(int width) const override;
  [[nodiscard]] QSize sizeHint() const override;
  [[nodiscard]] QSize minimumSizeHint() const override;

 protected:
  void paintEvent(QPaintEvent* event) override;

 private:
  /// Upper left corners of the entries in a widget of this width, below the place's line.
  [[nodiscard]] std::vector<QPoint> layOut(int width) const;
  [[nodiscard]] int widthOf(const Entry& entry) const;

  QString m_place;
  std::vector<Entry> m_entries;
};

}  // namespace foxscope::gui::curves
