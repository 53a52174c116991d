#include <algorithm>
#include <cmath>
#include <map>
#include <memory>

#include <QApplication>
#include <QClipboard>
#include <QComboBox>
#include <QDockWidget>
#include <QFile>
#include <QLabel>
#include <QLineEdit>
#include <QMenu>
#include <QMimeData>
#include <QPushButton>
#include <QScreen>
#include <QSpinBox>
#include <QStatusBar>
#include <QTest>
#include <QTextBrowser>
#include <QTextFrame>
#include <QTimer>
#include <QToolButton>

#include "app/figure/curves/curve_palette.h"
#include "app/gui/curves/curves_view.h"
#include "app/gui/document/number_text.h"
#include "app/gui/effects/effects_view.h"
#include "app/gui/evaluations/evaluations_view.h"
#include "app/gui/heads/heads_view.h"
#include "app/gui/maps/map_plot.h"
#include "app/gui/maps/maps_view.h"
#include "app/gui/maps/pane/map_pane.h"
#include "app/gui/text/text_editor.h"
#include "app/gui/text/text_page.h"
#include "app/gui/text/text_view.h"
#include "app/gui/views/icon.h"
#include "app/gui/views/theme.h"
#include "app/gui/window/command_palette.h"
#include "app/gui/window/docks.h"
#include "app/gui/window/help/shortcut_sheet.h"
#include "app/gui/window/help/start_page.h"
#include "app/gui/window/intervention_dialog.h"
#include "app/gui/window/model_card.h"
#include "app/gui/window/preferences.h"
#include "app/gui/window/readout.h"
#include "app/gui/window/run_bar.h"
#include "app/gui/window/run_list_view.h"
#include "app/gui/window/sweep_dialog.h"
#include "tests/gui/subject.h"
#include "tests/gui/window/window_shown.h"

namespace foxscope::gui::test {

class WindowTest : public QObject {
  Q_OBJECT

 private slots:
  void initTestCase();
  void theStartPageOpensTheDemo();
  void keysRunAndCancel();
  void fromATokenToTheHeadsThatRememberItInTwoClicks();
  void theReadoutNamesWhatIsReadAndPredicted();
  void thePaletteFindsCommands();
  void everyShortcutIsThereOnce();
  void docksStandBesideWhatIsOpen();
  void thePartsGoBackToTheirPlaces();
  void mapsFillTheirPanes();
  void itFitsASmallScreen_data();
  void itFitsASmallScreen();
  void itIsNeverLargerThanItsScreen();
  void docksShrinkWithTheWindow();
  void partsComeIntoSightWithoutWideningIt_data();
  void partsComeIntoSightWithoutWideningIt();
  void messagesLeaveTheStateAlone();
  void lightAndDarkAreBothReadable();
  void closingDuringARunEnds();
  void aHeadIsChangedAndRunAgain();
  void everyHeadIsChangedInTurn();
  void iconsTakeTheColoursOfTheTheme();
  void keysWorkAnywhereButWhereOneTypes();
  void theListOfRunsIsWorkedByMouseAndKeys();
  void rowsAreDraggedToAnotherPlace();
  void preferencesAreNamedAndTaken();
  void whatIsRemovedFromTheListComesBack();
  void aCardTellsWhatIsKnownOfARun();
};

void WindowTest::initTestCase() { useOwnSettings(); }

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
  Window test(source("resources/demo.json"), {1024, 700});
  test.document().open({foxModel(), sampleText()});
  QVERIFY(waitUntilIdle(test.document()));
  // What is missing is read without scrolling, however low the page is.
  const QLabel* hint = nullptr;
  for (const auto* label : test.window.findChild<StartPage*>()->findChildren<QLabel*>()) {
    if (label->text() == "No run yet: press F5.") hint = label;
  }
  QVERIFY(hint != nullptr && hint->isVisible());
  QTRY_COMPARE(hint->visibleRegion().boundingRect(), hint->rect());
  press(test.window, QKeySequence("F5"));
  QVERIFY(test.document().modelRuns().runStatus().running);
  press(test.window, QKeySequence("Shift+F5"));
  QVERIFY(!test.document().modelRuns().runStatus().running);
  QVERIFY(test.document().runs().empty());
  RunSettings settings;
  settings.limit = 64;
  test.document().modelRuns().setSettings(settings);
  press(test.window, QKeySequence("F5"));
  QTRY_COMPARE_WITH_TIMEOUT(test.document().runs().size(), 1U, kPatience);
}

