#include <cmath>

#include <QApplication>
#include <QClipboard>
#include <QDockWidget>
#include <QDropEvent>
#include <QFile>
#include <QFileInfo>
#include <QJsonDocument>
#include <QLineEdit>
#include <QMenuBar>
#include <QMimeData>
#include <QPushButton>
#include <QSignalSpy>
#include <QTest>
#include <QTimer>

#include "app/gui/curves/curves_view.h"
#include "app/gui/heads/heads_view.h"
#include "app/gui/maps/map_pane.h"
#include "app/gui/maps/map_plot.h"
#include "app/gui/maps/maps_view.h"
#include "app/gui/text/text_view.h"
#include "app/gui/views/icon.h"
#include "app/gui/views/theme.h"
#include "app/gui/window/command_palette.h"
#include "app/gui/window/export_dialog.h"
#include "app/gui/window/intervention_dialog.h"
#include "app/gui/window/main_window.h"
#include "app/gui/window/message_bar.h"
#include "app/gui/window/readout.h"
#include "app/gui/window/shortcut_sheet.h"
#include "app/gui/window/start_page.h"
#include "tests/gui/support.h"

namespace foxscope::gui::test {

class WindowTest : public QObject {
  Q_OBJECT

 private slots:
  void initTestCase();
  void theStartPageOpensTheDemo();
  void keysRunAndCancel();
  void fromATokenToTheHeadsThatRememberItInTwoClicks();
  void theReadoutNamesWhatIsReadAndPredicted();
  void droppedFilesAreOpened();
  void thePaletteFindsCommands();
  void everyShortcutIsThereOnce();
  void aSessionBringsBackTheWholeWindow();
  void missingFilesOfASessionAreAskedFor();
  void messagesLeaveTheStateAlone();
  void picturesAndDataAreExported();
  void copyingPutsAPictureOnTheClipboard();
  void lightAndDarkAreBothReadable();
  void placesAreRemembered();
  void closingDuringARunEnds();
  void aHeadIsChangedAndRunAgain();
  void iconsTakeTheColoursOfTheTheme();
};

namespace {

constexpr int kPatience = 120'000;

struct Window {
  Folder folder;
  MainWindow window;

