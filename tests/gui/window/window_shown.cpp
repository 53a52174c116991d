#include "tests/gui/window/window_shown.h"

#include <QApplication>
#include <QTemporaryDir>

#include "app/gui/views/theme.h"

namespace foxscope::gui::test {

void useOwnSettings() {
  static QTemporaryDir config;
  for (const char* home : {"XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME"})
    qputenv(home, config.path().toUtf8());
  QApplication::setPalette(lightPalette());
}

void press(QWidget& window, const QKeySequence& keys) {
  window.activateWindow();
  window.setFocus();
  QTest::keySequence(&window, keys);
}

}  // namespace foxscope::gui::test
