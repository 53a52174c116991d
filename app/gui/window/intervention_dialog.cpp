#include "app/gui/window/intervention_dialog.h"

#include <array>

#include <QDialogButtonBox>
#include <QFormLayout>
#include <QPushButton>

#include "app/gui/window/change_words.h"
#include "backend/base/index.h"

namespace foxscope::gui {
namespace {

using Kind = Intervention::Kind;
constexpr std::array kKinds{Kind::one, Kind::mean, Kind::constant, Kind::scale, Kind::zero, Kind::cut};
enum Place { kHead, kLayer, kAll };

}  // namespace

InterventionDialog::InterventionDialog(RunList& runs, ModelRuns& modelRuns, const HeadChoice& head, QWidget* parent)
    : QDialog(parent),
      m_runs(runs),
      m_modelRuns(modelRuns),
      m_head(head),
      m_place(new QComboBox),
      m_kind(new QComboBox),
      m_value(new QDoubleSpinBox),
      m_position(new QSpinBox),
      m_meaning(new QLabel),
      m_command(new QLabel) {
  setWindowTitle(tr("Run with a change"));
  auto* form = new QFormLayout(this);
  const Run* run = m_runs.run(head.run);
  form->addRow(tr("Model"), new QLabel(run != nullptr ? run->name : QString()));
  m_place->addItems({tr("layer %1, head %2").arg(head.layer).arg(head.head), tr("layer %1, all heads").arg(head.layer),
                     tr("all heads")});
  form->addRow(tr("&Where"), m_place);
  for (const Kind kind : kKinds) m_kind->addItem(nameOfChange(kind));
  form->addRow(tr("&Change"), m_kind);
  m_value->setDecimals(4);
  m_value->setSingleStep(0.1);
  form->addRow(tr("&Value"), m_value);
  // The positions end with the run that is changed.
  const auto places = m_runs.placesOf(head.run).fromReference;
  const auto length = static_cast<int>(places ? places->covered() : m_runs.length());
  m_position->setRange(0, std::max(0, length - 1));
  m_position->setValue(static_cast<int>(m_runs.selection().pin().key.value_or(length / 2)));
  m_position->setToolTip(
      tr("The token at this position is the first that the head still sees; by default the pinned key"));
  form->addRow(tr("&Position"), m_position);
  m_meaning->setWordWrap(true);
  form->addRow(m_meaning);
  m_command->setTextInteractionFlags(Qt::TextSelectableByMouse);
  m_command->setEnabled(false);
  form->addRow(m_command);
  auto* buttons = new QDialogButtonBox(QDialogButtonBox::Ok | QDialogButtonBox::Cancel);
  buttons->button(QDialogButtonBox::Ok)->setText(tr("Run"));
  connect(buttons, &QDialogButtonBox::accepted, this, &InterventionDialog::accept);
  connect(buttons, &QDialogButtonBox::rejected, this, &InterventionDialog::reject);
  form->addRow(buttons);

  connect(m_kind, &QComboBox::currentIndexChanged, this, [this](int index) {
    const bool scale = kKinds[index_of(index)] == Kind::scale;
    m_value->setRange(0, scale ? 1000 : 1);
    m_value->setValue(scale ? 2 : 0.99);
    follow();
  });
  connect(m_place, &QComboBox::currentIndexChanged, this, &InterventionDialog::follow);
  connect(m_value, &QDoubleSpinBox::valueChanged, this, &InterventionDialog::follow);
  connect(m_position, &QSpinBox::valueChanged, this, &InterventionDialog::follow);
  follow();
}

QString InterventionDialog::intervention() const {
  Intervention result;
  result.layer = m_place->currentIndex() == kAll ? -1 : m_head.layer;
  result.head = m_place->currentIndex() == kHead ? m_head.head : -1;
  result.kind = kKinds[index_of(m_kind->currentIndex())];
  result.value = m_value->value();
  result.position = m_runs.positionIn(m_head.run, m_position->value()).value_or(0);
  return QString::fromStdString(result.text());
}

void InterventionDialog::follow() {
  const Kind kind = kKinds[index_of(m_kind->currentIndex())];
  m_value->setEnabled(kind == Kind::constant || kind == Kind::scale);
  m_position->setEnabled(kind == Kind::zero);
  m_meaning->setText(meaningOfChange(kind));
  m_command->setText(QStringLiteral("foxscope run … --intervene '%1'").arg(intervention()));
}

void InterventionDialog::accept() {
  m_modelRuns.startDerivedRun(m_head.run, {intervention()});
  QDialog::accept();
}

}  // namespace foxscope::gui
