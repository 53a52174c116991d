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

ExportBar::ExportBar(Document& document, QWidget* parent) : QWidget(parent), m_document(document) {
  auto* lines = new QVBoxLayout(this);
  lines->setContentsMargins(0, 0, 0, 0);
  lines->setSpacing(1);
  setAccessibleName(tr("Files being written or opened"));
  connect(&m_document.files(), &FileWriter::exportsChanged, this, &ExportBar::follow);
  connect(&m_document, &Document::openingsChanged, this, &ExportBar::follow);
  follow();
}

ExportBar::Line ExportBar::makeLine(const QString& path, bool opens) {
  Line line;
  line.path = path;
  line.opens = opens;
  line.widget = new QWidget;
  auto* layout = new QHBoxLayout(line.widget);
  layout->setContentsMargins(10, 3, 4, 3);
  const QString file = QFileInfo(path).fileName();
  auto* name = new QLabel((opens ? tr("Opening %1") : tr("Writing %1")).arg(file));
  name->setTextFormat(Qt::PlainText);
  name->setToolTip(path);
  layout->addWidget(name);
  line.progress = new QProgressBar;
  line.progress->setRange(0, kSteps);
  line.progress->setAccessibleName(tr("Progress of %1").arg(file));
  layout->addWidget(line.progress, 1);
  line.cancel = new QPushButton(tr("Cancel"));
  line.cancel->setToolTip(opens ? tr("Stop opening: nothing is shown of it") : tr("Stop writing: no file is left"));
  line.cancel->setAccessibleName((opens ? tr("Cancel opening %1") : tr("Cancel writing %1")).arg(file));
  connect(
      line.cancel, &QPushButton::clicked, &m_document,
      [this, path, opens] {
        if (opens) return m_document.cancelOpening(path);
        m_document.files().cancelExport(path);
      },
      Qt::QueuedConnection);
  layout->addWidget(line.cancel);
  this->layout()->addWidget(line.widget);
  return line;
}

void ExportBar::follow() {
  std::vector<ExportStatus> files = m_document.files().exports();
  const std::size_t written = files.size();
  for (const ExportStatus& opening : m_document.openings()) files.push_back(opening);
  bool same = files.size() == m_lines.size();
  for (std::size_t n = 0; same && n < files.size(); ++n) {
    same = files[n].path == m_lines[n].path && (n >= written) == m_lines[n].opens;
  }
  if (!same) {
    for (const Line& line : m_lines) delete line.widget;
    m_lines.clear();
    for (std::size_t n = 0; n < files.size(); ++n) m_lines.push_back(makeLine(files[n].path, n >= written));
  }
  for (std::size_t n = 0; n < files.size(); ++n) {
    const ExportStatus& file = files[n];
    QString text = file.stage.isEmpty() ? (n == 0 ? tr("starting") : tr("waiting for the file before it")) : file.stage;
    if (file.secondsLeft >= 0) text += QStringLiteral(", ") + timeLeftText(file.secondsLeft);
    QProgressBar& bar = *m_lines[n].progress;
    const bool unknown = (n == 0 || n >= written) && file.fraction < 0;
    bar.setRange(0, unknown ? 0 : kSteps);
    if (!unknown) bar.setValue(static_cast<int>(std::max(0.0, file.fraction) * kSteps));
    bar.setFormat(text);
  }
  setVisible(!files.empty());
}

}  // namespace foxscope::gui
