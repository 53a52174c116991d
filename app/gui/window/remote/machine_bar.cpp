#include "app/gui/window/remote/machine_bar.h"

#include <QHBoxLayout>
#include <QPushButton>
#include <QVBoxLayout>

#include "app/gui/views/elided_label.h"
#include "app/gui/views/time_text.h"

namespace foxscope::gui {

MachineBar::MachineBar(Document& document, QWidget* parent) : QWidget(parent), m_document(document) {
  auto* column = new QVBoxLayout(this);
  column->setContentsMargins(0, 0, 0, 0);
  column->setSpacing(1);
  setAccessibleName(tr("Other machines"));
  connect(&m_document.machines(), &Machines::changed, this, &MachineBar::follow);
  hide();
}

std::vector<MachineBar::Line> MachineBar::lines() {
  Machines& machines = m_document.machines();
  std::vector<Line> lines;
  for (const MachineStatus& machine : machines.status()) {
    const auto reconnect = [&machines, name = machine.name] { machines.reconnect(name); };
    if (machine.connecting) {
      lines.push_back({tr("Connecting to %1 … What is shown stays.").arg(machine.name), tr("Reconnect"), false, {}});
    } else if (!machine.lost.isEmpty()) {
      lines.push_back(
          {tr("Connection lost, what is shown stays. %1").arg(machine.lost), tr("Reconnect"), true, reconnect});
    } else if (machine.silent > 0) {
      lines.push_back(
          {tr("%1 has not answered for %2. What is shown stays.").arg(machine.name, timeText(machine.silent)),
           tr("Reconnect"), true, reconnect});
    }
  }
  if (machines.cancelled()) {
    lines.push_back({tr("Cancelled: what was asked of the other machine is not shown."), tr("Ask Again"), true,
                     [&machines] { machines.goOn(); }});
  }
  for (const auto& [file, message] : machines.changedFiles()) {
    lines.push_back({tr("What is shown stays. %1").arg(message), tr("Open Again"), true,
                     [this, path = file] { m_document.openAgain(path); }});
  }
  return lines;
}

QStringList MachineBar::texts() const {
  QStringList texts;
  for (const Line& line : m_lines) texts += line.text;
  return texts;
}

void MachineBar::follow() {
  m_lines = lines();
  while (m_shown.size() > m_lines.size()) {
    m_shown.back().widget->deleteLater();
    m_shown.back().widget->hide();
    m_shown.pop_back();
  }
  while (m_shown.size() < m_lines.size()) {
    Shown shown;
    shown.widget = new QWidget;
    auto* row = new QHBoxLayout(shown.widget);
    row->setContentsMargins(10, 3, 4, 3);
    shown.label = new ElidedLabel;
    shown.label->setWrapped(true);
    row->addWidget(shown.label, 1);
    shown.button = new QPushButton;
    row->addWidget(shown.button);
    const std::size_t place = m_shown.size();
    connect(
        shown.button, &QPushButton::clicked, this,
        [this, place] {
          if (place < m_lines.size() && m_lines[place].act) m_lines[place].act();
        },
        Qt::QueuedConnection);
    layout()->addWidget(shown.widget);
    m_shown.push_back(shown);
  }
  for (std::size_t place = 0; place < m_lines.size(); ++place) {
    m_shown[place].label->setFullText(m_lines[place].text);
    m_shown[place].button->setText(m_lines[place].button);
    m_shown[place].button->setEnabled(m_lines[place].enabled);
  }
  setVisible(!m_lines.empty());
}

}  // namespace foxscope::gui
