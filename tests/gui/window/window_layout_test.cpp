// Where the parts of the window stand, how large they are, and their light and dark colours.
#include <algorithm>
#include <cmath>
#include <map>

#include <QApplication>
#include <QDockWidget>
#include <QFile>
#include <QScreen>
#include <QScrollBar>
#include <QStatusBar>
#include <QTest>
#include <QToolButton>

#include "app/gui/atlas/passage_list.h"
#include "app/gui/curves/curves_view.h"
#include "app/gui/evaluations/evaluations_view.h"
#include "app/gui/heads/heads_view.h"
#include "app/gui/maps/map_plot.h"
#include "app/gui/maps/maps_view.h"
#include "app/gui/maps/pane/map_pane.h"
#include "app/gui/text/text_view.h"
#include "app/gui/views/icon.h"
#include "app/gui/views/theme.h"
#include "app/gui/window/docks.h"
#include "tests/gui/subject.h"
#include "tests/gui/window/window_shown.h"

namespace foxscope::gui::test {

class WindowLayoutTest : public QObject {
  Q_OBJECT

 private slots:
  void initTestCase();
  void docksStandBesideWhatIsOpen();
  void thePartsGoBackToTheirPlaces();
  void mapsFillTheirPanes();
  void itFitsASmallScreen_data();
  void itFitsASmallScreen();
  void itIsNeverLargerThanItsScreen();
  void docksShrinkWithTheWindow();
  void anAtlasBesideARunKeepsItsScatter_data();
  void anAtlasBesideARunKeepsItsScatter();
  void theNextPassageCanBeChosen_data();
  void theNextPassageCanBeChosen();
  void itIsAsNarrowAsASmallScreen();
  void partsComeIntoSightWithoutWideningIt_data();
  void partsComeIntoSightWithoutWideningIt();
  void lightAndDarkAreBothReadable();
  void iconsTakeTheColoursOfTheTheme();
};

namespace {

/// The window's size, and how small its parts can be.
QString leastSizes(const MainWindow& window) {
  QStringList least{QStringLiteral("window %1 x %2").arg(window.width()).arg(window.height())};
  for (const auto* dock : window.findChildren<QDockWidget*>()) {
    const QSize hint = dock->minimumSizeHint();
    if (dock->isVisible()) {
      least += QStringLiteral("%1 %2 x %3").arg(dock->objectName()).arg(hint.width()).arg(hint.height());
    }
  }
  const QSize centre = window.centralWidget()->minimumSizeHint();
  least += QStringLiteral("centre %1 x %2").arg(centre.width()).arg(centre.height());
  return least.join(", ");
}

}  // namespace

void WindowLayoutTest::initTestCase() { useOwnSettings(); }

// With nothing open the first page stands alone; docks come back as they were.
void WindowLayoutTest::docksStandBesideWhatIsOpen() {
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

void WindowLayoutTest::thePartsGoBackToTheirPlaces() {
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

void WindowLayoutTest::mapsFillTheirPanes() {
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

void WindowLayoutTest::itFitsASmallScreen_data() {
  QTest::addColumn<QString>("session");
  QTest::addColumn<QSize>("size");
  for (const char* name : {"demo", "demo-forgets", "demo-wins", "demo-remembers"}) {
    QTest::newRow(name) << QStringLiteral("resources/%1.json").arg(name) << QSize(1024, 700);
  }
  // 1366 x 768, and 1280 x 800 or 2560 x 1600 at twice the size, without the frame.
  QTest::newRow("small laptop") << QStringLiteral("resources/demo.json") << QSize(1354, 724);
  QTest::newRow("13 inches") << QStringLiteral("resources/demo.json") << QSize(1268, 756);
}

void WindowLayoutTest::itFitsASmallScreen() {
  QFETCH(QString, session);
  QFETCH(QSize, size);
  Window test(source("resources/demo.json"), size);
  test.document().open({source(session)});
  QTRY_COMPARE_WITH_TIMEOUT(test.document().runs().size(), 2U, kPatience);
  QVERIFY(test.settle());
  QVERIFY2(test.window.size() == size, qPrintable(leastSizes(test.window)));
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

void WindowLayoutTest::itIsNeverLargerThanItsScreen() {
  MainWindow window({});
  window.setRemembering(MainWindow::Remembering::off);
  window.resizeToFit({100'000, 100'000});
  const QSize room = window.screen()->availableSize();
  QVERIFY(window.width() < room.width() && window.height() < room.height());
  QVERIFY(window.width() > room.width() * 9 / 10 && window.height() > room.height() * 8 / 10);
  window.resizeToFit({780, 560});
  QCOMPARE(window.size(), QSize(780, 560).expandedTo(window.minimumSizeHint()));
}

void WindowLayoutTest::anAtlasBesideARunKeepsItsScatter_data() {
  QTest::addColumn<QSize>("size");
  QTest::addColumn<bool>("asTab");
  QTest::newRow("small") << QSize(1000, 700) << true;
  QTest::newRow("laptop") << QSize(1366, 768) << false;
  QTest::newRow("large") << QSize(1500, 950) << false;
}

void WindowLayoutTest::anAtlasBesideARunKeepsItsScatter() {
  QFETCH(const QSize, size);
  QFETCH(const bool, asTab);
  Window test(source("resources/demo.json"), size);
  const QString file = test.folder.path("atlas.h5");
  QVERIFY(makeAtlas(file));
  test.document().open({file});
  QVERIFY(test.settle());
  QVERIFY(test.run(64));
  QCoreApplication::processEvents();
  QCOMPARE(test.window.size(), size);
  atlas::ModelPane& pane = test.window.evaluations().atlas().pane(0);
  const QSize scatter = pane.scatter().size();
  QVERIFY2(scatter.height() >= 240 && scatter.width() >= 240,
           qPrintable(QStringLiteral("%1 x %2").arg(scatter.width()).arg(scatter.height())));
  const MapPlot& map = test.window.maps().pane(0).plot();
  QVERIFY2(map.height() >= 100, qPrintable(QString::number(map.height())));
  // The page of the head is beside it, or a tab.
  QCOMPARE(pane.pageIsTab(), asTab);
  QCOMPARE(pane.page().isVisible(), !asTab);
  if (!asTab) return;
  pane.maps().setCurrentIndex(pane.maps().count() - 1);
  QVERIFY(pane.page().isVisible() && !pane.scatter().isVisible());
  // With more room it stands beside the scatter again.
  test.window.resize(1500, 950);
  test.window.resizeDocks({&test.window.docks().evaluations()}, {500}, Qt::Vertical);
  QTRY_VERIFY(!pane.pageIsTab() && pane.page().isVisible() && pane.maps().currentWidget()->isVisible());
}

void WindowLayoutTest::theNextPassageCanBeChosen_data() {
  QTest::addColumn<QSize>("size");
  QTest::newRow("small") << QSize(1000, 700);
  QTest::newRow("large") << QSize(1500, 950);
}

// Opening a passage puts the atlas under its maps: the list still has rows, and the opened one is among them.
void WindowLayoutTest::theNextPassageCanBeChosen() {
  QFETCH(const QSize, size);
  Window test(source("resources/demo.json"), size);
  const QString file = test.folder.path("atlas.h5");
  QVERIFY(makeAtlas(file, {foxModel(), transformerModel()}));
  test.document().open({file, foxModel()});
  QVERIFY(test.settle());
  atlas::ModelPane& pane = test.window.evaluations().atlas().pane(0);
  if (pane.pageIsTab()) pane.maps().setCurrentIndex(pane.maps().count() - 1);
  pane.page().tabs().setCurrentIndex(atlas::HeadPage::kPassages);
  QVERIFY(test.settle());
  atlas::PassageList& list = pane.page().passages();
  const int last = static_cast<int>(list.answer().rows.size()) - 1;
  QVERIFY(last >= 3);
  QCOMPARE(list.openedRow(), -1);
  for (const int row : {1, 2, last}) {
    if (row == last) list.verticalScrollBar()->setValue(list.verticalScrollBar()->maximum());
    QVERIFY(list.viewport()->rect().contains(list.place(row)));
    QTest::mouseMove(list.viewport(), list.place(row).center());
    QTest::mouseClick(list.viewport(), Qt::LeftButton, {}, list.place(row).center());
    QTRY_COMPARE_WITH_TIMEOUT(list.openedRow(), row, kPatience);
    QVERIFY(test.settle());
    QCoreApplication::processEvents();
    QCOMPARE(test.window.size(), size);
    QVERIFY2(list.viewport()->height() >= 3 * list.place(0).height(),
             qPrintable(QStringLiteral("%1 of %2").arg(list.viewport()->height()).arg(list.place(0).height())));
    QVERIFY(list.viewport()->rect().contains(list.place(row)));
    // It alone is marked.
    const QImage seen = list.viewport()->grab().toImage();
    for (int other = 0; other <= last; ++other) {
      const QPoint edge = list.place(other).topLeft() + QPoint(1, list.place(other).height() / 2);
      if (!seen.rect().contains(edge)) continue;
      QCOMPARE(seen.pixelColor(edge) == list.palette().color(QPalette::Highlight), other == row);
    }
  }
  // Without its run it is opened no more.
  while (!test.document().runs().empty()) test.document().runs().removeRun(test.document().runs().front().id);
  QTRY_COMPARE(list.openedRow(), -1);
}

// 800 x 600: nothing lies outside of it, whatever is open.
void WindowLayoutTest::itIsAsNarrowAsASmallScreen() {
  const QSize size(800, 600);
  Window test(source("resources/demo.json"), size);
  QVERIFY2(test.window.size() == size, qPrintable(leastSizes(test.window)));
  const QString file = test.folder.path("atlas.h5");
  QVERIFY(makeAtlas(file, {foxModel(), transformerModel()}));
  test.document().open({file});
  QVERIFY(test.settle());
  QVERIFY2(test.window.size() == size, qPrintable(leastSizes(test.window)));
  test.document().open({foxModel()});
  QVERIFY(test.settle());
  QVERIFY2(test.window.size() == size, qPrintable(leastSizes(test.window)));
  QVERIFY(test.run(64));
  QCoreApplication::processEvents();
  QVERIFY2(test.window.size() == size, qPrintable(leastSizes(test.window)));
  // The bar names the text of the runs and the one that is run next, both as long as they are.
  test.document().modelRuns().setText({{}, "Another text.", false, QString(60, 'n')}, 0);
  QVERIFY(test.settle());
  QCoreApplication::processEvents();
  QVERIFY2(test.window.size() == size, qPrintable(leastSizes(test.window)));
}

// Docks that were placed in a larger window shrink as the window does, not the maps alone.
void WindowLayoutTest::docksShrinkWithTheWindow() {
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

void WindowLayoutTest::partsComeIntoSightWithoutWideningIt_data() {
  QTest::addColumn<bool>("dark");
  QTest::newRow("light") << false;
  QTest::newRow("dark") << true;
}

// The docks of runs come when a file is opened, out of the first page: in between they ask for no more than when they
// stand in their places.
void WindowLayoutTest::partsComeIntoSightWithoutWideningIt() {
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

void WindowLayoutTest::lightAndDarkAreBothReadable() {
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

void WindowLayoutTest::iconsTakeTheColoursOfTheTheme() {
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

FOXSCOPE_GUI_SUBJECT(window_layout, foxscope::gui::test::WindowLayoutTest)
#include "window_layout_test.moc"