void WindowTest::fromATokenToTheHeadsThatRememberItInTwoClicks() {
  Window test;
  QVERIFY(test.run(256));
  test.window.headsView().setColouring({HeadColouring::Kind::quantity, HeadQuantity::pinnedForget, kNoRun});
  // A click in the map pins query and key at once.
  MapPlot& plot = test.window.maps().pane(0).plot();
  const QPoint place = plot.geometryOfView().cell(180, 60).topLeft().toPoint();
  QTest::mouseMove(&plot, place);
  QTest::mouseClick(&plot, Qt::LeftButton, {}, place);
  QTRY_VERIFY(test.document().runs().selection().pin().query && test.document().runs().selection().pin().key);
  QVERIFY(test.settle());
  const Cursor pin = test.document().runs().selection().pin();
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
  test.document().runs().selection().setHead({fox.id, 3, 0});
  test.document().runs().selection().setPin({100, 60});
  QVERIFY(test.settle());
  const QString told = test.window.findChild<Readout*>()->text();
  const TokenTable& tokens = *fox.trace->tokens();
  const PairReading reading = pair_reading({fox.trace, 3, 0}, 100, 60);
  // Position 100 reads the text's token 99 and predicts token 100.
  QVERIFY2(told.contains("query 100 " + predictedText(tokens, 99, Whitespace::visible)), qPrintable(told));
  QVERIFY(told.contains("→ predicts " + predictedText(tokens, 100, Whitespace::visible)));
  QVERIFY(told.contains("key 60 " + predictedText(tokens, 59, Whitespace::visible)));
  const auto number = [](double value) { return numberOf(value, 3); };
  QVERIFY(told.contains("loss " + number(static_cast<double>(fox.trace->per_token_loss()[100])) + " nats"));
  QVERIFY(told.contains("distance 40"));
  QVERIFY(told.contains("F " + number(reading.forget)));
  QVERIFY(told.contains("A " + number(reading.attention)));
  QVERIFY(told.contains("logit " + number(reading.logit) + " nats"));
  QVERIFY(told.contains("log F " + number(reading.log_forget) + " nats"));
}

void WindowTest::thePaletteFindsCommands() {
  Window test;
  QVERIFY(test.run(32));
  QStringList shown;
  QString first;
  QTimer::singleShot(0, &test.window, [&] {
    auto* palette = qobject_cast<CommandPalette*>(QApplication::activePopupWidget());
    if (palette == nullptr) return;
    auto* input = palette->findChild<QLineEdit*>();
    // What begins so is first, and what Return does.
    QTest::keyClicks(input, "show sal");
    first = palette->shownTexts().value(0);
    input->clear();
    QTest::keyClicks(input, "entropy heads");
    shown = palette->shownTexts();
    QTest::keyClick(input, Qt::Key_Return);
  });
  press(test.window, QKeySequence("Ctrl+K"));
  QTRY_COMPARE(shown, QStringList{"Colour heads by entropy"});
  QCOMPARE(first, "Show saliency along the text");
  QTRY_COMPARE(test.window.headsView().colouring().quantity, HeadQuantity::entropy);
}

// With nothing open the first page stands alone; docks come back as they were.
void WindowTest::docksStandBesideWhatIsOpen() {
  Window test;
  const auto visible = [&] {
    QStringList names;
    for (const auto* dock : test.window.findChildren<QDockWidget*>()) {
      if (dock->isVisible()) names += dock->objectName();
    }
    names.sort();
    return names;
  };
  QCOMPARE(visible(), QStringList());
  QVERIFY(test.run(64));
  // Two runs on one text are compared.
  QCOMPARE(visible(), (QStringList{"comparison", "curves", "heads", "predictions", "text"}));
  test.window.findChild<QDockWidget*>("text")->hide();
  auto* heads = test.window.findChild<QDockWidget*>("heads");
  test.window.addDockWidget(Qt::RightDockWidgetArea, heads);
  QTRY_VERIFY(heads->x() > test.window.width() / 2);
  test.document().clear();
  QCOMPARE(visible(), QStringList());
  QVERIFY(test.run(64));
  QCOMPARE(visible(), (QStringList{"comparison", "curves", "heads", "predictions"}));
  QCOMPARE(test.window.dockWidgetArea(heads), Qt::RightDockWidgetArea);
  // An evaluation alone is something that is open, and has the centre.
  test.document().clear();
  test.document().open({source("resources/figures/loss.h5")});
  QTRY_VERIFY(test.window.evaluations().isVisible());
  QCOMPARE(visible(), QStringList());
}

