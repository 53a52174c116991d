#include "app/gui/window/preferences.h"

#include <QDialogButtonBox>
#include <QFormLayout>
#include <QLabel>

#include "app/gui/views/theme.h"
#include "backend/base/error.h"

namespace foxscope::gui {

Preferences::Preferences(ModelRuns& modelRuns, Settings& settings, QWidget* parent)
    : QDialog(parent), m_modelRuns(modelRuns), m_settings(settings) {
  setWindowTitle(tr("Preferences"));
  auto* form = new QFormLayout(this);
  form->setFieldGrowthPolicy(QFormLayout::AllNonFixedFieldsGrow);
  m_theme = new QComboBox;
  m_theme->addItems({tr("as the system"), tr("light"), tr("dark")});
  m_theme->setCurrentIndex(static_cast<int>(m_settings.theme()));
  form->addRow(tr("&Theme"), m_theme);

  auto* ofRuns = new QLabel(tr("For runs, from the next one on (F5):"));
  muteText(*ofRuns, ofRuns->palette());
  form->addRow(ofRuns);
  const RunSettings& run = m_modelRuns.settings();
  m_device = new QComboBox;
  m_device->setEditable(true);
  m_device->addItems({"auto", "cpu", "cuda"});
  m_device->setCurrentText(QString::fromStdString(run.device.word()));
  m_device->setToolTip(tr("auto uses a GPU if there is one; cuda:N chooses one of several"));
  form->addRow(tr("&Device"), m_device);
  m_dtype = new QComboBox;
  m_dtype->addItems({"auto", "float32", "bfloat16"});
  if (run.dtype) m_dtype->setCurrentText(to_string(*run.dtype));
  m_dtype->setToolTip(tr("auto: float32 on a CPU, bfloat16 on a GPU"));
  form->addRow(tr("&Precision"), m_dtype);
  m_queryKey = new QCheckBox(tr("&queries and keys, which maps of attention need"));
  m_queryKey->setChecked(run.keepQueryKey);
  m_queryKey->setToolTip(tr("Without them a run takes far less memory, and shows gates, F and loss only"));
  form->addRow(tr("Keep"), m_queryKey);

  m_problem = new QLabel;
  m_problem->setWordWrap(true);
  m_problem->hide();
  form->addRow(m_problem);

  auto* buttons = new QDialogButtonBox(QDialogButtonBox::Ok | QDialogButtonBox::Cancel);
  connect(buttons, &QDialogButtonBox::accepted, this, &Preferences::accept);
  connect(buttons, &QDialogButtonBox::rejected, this, &Preferences::reject);
  form->addRow(buttons);
}

void Preferences::accept() {
  RunSettings run = m_modelRuns.settings();
  try {
    run.device = DeviceChoice::parse(m_device->currentText().trimmed().toStdString());
  } catch (const UsageError& error) {
    m_problem->setText(QString::fromStdString(error.what()));
    m_problem->show();
    m_device->setFocus();
    return;
  }
  m_settings.setTheme(static_cast<ThemeChoice>(m_theme->currentIndex()));
  run.dtype = parse_dtype(m_dtype->currentText().toStdString());
  run.keepQueryKey = m_queryKey->isChecked();
  m_modelRuns.setSettings(run);
  QDialog::accept();
}

}  // namespace foxscope::gui
