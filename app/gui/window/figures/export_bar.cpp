#include "app/gui/window/figures/export_bar.h"

#include <algorithm>

#include <QFileInfo>
#include <QHBoxLayout>
#include <QLabel>
#include <QProgressBar>
#include <QPushButton>
#include <QVBoxLayout>

#include "app/gui/views/time_text.h"

namespace foxscope::gui {
namespace {

constexpr int kSteps = 1000;

}  // namespace

ExportBar::ExportBar(FileWriter& files, QWidget* parent) : QWidget(parent), m_files(files) {
  auto* lines = new QVBoxLayout(this);
  lines->setContentsMargins(0, 0, 0, 0);
  lines->setSpacing(1);
  setAccessibleName(tr("Files being written"));
  connect(&m_files, &FileWriter::exportsChanged, this, &ExportBar::follow);
  follow();
}

ExportBar::Line ExportBar::makeLine(const QString& path) {
  Line line;
  line.path = path;
  line.widget = new QWidget;
  auto* layout = new QHBoxLayout(line.widget);
  layout->setContentsMargins(10, 3, 4, 3);
  auto* name = new QLabel(tr("Writing %1").arg(QFileInfo(path).fileName()));
  name->setTextFormat(Qt::PlainText);
  name->setToolTip(path);
  layout->addWidget(name);
  line.progress = new QProgressBar;
  line.progress->setRange(0, kSteps);
  line.progress->setAccessibleName(tr("Progress of %1").arg(QFileInfo(path).fileName()));
  layout->addWidget(line.progress, 1);
  line.cancel = new QPushButton(tr("Cancel"));
  line.cancel->setToolTip(tr("Stop writing: no file is left"));
  line.cancel->setAccessibleName(tr("Cancel writing %1").arg(QFileInfo(path).fileName()));
  connect(
      line.cancel, &QPushButton::clicked, &m_files, [this, path] { m_files.cancelExport(path); }, Qt::QueuedConnection);
  layout->addWidget(line.cancel);
  this->layout()->addWidget(line.widget);
  return line;
}

void ExportBar::follow() {
  const std::vector<ExportStatus> exports = m_files.exports();
  const bool same = std::equal(exports.begin(), exports.end(), m_lines.begin(), m_lines.end(),
                               [](const ExportStatus& file, const Line& line) { return file.path == line.path; });
  if (!same) {
    for (const Line& line : m_lines) delete line.widget;
    m_lines.clear();
    for (const ExportStatus& file : exports) m_lines.push_back(makeLine(file.path));
  }
  for (std::size_t n = 0; n < exports.size(); ++n) {
    const ExportStatus& file = exports[n];
    QString text = file.stage.isEmpty() ? (n == 0 ? tr("starting") : tr("waiting for the file before it")) : file.stage;
    if (file.secondsLeft >= 0) text += QStringLiteral(", ") + timeLeftText(file.secondsLeft);
    QProgressBar& bar = *m_lines[n].progress;
    const bool unknown = n == 0 && file.fraction < 0;
    bar.setRange(0, unknown ? 0 : kSteps);
    if (!unknown) bar.setValue(static_cast<int>(std::max(0.0, file.fraction) * kSteps));
    bar.setFormat(text);
  }
  setVisible(!exports.empty());
}

}  // namespace foxscope::gui