void WindowTest::thePartsGoBackToTheirPlaces() {
  Window test;
  test.document().modelRuns().setText({{}, "Something is open."});
  QVERIFY(test.settle());
  QCoreApplication::processEvents();
  // The lists of runs and words, the comparison, evaluations, effects and trainings are out of sight at first.
  auto docks = test.window.findChildren<QDockWidget*>();
  QCOMPARE(docks.size(), 11);
  auto* effects = test.window.findChild<QDockWidget*>("effects");
  docks.removeIf([](const QDockWidget* dock) { return !dock->isVisible(); });
  QCOMPARE(docks.size(), 3);
  std::map<QDockWidget*, QRect> places;
  for (QDockWidget* dock : docks) places[dock] = dock->geometry();
  effects->show();
  effects->raise();
  docks[0]->hide();
  docks[1]->setFloating(true);
  test.window.addDockWidget(Qt::TopDockWidgetArea, docks[2]);
  const auto actions = test.window.findChildren<QAction*>();
  const auto reset = std::find_if(actions.begin(), actions.end(),
                                  [](const QAction* action) { return action->text() == "Reset &Layout"; });
  QVERIFY(reset != actions.end());
  (*reset)->trigger();
  for (QDockWidget* dock : docks) {
    QVERIFY(dock->isVisible() && !dock->isFloating());
    QTRY_COMPARE(dock->geometry(), places[dock]);
  }
  QVERIFY(!effects->isVisible());
}

void WindowTest::mapsFillTheirPanes() {
  Window test(source("resources/demo.json"), {1600, 1000});
  QVERIFY(test.run(256));
  QCOMPARE(test.window.size(), QSize(1600, 1000));
  QCOMPARE(test.window.maps().paneCount(), 2);
  for (int index = 0; index < 2; ++index) {
    const MapPane& pane = test.window.maps().pane(index);
    const QSize map = pane.plot().geometryOfView().rect.size();
    QCOMPARE(map.width(), map.height());
    const double share = static_cast<double>(map.width()) * map.height() / (pane.width() * pane.height());
    QVERIFY2(share >= 0.70,
             qPrintable(QString("%1 of %2 x %3: %4").arg(map.width()).arg(pane.width()).arg(pane.height()).arg(share)));
  }
}

void WindowTest::itFitsASmallScreen_data() {
  QTest::addColumn<QString>("session");
  QTest::addColumn<QSize>("size");
  for (const char* name : {"demo", "demo-forgets", "demo-wins", "demo-remembers"}) {
    QTest::newRow(name) << QStringLiteral("resources/%1.json").arg(name) << QSize(1024, 700);
  }
  // 1366 x 768, and 1280 x 800 or 2560 x 1600 at twice the size, without the frame.
  QTest::newRow("small laptop") << QStringLiteral("resources/demo.json") << QSize(1354, 724);
  QTest::newRow("13 inches") << QStringLiteral("resources/demo.json") << QSize(1268, 756);
}

void WindowTest::itFitsASmallScreen() {
  QFETCH(QString, session);
  QFETCH(QSize, size);
  Window test(source("resources/demo.json"), size);
  test.document().open({source(session)});
  QTRY_COMPARE_WITH_TIMEOUT(test.document().runs().size(), 2U, kPatience);
  QVERIFY(test.settle());
  const QSize shown = test.window.size();
  QStringList least{QStringLiteral("window %1 x %2").arg(shown.width()).arg(shown.height())};
  for (const auto* dock : test.window.findChildren<QDockWidget*>()) {
    const QSize hint = dock->minimumSizeHint();
    if (dock->isVisible()) {
      least += QStringLiteral("%1 %2 x %3").arg(dock->objectName()).arg(hint.width()).arg(hint.height());
    }
  }
  const QSize centre = test.window.centralWidget()->minimumSizeHint();
  least += QStringLiteral("centre %1 x %2").arg(centre.width()).arg(centre.height());
  QVERIFY2(shown == size, qPrintable(least.join(", ")));
  // Every part is inside; the text has a quarter of the width at most, and low windows give curves a third.
  for (auto* part : std::initializer_list<QWidget*>{&test.window.docks().heads(), &test.window.docks().text(),
                                                    &test.window.docks().curves(), &test.window.maps()}) {
    QVERIFY(part->isVisible());
    QVERIFY(test.window.rect().contains(QRect(part->mapTo(&test.window, QPoint()), part->size())));
  }
  QVERIFY(test.window.rect().contains(test.window.statusBar()->geometry()));
  QVERIFY(test.window.docks().text().width() * 4 <= size.width() + 4);
  // Evaluations behind them need more.
  const int curves = test.window.docks().curves().height();
  const int most = test.document().evaluations().empty() ? 36 : 45;
  QVERIFY2(curves * 100 <= most * size.height(), qPrintable(QString::number(curves)));
}

