#pragma once

#include <vector>

#include <QWidget>

#include "app/gui/document/document.h"

class QLabel;
class QProgressBar;
class QPushButton;

namespace foxscope::gui {

/// Files that are being written, or opened where that takes a while, a line each: name, progress with an estimate,
/// Cancel. Nothing while there are none.
class ExportBar : public QWidget {
  Q_OBJECT

 public:
  explicit ExportBar(Document& document, QWidget* parent = nullptr);

 private:
  struct Line {
    QString path;
    bool opens = false;
    QWidget* widget = nullptr;
    QProgressBar* progress = nullptr;
    QPushButton* cancel = nullptr;
  };
  void follow();
  [[nodiscard]] Line makeLine(const QString& path, bool opens);

  Document& m_document;
  std::vector<Line> m_lines;
};

}  // namespace foxscope::gui
