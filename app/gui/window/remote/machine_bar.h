#pragma once

#include <functional>
#include <vector>

#include <QWidget>

#include "app/gui/document/document.h"

class QPushButton;

namespace foxscope::gui {

class ElidedLabel;

/// A line above the maps for whatever is wrong with another machine, with a button that does something about it: a
/// connection that was lost, or says nothing; requests that were cancelled; a file that has changed there. Nothing
/// while all is well. What is shown stays meanwhile.
class MachineBar : public QWidget {
  Q_OBJECT

 public:
  explicit MachineBar(Document& document, QWidget* parent = nullptr);
  /// The lines' words, from above.
  [[nodiscard]] QStringList texts() const;

 private:
  struct Line {
    QString text;
    QString button;
    bool enabled = true;
    std::function<void()> act;
  };
  struct Shown {
    QWidget* widget = nullptr;
    ElidedLabel* label = nullptr;
    QPushButton* button = nullptr;
  };
  [[nodiscard]] std::vector<Line> lines();
  void follow();

  Document& m_document;
  std::vector<Line> m_lines;
  std::vector<Shown> m_shown;
};

}  // namespace foxscope::gui