void WindowTest::itIsNeverLargerThanItsScreen() {
  MainWindow window({});
  window.setRemembering(MainWindow::Remembering::off);
  window.resizeToFit({100'000, 100'000});
  const QSize room = window.screen()->availableSize();
  QVERIFY(window.width() < room.width() && window.height() < room.height());
  QVERIFY(window.width() > room.width() * 9 / 10 && window.height() > room.height() * 8 / 10);
  window.resizeToFit({780, 560});
  QCOMPARE(window.size(), QSize(780, 560).expandedTo(window.minimumSizeHint()));
}

// Docks that were placed in a larger window shrink as the window does, not the maps alone.
void WindowTest::docksShrinkWithTheWindow() {
  QByteArray state;
  double curves = 0;
  double text = 0;
  {
    Window test(source("resources/demo.json"), {1800, 1150});
    QVERIFY(test.run(64));
    Docks& docks = test.window.docks();
    test.window.resizeDocks({&docks.curves()}, {500}, Qt::Vertical);
    test.window.resizeDocks({&docks.text()}, {480}, Qt::Horizontal);
    QCoreApplication::processEvents();
    curves = docks.curves().height() / 1150.0;
    text = docks.text().width() / 1800.0;
    QVERIFY(curves > 0.4 && text > 0.25);
    state = docks.state();
  }
  for (const QSize& size : {QSize(1300, 760), QSize(1800, 1150)}) {
    Window test(source("resources/demo.json"), size);
    QVERIFY(test.run(64));
    test.window.docks().restore(state);
    QCoreApplication::processEvents();
    QCOMPARE(test.window.size(), size);
    const double height = test.window.docks().curves().height();
    const double width = test.window.docks().text().width();
    const int least = test.window.centralWidget()->minimumSizeHint().height();
    QVERIFY2(std::abs(height / size.height() - curves) < 0.03,
             qPrintable(QString("%1 of %2, maps %3").arg(height).arg(curves).arg(least)));
    QVERIFY2(std::abs(width / size.width() - text) < 0.03, qPrintable(QString::number(width)));
  }
}

void WindowTest::partsComeIntoSightWithoutWideningIt_data() {
  QTest::addColumn<bool>("dark");
  QTest::newRow("light") << false;
  QTest::newRow("dark") << true;
}

