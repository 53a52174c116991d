#include <QMessageBox>

#include "app/gui/window/main_window.h"

namespace foxscope::gui {

void MainWindow::showAbout() {
  QMessageBox::about(
      this, tr("About Foxscope"),
      tr("<h3>Foxscope %1</h3><p>See what each head of a Forgetting Transformer forgets, and when.</p>"
         "<p>Licence: GPL-3.0-or-later. Made with Qt %2, QCustomPlot, LibTorch, HDF5, Highway, PCRE2, CLI11, fmt and "
         "nlohmann's JSON.</p>")
          .arg(QStringLiteral(FOXSCOPE_VERSION), QString::fromLatin1(qVersion())));
}

}  // namespace foxscope::gui
