#include "app/gui/window/sweep_dialog.h"

#include <array>

#include <QDialogButtonBox>
#include <QFormLayout>
#include <QLocale>
#include <QPushButton>

#include "app/gui/window/change_words.h"
#include "backend/base/index.h"

namespace foxscope::gui {
namespace {

using Kind = Intervention::Kind;
constexpr std::array kSweptKinds{Kind::one, Kind::cut, Kind::mean, Kind::constant, Kind::scale};

Kind sweptKind(int index) { return kSweptKinds[index_of(index)]; }

}  // namespace

SweepDialog::SweepDialog(RunList& runs, Sweeps& sweeps, QWidget* parent)
    : QDialog(parent),
      m_runs(runs),
      m_sweeps(sweeps),
      m_run(new QComboBox),
      m_kind(new QComboBox),
      m_value(new QDoubleSpinBox),
      m_meaning(new QLabel),
      m_command(new QLabel) {
  setWindowTitle(tr("Sweep over all heads"));
  auto* form = new QFormLayout(this);
  for (const Run& run : m_runs) {
    if (!run.look.hidden) m_run->addItem(run.name, run.id);
  }
  m_run->setCurrentIndex(m_run->findData(m_runs.selection().head().run));
  form->addRow(tr("&Model"), m_run);
  for (const Kind kind : kSweptKinds) m_kind->addItem(nameOfChange(kind));
  form->addRow(tr("Each &head"), m_kind);
  m_value->setDecimals(4);
  m_value->setSingleStep(0.1);
  form->addRow(tr("&Value"), m_value);
  m_meaning->setWordWrap(true);
  m_meaning->setMinimumWidth(30 * fontMetrics().averageCharWidth());
  form->addRow(m_meaning);
  m_command->setTextInteractionFlags(Qt::TextSelectableByMouse);
  m_command->setEnabled(false);
  form->addRow(m_command);
  auto* buttons = new QDialogButtonBox(QDialogButtonBox::Ok | QDialogButtonBox::Cancel);
  buttons->button(QDialogButtonBox::Ok)->setText(tr("Sweep"));
  buttons->button(QDialogButtonBox::Ok)->setEnabled(m_run->count() > 0);
  connect(buttons, &QDialogButtonBox::accepted, this, &SweepDialog::accept);
  connect(buttons, &QDialogButtonBox::rejected, this, &SweepDialog::reject);
  form->addRow(buttons);
  connect(m_kind, &QComboBox::currentIndexChanged, this, [this](int index) {
    const bool scale = sweptKind(index) == Kind::scale;
    m_value->setRange(0, scale ? 1000 : 1);
    m_value->setValue(scale ? 2 : 0.99);
    follow();
  });
  connect(m_run, &QComboBox::currentIndexChanged, this, &SweepDialog::follow);
  connect(m_value, &QDoubleSpinBox::valueChanged, this, &SweepDialog::follow);
  m_value->setValue(0.99);
  follow();
}

Intervention SweepDialog::change() const {
  Intervention change;
  change.kind = sweptKind(m_kind->currentIndex());
  change.value = m_value->value();
  return change;
}

void SweepDialog::follow() {
  const Kind kind = sweptKind(m_kind->currentIndex());
  m_value->setEnabled(kind == Kind::constant || kind == Kind::scale);
  QString words = meaningOfChange(kind);
  if (const Run* run = m_runs.run(m_run->currentData().toInt())) {
    const TraceInfo& info = run->trace->info();
    words += QLatin1Char('\n') + tr("%1 heads, %2 tokens.")
                                     .arg(info.head_count())
                                     .arg(QLocale(QLocale::English).toString(static_cast<qlonglong>(info.length)));
  }
  m_meaning->setText(words);
  m_command->setText(
      QStringLiteral("foxscope eval sweep … --change %1").arg(QString::fromStdString(change().kind_text())));
}

void SweepDialog::accept() {
  m_sweeps.start(m_run->currentData().toInt(), change());
  QDialog::accept();
}

}  // namespace foxscope::gui