// The docks of runs come when a file is opened, out of the first page: in between they ask for no more than when they
// stand in their places.
void WindowTest::partsComeIntoSightWithoutWideningIt() {
  QFETCH(bool, dark);
  QApplication::setPalette(dark ? darkPalette() : lightPalette());
  const Folder folder;
  const QString file = folder.path("run.h5");
  {
    Document document;
    QVERIFY(runDemo(document, 64));
    document.files().saveRunFile(file);
    QVERIFY(QTest::qWaitFor([&] { return document.files().exports().empty() && !document.busy(); }, kPatience));
  }
  const auto widthAfterOpening = [&](const QSize& size, int& least) {
    Window test(source("resources/demo.json"), size);
    test.document().open({file});
    static_cast<void>(QTest::qWaitFor([&] { return test.document().runs().size() == 2; }, kPatience));
    static_cast<void>(test.settle());
    least = test.window.minimumSizeHint().width();
    return test.window.width();
  };
  int least = 0;
  QCOMPARE(widthAfterOpening({1400, 900}, least), 1400);
  QVERIFY2(least < 1000, qPrintable(QString::number(least)));
  const QSize narrow(least + 20, 700);
  QCOMPARE(widthAfterOpening(narrow, least), narrow.width());
  // Nor do the grids of many models: those that have no room are scrolled to.
  QVERIFY(QFile::copy(source("resources/figures/needle.h5"), folder.path("needle.h5")));
  Window test(source("resources/demo.json"), {1024, 700});
  test.document().open({file, source("resources/figures/needle.h5"), folder.path("needle.h5"),
                        source("resources/figures/heads.h5"), source("resources/figures/loss.h5")});
  QTRY_COMPARE_WITH_TIMEOUT(test.document().evaluations().size(), 4U, kPatience);
  QVERIFY(test.settle());
  QCOMPARE(test.window.width(), 1024);
  QApplication::setPalette(lightPalette());
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

void WindowTest::lightAndDarkAreBothReadable() {
  Window test;
  QVERIFY(test.run(64));
  for (const QPalette& palette : {lightPalette(), darkPalette()}) {
    QApplication::setPalette(palette);
    QCoreApplication::processEvents();
    QVERIFY(test.settle());
    QVERIFY(isDark(test.window.palette()) == isDark(palette));
    const auto* chip = test.window.findChild<QToolButton*>(QStringLiteral("chip"));
    QVERIFY(chip != nullptr);
    QCOMPARE(chip->icon().pixmap(10, 10).toImage().pixelColor(5, 5), runColour(0, palette));
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

void WindowTest::closingDuringARunEnds() {
  auto test = std::make_unique<Window>();
  test->document().open({foxModel(), sampleText()});
  QVERIFY(waitUntilIdle(test->document()));
  test->document().modelRuns().startRun();
  test->window.close();
  test.reset();
  QCoreApplication::processEvents();
}

void WindowTest::aHeadIsChangedAndRunAgain() {
  Window test;
  QVERIFY(test.run(64));
  const RunId base = test.document().runs()[0].id;
  test.document().runs().selection().setHead({base, 2, 3});
  test.document().runs().selection().setPin({50, 20});
  InterventionDialog dialog(test.document().runs(), test.document().modelRuns(),
                            test.document().runs().selection().head(), &test.window);
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
  QCOMPARE(test.document().runs()[2].name, "fox-pro-12m, L2 H3, cut");
  // What it did is on top, although the head is still the unchanged run's.
  QVERIFY(test.document().runs().selection().head() == (HeadChoice{base, 2, 3}));
  const ChangeCard& card = test.window.effects().card();
  QVERIFY2(card.sentence().contains("fox-pro-12m, L2 H3, cut:"), qPrintable(card.sentence()));
  QTRY_VERIFY(!card.visibleRegion().isEmpty());
  // The change in loss is a curve like any other.
  QVERIFY(test.window.curves().dataOfCurrentTab().contains("loss of fox-pro-12m minus fox-pro-12m, L2 H3, cut"));
}

void WindowTest::everyHeadIsChangedInTurn() {
  Window test;
  QVERIFY(test.run(64));
  auto* dock = test.window.findChild<QDockWidget*>("effects");
  QVERIFY(!dock->isVisible());
  SweepDialog dialog(test.document().runs(), test.window.sweeps(), &test.window);
  dialog.show();
  QCOMPARE(dialog.run().count(), 2);
  const ListRow fox = test.document().runs().listRows()[0];
  test.document().runs().setLook(fox, RunLook{{}, 0, 0, true});
  QCOMPARE(SweepDialog(test.document().runs(), test.window.sweeps(), &test.window).run().count(), 1);
  test.document().runs().setLook(fox, RunLook{{}, 0, 0, false});
  QCOMPARE(dialog.change().kind_text(), "one");
  dialog.kind().setCurrentIndex(3);
  QCOMPARE(dialog.change().kind_text(), "constant=0.99");
  dialog.kind().setCurrentIndex(4);
  QCOMPARE(dialog.change().kind_text(), "scale=2");
  dialog.kind().setCurrentIndex(1);
  dialog.run().setCurrentIndex(1);
  QTest::keyClick(&dialog, Qt::Key_Return);
  QVERIFY(!dialog.isVisible());
  QVERIFY(dock->isVisible());
  QVERIFY(test.window.sweeps().running());
  QVERIFY(QTest::qWaitFor([&] { return !test.window.sweeps().running(); }, kPatience));
  QCOMPARE(test.window.sweeps().shown()->name, "transformer-pro-12m, cut");
  QCOMPARE(test.window.sweeps().shown()->known(), 32);
  SweepGrid& grid = test.window.effects().grid();
  QTest::mouseClick(&grid, Qt::LeftButton, {}, grid.cell(2, 1).center());
  QVERIFY(test.document().runs().selection().head() == (HeadChoice{test.document().runs()[1].id, 2, 1}));
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

void WindowTest::keysWorkAnywhereButWhereOneTypes() {
  Window test;
  QVERIFY(test.run(64));
  MapsView& maps = test.window.maps();
  test.window.headsView().setTab(HeadsView::Tab::table);
  QTableView& table = test.window.headsView().table();
  auto* page = test.window.text().findChild<TextPage*>();
  const HeadChoice head = test.document().runs().selection().head();
  const QList<QWidget*> places{&table, test.window.headsView().findChild<QComboBox*>(), page, &test.window.curves(),
                               &maps.pane(0).plot()};
  for (QWidget* place : places) {
    place->setFocus();
    maps.setPaneCount(2);
    PaneState state = maps.paneState(maps.activePane());
    state.setQuantity(Quantity::forget);
    state.setSides(Sides::left);
    maps.setPaneState(maps.activePane(), state);
    QTest::keyClick(place, Qt::Key_4);
    QCOMPARE(maps.paneCount(), 4);
    QTest::keyClick(place, Qt::Key_1);
    QCOMPARE(maps.paneCount(), 1);
    QTest::keyClick(place, Qt::Key_Q);
    QVERIFY(maps.paneState(maps.activePane()).quantity != Quantity::forget);
    QTest::keyClick(place, Qt::Key_D);
    QCOMPARE(maps.paneState(maps.activePane()).sides, Sides::difference);
    QTest::keyClick(place, Qt::Key_A);
    QCOMPARE(maps.paneState(maps.activePane()).sides, Sides::left);
    test.document().runs().selection().resetView(64);
    QTest::keyClick(place, Qt::Key_Plus);
    QVERIFY(test.document().runs().selection().view().rows.size() < 64);
    // Numbers and letters that are no keys choose nothing either.
    QTest::keyClick(place, Qt::Key_3);
    QVERIFY(test.document().runs().selection().head() == head);
  }
  // Where one types, they are letters and numbers.
  for (QAction* action : test.window.commands()) {
    if (action->text() == "Edit text or show run") action->trigger();
  }
  auto* editor = test.window.text().findChild<TextEditor*>();
  QVERIFY(editor->isVisible());
  editor->setFocus();
  QTest::keyClicks(editor, "4ABVHDNQCLK+-2");
  QVERIFY(QString::fromStdString(test.document().modelRuns().text().content).startsWith("4ABVHDNQCLK+-2"));
  QCOMPARE(maps.paneCount(), 1);
  auto* limit = test.window.findChild<RunBar*>()->findChild<QSpinBox*>();
  limit->setFocus();
  limit->selectAll();
  QTest::keyClicks(limit, "42");
  QTest::keyClick(limit, Qt::Key_Return);
  QCOMPARE(limit->value(), 42);
  QCOMPARE(maps.paneCount(), 1);
  QVERIFY(maps.paneState(maps.activePane()).sides == Sides::left);
}

namespace {

/// The list of runs, opened by its key.
RunListView* openList(Window& test) {
  press(test.window, QKeySequence("Ctrl+R"));
  auto* list = test.window.findChild<RunListView*>();
  return list->isVisible() && QTest::qWaitFor([&] { return list->hasFocus(); }) ? list : nullptr;
}

void clickColumn(RunListView& list, int row, RunListModel::Column column) {
  const QModelIndex index = list.list().index(row, column);
  QTest::mouseClick(list.viewport(), Qt::LeftButton, {}, list.visualRect(index).center());
  QCoreApplication::processEvents();
}

}  // namespace

void WindowTest::theListOfRunsIsWorkedByMouseAndKeys() {
  Window test;
  QVERIFY(test.run(64));
  Document& document = test.document();
  RunListView* list = openList(test);
  QVERIFY(list != nullptr);
  // It takes no more than its rows need, the text keeps the rest.
  QVERIFY2(list->height() < test.window.height() / 4, qPrintable(QString::number(list->height())));
  const RunId fox = document.runs()[0].id;
  const RunId transformer = document.runs()[1].id;
  clickColumn(*list, 1, RunListModel::kName);
  QCOMPARE(document.runs().selection().head().run, transformer);
  QTest::keyClick(list, Qt::Key_Up);
  QTest::keyClick(list, Qt::Key_Return);
  QCOMPARE(document.runs().selection().head().run, fox);
  // The names, of the run that is shown and of another one, which is not shown by that.
  for (const auto& [key, name] : {std::pair{Qt::Key_Up, "Forgetful"}, std::pair{Qt::Key_Down, "Mindful"}}) {
    QTest::keyClick(list, key);
    QTest::keyClick(list, Qt::Key_F2);
    auto* editor = list->findChild<QLineEdit*>();
    QVERIFY(editor != nullptr);
    editor->setText(name);
    QTest::keyClick(editor, Qt::Key_Return);
    QTRY_COMPARE(document.runs()[key == Qt::Key_Up ? 0 : 1].name, name);
    QTRY_VERIFY(list->findChild<QLineEdit*>() == nullptr);
  }
  QCOMPARE(document.runs().selection().head().run, fox);
  QVERIFY(test.window.windowTitle().startsWith("Forgetful, Mindful"));
  // The colour, also by its key, which is a command of the window's elsewhere.
  list->setFocus();
  QTest::keyClick(list, Qt::Key_C);
  auto* menu = list->findChild<QMenu*>();
  QVERIFY(menu != nullptr && menu->isVisible());
  menu->close();
  QTRY_VERIFY(list->findChild<QMenu*>() == nullptr);
  clickColumn(*list, 0, RunListModel::kMark);
  QTRY_VERIFY(list->findChild<QMenu*>() != nullptr);
  menu = list->findChild<QMenu*>();
  QVERIFY(menu != nullptr && menu->isVisible());
  QCOMPARE(menu->actions().size(), 6);
  menu->actions()[3]->trigger();
  menu->close();
  QCOMPARE(document.runs()[0].look.colour, 3);
  QVERIFY(test.settle());
  const auto figure = test.window.curves().figureOfCurrentTab();
  QVERIFY(figure && figure->curves[0].ownColour == figure::curveColour(3));
  // The eye: curves and heads leave it out, and another run is shown.
  clickColumn(*list, 0, RunListModel::kShown);
  QVERIFY(document.runs()[0].look.hidden);
  QCOMPARE(document.runs().selection().head().run, transformer);
  QVERIFY(test.settle());
  QCOMPARE(test.window.curves().figureOfCurrentTab()->curves.size(), 1U);
  list->setCurrentIndex(list->list().index(0, RunListModel::kName));
  QTest::keyClick(list, Qt::Key_Space);
  QVERIFY(!document.runs()[0].look.hidden);
  // The place.
  QTest::keyClick(list, Qt::Key_Down, Qt::AltModifier);
  QCOMPARE(document.runs()[1].id, fox);
  QCOMPARE(list->currentIndex().row(), 1);
  QTest::keyClick(list, Qt::Key_Up, Qt::AltModifier);
  QCOMPARE(document.runs()[0].id, fox);
  QCOMPARE(document.runs().models()[0].name, "fox-pro-12m");
  // Without a window manager nobody makes it active again when the menu has gone.
  test.window.activateWindow();
  QVERIFY(QTest::qWaitForWindowActive(&test.window));
  press(test.window, QKeySequence("Ctrl+R"));
  QTRY_VERIFY(!list->isVisible());
}

void WindowTest::rowsAreDraggedToAnotherPlace() {
  Window test;
  QVERIFY(test.run(64));
  RunListView* list = openList(test);
  QVERIFY(list != nullptr);
  const RunId fox = test.document().runs()[0].id;
  const std::unique_ptr<QMimeData> dragged(list->list().mimeData({list->list().index(0, RunListModel::kName)}));
  QVERIFY(list->list().dropMimeData(dragged.get(), Qt::MoveAction, 2, 0, {}));
  QTRY_COMPARE(test.document().runs()[1].id, fox);
  QVERIFY(list->list().dropMimeData(dragged.get(), Qt::MoveAction, -1, -1, list->list().index(1, 0)));
  QTRY_COMPARE(test.document().runs()[0].id, fox);
}

void WindowTest::aCardTellsWhatIsKnownOfARun() {
  Window test;
  QVERIFY(test.run(64));
  RunListView* list = openList(test);
  QVERIFY(list != nullptr);
  clickColumn(*list, 0, RunListModel::kAbout);
  auto* card = test.window.findChild<ModelCard*>();
  QVERIFY(card != nullptr && card->isVisible());
  QTRY_VERIFY_WITH_TIMEOUT(card->text().contains("FoX (Pro)"), kPatience);
  const QString text = card->text();
  for (const QString& known : {QStringLiteral("perplexity"), QStringLiteral("SHA-256"), QStringLiteral("parameters"),
                               QStringLiteral("tokenizer.json"), QStringLiteral("float32 on cpu"),
                               QStringLiteral("config.json"), QStringLiteral("forward pass")}) {
    QVERIFY2(text.contains(known), qPrintable(known + " is not in " + text));
  }
  auto* browser = card->findChild<QTextBrowser*>();
  // Values of all parts stand below one another.
  QCOMPARE(browser->document()->rootFrame()->childFrames().size(), 1);
  browser->setFocus();
  QTRY_VERIFY(browser->hasFocus());
  browser->selectAll();
  QTest::keyClick(browser, Qt::Key_C, Qt::ControlModifier);
  QTRY_VERIFY(QApplication::clipboard()->text().contains("perplexity"));
}

void WindowTest::preferencesAreNamedAndTaken() {
  Window test;
  Settings& settings = test.window.settings();
  const ThemeChoice before = settings.theme();
  Preferences dialog(test.document().modelRuns(), settings, nullptr);
  for (const auto* field : dialog.findChildren<QComboBox*>()) {
    const auto labels = dialog.findChildren<QLabel*>();
    QVERIFY(std::any_of(labels.begin(), labels.end(),
                        [&](const QLabel* label) { return label->buddy() == field && !label->text().isEmpty(); }));
  }
  const auto choose = [&](const QString& label, const QString& value) {
    for (const auto* each : dialog.findChildren<QLabel*>()) {
      if (each->text() == label) qobject_cast<QComboBox*>(each->buddy())->setCurrentText(value);
    }
  };
  choose("&Theme", "dark");
  choose("&Device", "cpu");
  choose("&Precision", "bfloat16");
  dialog.findChild<QCheckBox*>()->setChecked(false);
  QVERIFY(test.document().modelRuns().settings().keepQueryKey);
  dialog.accept();
  QCOMPARE(settings.theme(), ThemeChoice::dark);
  QVERIFY(test.document().modelRuns().settings().device == (DeviceChoice{DeviceChoice::Kind::cpu, {}}));
  QVERIFY(test.document().modelRuns().settings().dtype == DType::bfloat16);
  QVERIFY(!test.document().modelRuns().settings().keepQueryKey);
  settings.setTheme(before);
}

void WindowTest::whatIsRemovedFromTheListComesBack() {
  Window test;
  QVERIFY(test.run(64));
  auto* bar = test.window.findChild<RunBar*>();
  const auto chips = [&] { return bar->findChildren<QToolButton*>("chip"); };
  QCOMPARE(chips().size(), 2);
  const std::vector<ModelInput> models = test.document().runs().models();
  const RunId transformer = test.document().runs()[1].id;
  QTest::mouseClick(chips()[1], Qt::LeftButton);
  QCoreApplication::processEvents();
  QVERIFY(test.document().runs().models() == models);
  QCOMPARE(test.document().runs().selection().head().run, transformer);
  RunListView* list = openList(test);
  QVERIFY(list != nullptr);
  clickColumn(*list, 1, RunListModel::kRemove);
  QTRY_COMPARE(test.document().runs().models().size(), 1U);
  QCOMPARE(test.document().runs().size(), 1U);
  QCOMPARE(chips().size(), 1);
  press(test.window, QKeySequence("Ctrl+Z"));
  QVERIFY(test.document().runs().models() == models);
  QCOMPARE(test.document().runs().size(), 2U);
  QCOMPARE(test.document().runs()[1].id, transformer);
  press(test.window, QKeySequence("Ctrl+Shift+Z"));
  QCOMPARE(test.document().runs().size(), 1U);
  // A text that was replaced comes back too, even where the keyboard is in the editor.
  const std::string before = test.document().modelRuns().text().content;
  test.document().modelRuns().setText({{}, "Another text."});
  for (QAction* action : test.window.commands()) {
    if (action->text() == "Edit text or show run") action->trigger();
  }
  auto* editor = test.window.text().findChild<TextEditor*>();
  editor->setFocus();
  QTest::keyClick(editor, Qt::Key_Z, Qt::ControlModifier);
  QCOMPARE(test.document().modelRuns().text().content, before);
}

}  // namespace foxscope::gui::test

FOXSCOPE_GUI_SUBJECT(window, foxscope::gui::test::WindowTest)
#include "window_test.moc"
