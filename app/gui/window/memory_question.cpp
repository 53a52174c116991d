#include "app/gui/window/memory_question.h"

#include <QLocale>
#include <QMessageBox>
#include <QPushButton>

namespace foxscope::gui {

void askForMemory(const MemoryQuestion& question, ModelRuns& modelRuns, QWidget& window) {
  const auto sized = [](double bytes) {
    return QLocale().formattedDataSize(static_cast<qint64>(bytes), 1, QLocale::DataSizeSIFormat);
  };
  const QString name = QStringLiteral("memory");
  delete window.findChild<QMessageBox*>(name);  // a newer question takes the place of the older
  auto* box = new QMessageBox(
      QMessageBox::Warning, QObject::tr("Much memory"),
      QObject::tr("This takes about %1 of memory, and %2 are free.").arg(sized(question.needed), sized(question.free)),
      QMessageBox::Cancel, &window);
  box->setInformativeText(
      QObject::tr(
          "The models will read %1 tokens. Fewer tokens, or runs without attention maps (Preferences), take less.")
          .arg(QLocale().toString(static_cast<qlonglong>(question.tokens))));
  box->setObjectName(name);
  box->setAttribute(Qt::WA_DeleteOnClose);
  const QPushButton* all = box->addButton(QObject::tr("Run Anyway"), QMessageBox::DestructiveRole);
  QObject::connect(all, &QPushButton::clicked, &modelRuns, &ModelRuns::runAnyway);
  if (question.fewer > 0) {
    QPushButton* fewer =
        box->addButton(QObject::tr("First %1 Tokens").arg(QLocale().toString(static_cast<qlonglong>(question.fewer))),
                       QMessageBox::AcceptRole);
    QObject::connect(fewer, &QPushButton::clicked, &modelRuns,
                     [&modelRuns, tokens = question.fewer] { modelRuns.runFewer(tokens); });
    box->setDefaultButton(fewer);
  }
  box->open();
}

}  // namespace foxscope::gui
