#include "app/gui/maps/head_form.h"

#include <algorithm>

#include <QFormLayout>
#include <QSignalBlocker>

#include "backend/base/index.h"

namespace foxscope::gui {

HeadForm::HeadForm(const QString& automatic, QWidget* parent)
    : QWidget(parent),
      m_automatic(new QCheckBox(automatic)),
      m_run(new QComboBox),
      m_layer(new QSpinBox),
      m_head(new QSpinBox) {
  auto* form = new QFormLayout(this);
  form->addRow(m_automatic);
  form->addRow(tr("Model"), m_run);
  form->addRow(tr("Layer"), m_layer);
  form->addRow(tr("Head"), m_head);
  m_automatic->setToolTip(tr("Off: choose a head of any model"));
  m_run->setToolTip(tr("Model whose head is shown"));
  m_layer->setToolTip(tr("Layer, from 0"));
  m_head->setToolTip(tr("Head, from 0"));
  connect(m_automatic, &QCheckBox::toggled, this, &HeadForm::tell);
  connect(m_run, &QComboBox::currentIndexChanged, this, [this] {
    limitNumbers();
    tell();
  });
  connect(m_layer, &QSpinBox::valueChanged, this, &HeadForm::tell);
  connect(m_head, &QSpinBox::valueChanged, this, &HeadForm::tell);
}

void HeadForm::setRuns(const std::vector<RunHeads>& runs) {
  if (runs == m_runs) return;
  m_runs = runs;
  const QSignalBlocker quiet(m_run);
  m_run->clear();
  for (const RunHeads& run : m_runs) m_run->addItem(run.name);
  limitNumbers();
}

void HeadForm::setHead(const std::optional<NamedHead>& chosen, const NamedHead& effective) {
  const QSignalBlocker quietAutomatic(m_automatic);
  const QSignalBlocker quietRun(m_run);
  const QSignalBlocker quietLayer(m_layer);
  const QSignalBlocker quietHead(m_head);
  m_automatic->setChecked(!chosen);
  m_run->setCurrentText(effective.run);
  limitNumbers();
  m_layer->setValue(effective.layer);
  m_head->setValue(effective.head);
  for (QWidget* part : {static_cast<QWidget*>(m_run), static_cast<QWidget*>(m_layer), static_cast<QWidget*>(m_head)}) {
    part->setEnabled(chosen.has_value());
  }
}

void HeadForm::limitNumbers() {
  const int index = m_run->currentIndex();
  if (index < 0 || index >= static_cast<int>(m_runs.size())) return;
  const RunHeads& run = m_runs[index_of(index)];
  const QSignalBlocker quietLayer(m_layer);
  const QSignalBlocker quietHead(m_head);
  m_layer->setMaximum(std::max(0, run.layers - 1));
  m_head->setMaximum(std::max(0, run.heads - 1));
}

void HeadForm::tell() {
  if (m_automatic->isChecked()) {
    emit chosen(std::nullopt);
  } else if (m_run->currentIndex() >= 0) {
    emit chosen(NamedHead{m_run->currentText(), m_layer->value(), m_head->value()});
  }
}

}  // namespace foxscope::gui
