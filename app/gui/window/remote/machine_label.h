#pragma once

#include <QLabel>
#include <QToolButton>
#include <QWidget>

#include "app/gui/document/remote/machines.h"

namespace foxscope::gui {

/// The status bar's account of other machines: bytes that came and the delay there and back of each, and a button that
/// cancels what is on its way. Nothing while there are none.
class MachineLabel : public QWidget {
  Q_OBJECT

 public:
  explicit MachineLabel(Machines& machines, QWidget* parent = nullptr);
  [[nodiscard]] QString text() const { return m_text->text(); }
  QToolButton& cancelButton() { return *m_cancel; }

 private:
  void follow();

  Machines& m_machines;
  QLabel* m_text = nullptr;
  QToolButton* m_cancel = nullptr;
};

}  // namespace foxscope::gui
