#include "app/gui/window/remote/machine_label.h"

#include <algorithm>
#include <cmath>

#include <QHBoxLayout>
#include <QLocale>

#include "app/gui/views/icon.h"

namespace foxscope::gui {
namespace {

constexpr qsizetype kMachines = 2;  // that there is room for; the tooltip has all

QString factsOf(const MachineStatus& machine) {
  const QString received =
      QLocale().formattedDataSize(static_cast<qint64>(machine.received), 1, QLocale::DataSizeSIFormat);
  QStringList facts{machine.name, MachineLabel::tr("%1 received").arg(received)};
  if (!machine.connected) {
    facts += MachineLabel::tr("not connected");
  } else if (machine.delay >= 0) {
    facts +=
        machine.delay < 1 ? MachineLabel::tr("below 1 ms") : MachineLabel::tr("%1 ms").arg(std::lround(machine.delay));
  }
  return facts.join(QStringLiteral(" · "));
}

}  // namespace

MachineLabel::MachineLabel(Machines& machines, QWidget* parent) : QWidget(parent), m_machines(machines) {
  auto* row = new QHBoxLayout(this);
  row->setContentsMargins(0, 0, 4, 0);
  row->setSpacing(4);
  m_text = new QLabel;
  m_text->setTextFormat(Qt::PlainText);
  row->addWidget(m_text);
  m_cancel = new QToolButton;
  m_cancel->setAutoRaise(true);
  m_cancel->setIcon(themedIcon(QStringLiteral("cancel")));
  m_cancel->setIconSize({fontMetrics().height(), fontMetrics().height()});
  m_cancel->setToolTip(tr("Cancel what is on its way from other machines; what is shown stays"));
  m_cancel->setAccessibleName(tr("Cancel requests to other machines"));
  m_cancel->setFocusPolicy(Qt::TabFocus);
  row->addWidget(m_cancel);
  connect(m_cancel, &QToolButton::clicked, &m_machines, &Machines::cancel);
  connect(&m_machines, &Machines::changed, this, &MachineLabel::follow);
  follow();
}

void MachineLabel::follow() {
  QStringList lines;
  bool asking = false;
  for (const MachineStatus& machine : m_machines.status()) {
    lines += factsOf(machine);
    asking = asking || machine.asking;
  }
  setVisible(!lines.isEmpty());
  QString words = lines.mid(0, kMachines).join(QStringLiteral("    "));
  if (lines.size() > kMachines) words += tr("    and %n more", nullptr, static_cast<int>(lines.size() - kMachines));
  m_text->setText(words);
  m_text->setToolTip(
      tr("Bytes that came from other machines, and the delay there and back:\n%1").arg(lines.join('\n')));
  m_cancel->setEnabled(asking);
}

}  // namespace foxscope::gui
