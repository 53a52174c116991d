#pragma once

#include <vector>

#include <QWidget>

#include "app/gui/document/file_writer.h"

class QLabel;
class QProgressBar;
class QPushButton;

namespace foxscope::gui {

/// Files that are being written, a line each: name, progress with an estimate, Cancel. Nothing while there are none.
class ExportBar : public QWidget {
  Q_OBJECT

 public:
  explicit ExportBar(FileWriter& files, QWidget* parent = nullptr);

 private:
  struct Line {
    QString path;
    QWidget* widget = nullptr;
    QProgressBar* progress = nullptr;
    QPushButton* cancel = nullptr;
  };
  void follow();
  [[nodiscard]] Line makeLine(const QString& path);

  FileWriter& m_files;
  std::vector<Line> m_lines;
};

}  // namespace foxscope::gui