  explicit Window(const QString& demo = source("resources/demo.json")) : window(demo) {
    window.setRemembering(MainWindow::Remembering::off);
    window.resize(1400, 900);
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

QByteArray content(const QString& path) {
  QFile file(path);
  return file.open(QIODevice::ReadOnly) ? file.readAll() : QByteArray();
}

void dropOn(QWidget& window, const QMimeData& data) {
  const QPoint place(window.width() / 2, 5);
  QDragEnterEvent enter(place, Qt::CopyAction, &data, Qt::LeftButton, Qt::NoModifier);
  QCoreApplication::sendEvent(&window, &enter);
  QDropEvent drop(place, Qt::CopyAction, &data, Qt::LeftButton, Qt::NoModifier);
  QCoreApplication::sendEvent(&window, &drop);
}

// As the window manager would: shortcuts need the active window.
void press(QWidget& window, const QKeySequence& keys) {
  window.activateWindow();
  window.setFocus();
  QTest::keySequence(&window, keys);
}

}  // namespace

void WindowTest::initTestCase() {
  static QTemporaryDir config;
  qputenv("XDG_CONFIG_HOME", config.path().toUtf8());
  QApplication::setPalette(lightPalette());
}

void WindowTest::theStartPageOpensTheDemo() {
  Window test;
  auto* start = test.window.findChild<StartPage*>();
  QVERIFY(start->isVisible());
  QPushButton* demo = nullptr;
  for (auto* button : start->findChildren<QPushButton*>()) {
    if (button->text() == "Demo") demo = button;
  }
  QVERIFY(demo != nullptr && demo->isEnabled());
  QTest::mouseClick(demo, Qt::LeftButton);
  QTRY_COMPARE_WITH_TIMEOUT(test.document().runs().size(), 2U, kPatience);
  QVERIFY(test.settle());
  QVERIFY(!start->isVisible() && test.window.maps().isVisible());
  QVERIFY2(test.window.messages().isEmpty(), qPrintable(test.window.messages().join('\n')));
  QVERIFY(test.window.windowTitle().startsWith("fox-pro-12m, transformer-pro-12m"));
  QVERIFY(test.window.maps().figureOfActivePane().has_value());
  QVERIFY(test.window.curves().figureOfCurrentTab().has_value());
}

void WindowTest::keysRunAndCancel() {
  Window test;
  test.document().open({foxModel(), sampleText()});
  QVERIFY(waitUntilIdle(test.document()));
  press(test.window, QKeySequence("F5"));
  QVERIFY(test.document().runStatus().running);
  press(test.window, QKeySequence("Shift+F5"));
  QVERIFY(!test.document().runStatus().running);
  QVERIFY(test.document().runs().empty());
  RunSettings settings;
  settings.limit = 64;
  test.document().setSettings(settings);
  press(test.window, QKeySequence("F5"));
  QTRY_COMPARE_WITH_TIMEOUT(test.document().runs().size(), 1U, kPatience);
}

void WindowTest::fromATokenToTheHeadsThatRememberItInTwoClicks() {
  Window test;
  QVERIFY(test.run(256));
  test.window.headsView().setColouring({HeadColouring::Kind::quantity, HeadQuantity::pinnedForget, kNoRun});
  // A click in the map pins query and key at once.
  MapPlot& plot = test.window.maps().pane(0).plot();
  const QPoint place = plot.geometryOfView().corner(180, 60).toPoint();
  QTest::mouseMove(&plot, place);
  QTest::mouseClick(&plot, Qt::LeftButton, {}, place);
  QTRY_VERIFY(test.document().selection().pin().query && test.document().selection().pin().key);
  QVERIFY(test.settle());
  const Cursor pin = test.document().selection().pin();
  const Run& fox = test.document().runs()[0];
  for (int layer = 0; layer < 8; ++layer) {
    QCOMPARE(test.window.headsView().grid().shownValue({fox.id, layer, 2}),
             pair_reading({fox.trace, layer, 2}, *pin.query, *pin.key).forget);
  }
}

void WindowTest::theReadoutNamesWhatIsReadAndPredicted() {
  Window test;
  QVERIFY(test.run(128));
  const Run& fox = test.document().runs()[0];
  test.document().selection().setHead({fox.id, 3, 0});
  test.document().selection().setPin({100, 60});
  QVERIFY(test.settle());
  const QString told = test.window.findChild<Readout*>()->text();
  const TokenTable& tokens = *fox.trace->tokens();
  const PairReading reading = pair_reading({fox.trace, 3, 0}, 100, 60);
  // Position 100 reads the text's token 99 and predicts token 100.
  QVERIFY2(told.contains("query 100 " + predictedText(tokens, 99, Whitespace::visible)), qPrintable(told));
  QVERIFY(told.contains("→ predicts " + predictedText(tokens, 100, Whitespace::visible)));
  QVERIFY(told.contains("key 60 " + predictedText(tokens, 59, Whitespace::visible)));
  const auto number = [](double value) { return QString::number(value, 'g', 3).replace('-', QChar(0x2212)); };
  QVERIFY(told.contains("loss " + number(static_cast<double>(fox.trace->per_token_loss()[100])) + " nats"));
  QVERIFY(told.contains("F " + number(reading.forget)));
  QVERIFY(told.contains("A " + number(reading.attention)));
  QVERIFY(told.contains("logit " + number(reading.logit) + " nats"));
  QVERIFY(told.contains("c difference " + number(reading.log_forget) + " nats"));
}

void WindowTest::droppedFilesAreOpened() {
  Window test;
  QMimeData files;
  files.setUrls({QUrl::fromLocalFile(foxModel()), QUrl::fromLocalFile(sampleText())});
  dropOn(test.window, files);
  QVERIFY(waitUntilIdle(test.document()));
  QCOMPARE(test.document().models().size(), 1U);
  QCOMPARE(QFileInfo(test.document().text().file).fileName(), "black-beauty-1-3.txt");
  QMimeData words;
  words.setText("Nobody saw the fox.");
  dropOn(test.window, words);
  QCOMPARE(test.document().text().content, "Nobody saw the fox.");
}

void WindowTest::thePaletteFindsCommands() {
  Window test;
  QVERIFY(test.run(32));
  QStringList shown;
  QTimer::singleShot(0, &test.window, [&] {
    auto* palette = qobject_cast<CommandPalette*>(QApplication::activePopupWidget());
    if (palette == nullptr) return;
    auto* input = palette->findChild<QLineEdit*>();
    QTest::keyClicks(input, "entropy heads");
    shown = palette->shownTexts();
    QTest::keyClick(input, Qt::Key_Return);
  });
  press(test.window, QKeySequence("Ctrl+K"));
  QTRY_COMPARE(shown, QStringList{"Colour heads by entropy"});
  QTRY_COMPARE(test.window.headsView().colouring().quantity, HeadQuantity::entropy);
}

void WindowTest::everyShortcutIsThereOnce() {
  Window test;
  QMap<QString, QStringList> users;
  for (const QAction* action : test.window.commands()) {
    QVERIFY2(!plainText(*action).isEmpty(), "a command without a name");
    for (const QKeySequence& keys : action->shortcuts()) users[keys.toString()] += plainText(*action);
  }
  for (auto entry = users.begin(); entry != users.end(); ++entry) {
    QVERIFY2(entry->size() == 1, qPrintable(entry.key() + ": " + entry->join(", ")));
  }
  for (const char* keys :
       {"Ctrl+O", "Ctrl+Shift+O", "F5", "Ctrl+K", "Ctrl+,", "Ctrl+C", "Ctrl+E", "Ctrl+S", "Ctrl+0", "Ctrl+F", "F1"}) {
    QVERIFY2(users.contains(keys), keys);
  }
  ShortcutSheet sheet(test.window.commands(), &test.window);
  QVERIFY(!sheet.grab().isNull());
}

void WindowTest::aSessionBringsBackTheWholeWindow() {
  const Folder folder;
  QJsonObject maps;
  QJsonObject curves;
  {
    Window test;
    QVERIFY(test.run(128));
    test.document().saveRunFile(folder.path("run.h5"));
    test.window.maps().setPaneCount(4);
    test.window.curves().setTab(CurvesView::Tab::gate);
    test.window.headsView().setColouring({HeadColouring::Kind::quantity, HeadQuantity::halfLife, kNoRun});
    test.document().selection().setHead({test.document().runs()[1].id, 2, 2});
    test.document().selection().setPin({90, 40});
    test.document().selection().setView({{32, 96}, {32, 96}});
    QVERIFY(test.settle());
    maps = test.window.maps().saveState();
    curves = test.window.curves().saveState();
    QVERIFY(test.said("Saved " + folder.path("run.h5")));
    test.document().saveSession(
        folder.path("session.json"),
        QJsonObject{{"maps", maps}, {"curves", curves}, {"heads", test.window.headsView().saveState()}});
    QVERIFY(test.settle());
  }
  Window test;
  test.document().open({folder.path("session.json")});
  QTRY_COMPARE_WITH_TIMEOUT(test.document().runs().size(), 2U, kPatience);
  QVERIFY(test.settle());
  QCOMPARE(test.window.maps().paneCount(), 4);
  QCOMPARE(test.window.maps().saveState(), maps);
  QCOMPARE(test.window.curves().saveState(), curves);
  QCOMPARE(test.window.headsView().colouring().quantity, HeadQuantity::halfLife);
  QCOMPARE(test.document().run(test.document().selection().head().run)->name, "transformer-pro-12m");
  QVERIFY(test.document().selection().pin() == (Cursor{90, 40}));
  QVERIFY(test.document().selection().view() == (View{{32, 96}, {32, 96}}));
}

void WindowTest::missingFilesOfASessionAreAskedFor() {
  Window test;
  const QString session = test.folder.write("session.json", R"({"foxscope_session": 1, "run_files": ["./gone.h5"]})");
  test.document().open({session});
  QVERIFY(test.settle());
  QVERIFY(test.said("The session's run file is not there any more: " + test.folder.path("gone.h5")));
  bool offered = false;
  for (auto* button : test.window.findChild<MessageBar*>()->findChildren<QPushButton*>()) {
    offered = offered || button->text().startsWith("Locate");
  }
  QVERIFY(offered);
}

void WindowTest::messagesLeaveTheStateAlone() {
  Window test;
  QVERIFY(test.run(64));
  const RunId before = test.document().runs()[0].id;
  test.document().open({test.folder.write("bad.txt", "\xff\xfe\xff"), test.folder.path("nowhere"),
                        test.folder.write("new.json", R"({"foxscope_session": 7})")});
  QVERIFY(test.settle());
  QVERIFY(test.said("bad.txt"));
  QVERIFY(test.said("there is no such file or folder"));
  QVERIFY(test.said("newer version"));
  QCOMPARE(test.window.messages().size(), 3);
  QCOMPARE(test.document().runs()[0].id, before);
  QVERIFY(test.window.maps().figureOfActivePane().has_value());
  // The same message is not said twice, and closing it removes it.
  test.document().open({test.folder.path("nowhere")});
  QVERIFY(test.settle());
  QCOMPARE(test.window.messages().size(), 3);
}

void WindowTest::picturesAndDataAreExported() {
  Window test;
  QVERIFY(test.run(100));
  ExportDialog dialog(test.document(), test.window.maps(), test.window.curves(), test.window);
  const auto write = [&](ExportDialog::Source source, ExportDialog::Kind kind, const char* name) {
    dialog.source().setCurrentIndex(dialog.source().findData(static_cast<int>(source)));
    dialog.kind().setCurrentIndex(dialog.kind().findData(static_cast<int>(kind)));
    const QString path = test.folder.path(name);
    dialog.write(path);
    if (!waitUntilIdle(test.document())) return QByteArray();
    return content(path);
  };
  using Source = ExportDialog::Source;
  using Kind = ExportDialog::Kind;
  QVERIFY(write(Source::map, Kind::pdf, "map.pdf").startsWith("%PDF-"));
  QVERIFY(write(Source::map, Kind::svg, "map.svg").contains("<svg"));
  QVERIFY(write(Source::map, Kind::png, "map.png").startsWith("\x89PNG"));
  QVERIFY(write(Source::map, Kind::hdf5, "map.h5").startsWith("\x89HDF"));
  QVERIFY(write(Source::map, Kind::npy, "map.npy").startsWith("\x93NUMPY"));
  QVERIFY(write(Source::map, Kind::csv, "map.csv").startsWith("nan,"));
  QVERIFY(write(Source::curves, Kind::pdf, "curves.pdf").startsWith("%PDF-"));
  QVERIFY(write(Source::curves, Kind::csv, "curves.csv").contains("nats"));
  QVERIFY(write(Source::window, Kind::png, "window.png").startsWith("\x89PNG"));
  // Every figure that is offered can be drawn, and no two are the same.
  QSet<QByteArray> figures;
  int offered = 0;
  for (int index = 0; index < dialog.source().count(); ++index) {
    if (dialog.source().itemData(index).toInt() < static_cast<int>(Source::figures)) continue;
    ++offered;
    dialog.source().setCurrentIndex(index);
    QCOMPARE(dialog.kind().count(), 3);
    dialog.kind().setCurrentIndex(dialog.kind().findData(static_cast<int>(Kind::svg)));
    const QString path = test.folder.path(QString("figure%1.svg").arg(index));
    dialog.write(path);
    QVERIFY(waitUntilIdle(test.document()));
    QVERIFY2(content(path).contains("<svg"),
             qPrintable(dialog.source().currentText() + test.window.messages().join('|')));
    figures += content(path);
  }
  QCOMPARE(offered, 11);
  QCOMPARE(figures.size(), offered);
  QVERIFY(write(Source::map, Kind::png, "nowhere/map.png").isEmpty());
  QVERIFY2(test.said("nowhere"), qPrintable(test.window.messages().join('\n')));
}

void WindowTest::copyingPutsAPictureOnTheClipboard() {
  Window test;
  QVERIFY(test.run(64));
  QApplication::clipboard()->clear();
  test.window.maps().setFocus();
  press(test.window, QKeySequence::Copy);
  QTRY_VERIFY(!QApplication::clipboard()->image().isNull());
}

void WindowTest::lightAndDarkAreBothReadable() {
  Window test;
  QVERIFY(test.run(64));
  for (const QPalette& palette : {lightPalette(), darkPalette()}) {
    QApplication::setPalette(palette);
    QCoreApplication::processEvents();
    QVERIFY(test.settle());
    QVERIFY(isDark(test.window.palette()) == isDark(palette));
    // WCAG's contrast of text to its ground, 4.5 for ordinary text.
    const auto luminance = [](const QColor& colour) {
      const auto linear = [](double part) {
        return part <= 0.04045 ? part / 12.92 : std::pow((part + 0.055) / 1.055, 2.4);
      };
      return 0.2126 * linear(colour.redF()) + 0.7152 * linear(colour.greenF()) + 0.0722 * linear(colour.blueF());
    };
    const auto contrast = [&](const QColor& a, const QColor& b) {
      const double x = luminance(a);
      const double y = luminance(b);
      return (std::max(x, y) + 0.05) / (std::min(x, y) + 0.05);
    };
    QVERIFY(contrast(palette.color(QPalette::WindowText), palette.color(QPalette::Window)) > 7);
    QVERIFY(contrast(palette.color(QPalette::Text), palette.color(QPalette::Base)) > 7);
    QVERIFY(contrast(mutedTextColour(palette), palette.color(QPalette::Window)) > 4.5);
    for (int run = 0; run < 6; ++run) QVERIFY(contrast(runColour(run, palette), palette.color(QPalette::Base)) > 3);
  }
  QApplication::setPalette(lightPalette());
}

void WindowTest::placesAreRemembered() {
  {
    MainWindow window({});
    window.resize(1111, 777);
    window.show();
    window.findChild<QDockWidget*>("curves")->hide();
    window.close();
  }
  MainWindow window({});
  QVERIFY(window.restorePlaces());
  window.show();
  QCOMPARE(window.size(), QSize(1111, 777));
  QVERIFY(!window.findChild<QDockWidget*>("curves")->isVisible());
  window.setRemembering(MainWindow::Remembering::off);
}

void WindowTest::closingDuringARunEnds() {
  auto test = std::make_unique<Window>();
  test->document().open({foxModel(), sampleText()});
  QVERIFY(waitUntilIdle(test->document()));
  test->document().startRun();
  test->window.close();
  test.reset();
  QCoreApplication::processEvents();
}

void WindowTest::aHeadIsChangedAndRunAgain() {
  Window test;
  QVERIFY(test.run(64));
  const RunId base = test.document().runs()[0].id;
  test.document().selection().setHead({base, 2, 3});
  test.document().selection().setPin({50, 20});
  InterventionDialog dialog(test.document(), test.document().selection().head(), &test.window);
  dialog.show();
  QCOMPARE(dialog.intervention(), "2:3:one");
  const auto boxes = dialog.findChildren<QComboBox*>();
  QCOMPARE(boxes.size(), 2);
  const auto chosen = [&](int place, int kind) {
    boxes[0]->setCurrentIndex(place);
    boxes[1]->setCurrentIndex(kind);
    return dialog.intervention();
  };
  QCOMPARE(chosen(1, 1), "2:*:mean");
  QCOMPARE(chosen(2, 2), "*:*:constant=0.99");
  QCOMPARE(chosen(0, 3), "2:3:scale=2");
  QCOMPARE(chosen(0, 4), "2:3:zero@20");
  QCOMPARE(chosen(0, 5), "2:3:cut");
  QTest::keyClick(&dialog, Qt::Key_Return);
  QVERIFY(!dialog.isVisible());
  QTRY_COMPARE_WITH_TIMEOUT(test.document().runs().size(), 3U, kPatience);
  QVERIFY(test.settle());
  QCOMPARE(test.document().runs()[2].name, "fox-pro-12m.2-3-cut");
  // The change in loss is a curve like any other.
  QVERIFY(test.window.curves().dataOfCurrentTab().contains("loss of fox-pro-12m.2-3-cut minus fox-pro-12m"));
}

void WindowTest::iconsTakeTheColoursOfTheTheme() {
  const QPalette before = QApplication::palette();
  const QIcon icon = themedIcon("run");
  for (const QPalette& palette : {lightPalette(), darkPalette()}) {
    QApplication::setPalette(palette);
    const QImage picture = icon.pixmap(24, 24).toImage();
    QCOMPARE(picture.pixelColor(10, 12).rgb(), palette.color(QPalette::ButtonText).rgb());
    QCOMPARE(picture.pixelColor(0, 0).alpha(), 0);
  }
  QApplication::setPalette(before);
  QVERIFY(!programIcon().pixmap(64, 64).isNull());
  Window test;
  for (const QAction* action : test.window.commands()) {
    if (!action->icon().isNull()) QVERIFY2(!action->icon().pixmap(16, 16).isNull(), qPrintable(action->text()));
  }
}

}  // namespace foxscope::gui::test

QTEST_MAIN(foxscope::gui::test::WindowTest)
#include "window_test.moc"
