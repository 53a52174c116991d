#pragma once

#include <cstdint>

#include <QKeySequence>
#include <QTest>

#include "app/gui/window/main_window.h"
#include "tests/gui/support.h"

namespace foxscope::gui::test {

inline constexpr int kPatience = 120'000;  ///< ms

/// The window, shown, with the demo at hand.
struct Window {
  Folder folder;
  MainWindow window;

  explicit Window(const QString& demo = source("resources/demo.json"), const QSize& size = {1400, 900}) : window(demo) {
    window.setRemembering(MainWindow::Remembering::off);
    window.resize(size);
    window.show();
    static_cast<void>(QTest::qWaitForWindowActive(&window));
  }
  Document& document() { return window.document(); }
  bool settle() {
    return QTest::qWaitFor([&] { return window.isSettled(); }, kPatience);
  }
  bool run(std::int64_t tokens) { return runDemo(document(), tokens) && settle(); }
  bool said(const QString& words) { return window.messages().join('\n').contains(words); }
};

/// Writes an atlas of demo models, without sampled rows, into a file; the first is called fox. @returns whether it is
/// there
bool makeAtlas(const QString& path, const QStringList& models = {foxModel()});

/// Settings go to a folder of their own, and colours are light.
void useOwnSettings();

/// As the window manager would: shortcuts need the active window.
void press(QWidget& window, const QKeySequence& keys);

}  // namespace foxscope::gui::test
