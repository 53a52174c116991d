#include <cmath>

#include <QAction>
#include <QClipboard>
#include <QGuiApplication>
#include <QSignalSpy>
#include <QTest>

#include "app/gui/document/session.h"
#include "app/gui/maps/pane/pane_header.h"
#include "app/gui/maps/pane/pane_menu.h"
#include "backend/file/run_file.h"
#include "tests/gui/maps/support.h"
#include "tests/gui/subject.h"

namespace foxscope::gui::test {
namespace {

using foxscope::test::make_trace;
using foxscope::test::SyntheticRun;

QAction* actionOf(const QMenu& menu, const QString& text) {
  for (QAction* action : menu.actions()) {
    if (action->text().startsWith(text)) return action;
  }
  return nullptr;
}

QString clipboardText() { return QGuiApplication::clipboard()->text(); }

}  // namespace

class MapsReadingTest : public QObject {
  Q_OBJECT

 private slots:
  void aRightClickOpensTheMenuAndADragZooms();
  void theValueIsOneLine();
  void rowsColumnsAndDiagonalsAreCopied_data();
  void rowsColumnsAndDiagonalsAreCopied();
  void linesAreWantedAsCurves();
  void differencesAndOtherQuantitiesAreCopied();
  void whatCannotBeCopiedIsTold();
  void thePictureIsCopied();
  void aboveTheDiagonalThereIsNothingToCopy();
  void pinsAreLockedListedAndRemoved();
  void locksAreUndone();
  void locksBelongToTheirText();
  void keysZoomAndLock();
  void exportIsAskedForOfThePane();
  void aNarrowPaneHasItsColoursInTheMenu();

 private:
  /// The menu of a right click at an entry of a pane.
  static PaneMenu* openMenu(OpenMaps& maps, std::int64_t row, std::int64_t column, int pane = 0) {
    QTest::mouseClick(&maps.plot(pane), Qt::RightButton, {}, maps.cell(row, column, pane));
    PaneMenu* menu = nullptr;  // an X server shows it when it comes to it
    const bool shown = QTest::qWaitFor([&] {
      menu = maps.pane(pane).findChild<PaneMenu*>();
      return menu != nullptr && menu->isVisible();
    });
    return shown ? menu : nullptr;
  }
  /// Chooses an entry of that menu, and waits until what it does is done.
  static bool choose(OpenMaps& maps, const QString& text, std::int64_t row, std::int64_t column, int pane = 0) {
    PaneMenu* menu = openMenu(maps, row, column, pane);
    QAction* action = menu == nullptr ? nullptr : actionOf(*menu, text);
    if (action == nullptr || !action->isEnabled()) return false;
    action->trigger();
    menu->close();
    QCoreApplication::sendPostedEvents(nullptr, QEvent::DeferredDelete);
    return maps.settle();
  }
};

void MapsReadingTest::aRightClickOpensTheMenuAndADragZooms() {
  OpenMaps maps({traceOf(60)});
  QVERIFY(maps.settle());
  PaneMenu* menu = openMenu(maps, 40, 21);
  QVERIFY(menu != nullptr);
  QVERIFY(!maps.document.runs().selection().pin().query);
  menu->close();
  QCoreApplication::sendPostedEvents(nullptr, QEvent::DeferredDelete);
  maps.drag(maps.cell(40, 10), maps.cell(50, 20), Qt::RightButton);
  QVERIFY(maps.pane().findChild<PaneMenu*>() == nullptr);
  QVERIFY(maps.range().rows.size() < 20);
}

void MapsReadingTest::theValueIsOneLine() {
  const auto trace = traceOf(60);
  OpenMaps maps({trace});
  QVERIFY(maps.settle());
  QVERIFY(choose(maps, "Copy value", 40, 21));
  const std::span<const double> c = trace->cumulative_log_gate(0, 0);
  const QStringList parts = clipboardText().trimmed().split('\t');
  QCOMPARE(clipboardText().count('\n'), 1);
  QCOMPARE(parts.mid(0, 5), (QStringList{"40", readText(*trace->tokens(), 40, Whitespace::visible), "21",
                                         readText(*trace->tokens(), 21, Whitespace::visible), "19"}));
  QCOMPARE(parts[5].toFloat(), static_cast<float>(std::exp(c[40] - c[21])));
  QCOMPARE(maps.pane().noteText(), "copied 1 value");
}

void MapsReadingTest::rowsColumnsAndDiagonalsAreCopied_data() {
  QTest::addColumn<QString>("command");
  QTest::addColumn<int>("lines");
  // The view holds queries 100 to 299 and keys 50 to 249; the pair is 220, 90.
  QTest::newRow("row") << "Copy row 220" << 220 - 50 + 1;
  QTest::newRow("column") << "Copy column 90" << 300 - 100;
  QTest::newRow("diagonal") << "Copy diagonal" << 300 - 180;
}

void MapsReadingTest::rowsColumnsAndDiagonalsAreCopied() {
  QFETCH(const QString, command);
  QFETCH(const int, lines);
  const auto trace = traceOf(400);
  OpenMaps maps({trace});
  maps.document.runs().selection().setView({{100, 300}, {50, 250}});
  QVERIFY(maps.settle());
  QVERIFY(choose(maps, command, 220, 90, 1));
  const QStringList rows = clipboardText().split('\n', Qt::SkipEmptyParts);
  QCOMPARE(rows[0], "i\ttoken_i\tj\ttoken_j\tdistance\tattention");
  QCOMPARE(rows.size() - 1, lines);
  QCOMPARE(maps.pane(1).noteText(), QString("copied %1 values").arg(lines));
  for (const QString& row : rows.mid(1)) {
    const QStringList parts = row.split('\t');
    QCOMPARE(parts.size(), 6);
    const int i = parts[0].toInt();
    const int j = parts[2].toInt();
    QVERIFY(command.contains("row") ? i == 220 : command.contains("column") ? j == 90 : i - j == 130);
    QVERIFY(i >= 100 && i < 300 && j >= 50 && j < 250 && j <= i);
    QCOMPARE(parts[4].toInt(), i - j);
    QCOMPARE(parts[1], readText(*trace->tokens(), i, Whitespace::visible));
    QCOMPARE(parts[3], readText(*trace->tokens(), j, Whitespace::visible));
    const auto exact = entryValue({{trace, 0, 0}, {}, Quantity::attention, i, j}, {}).value();
    QVERIFY(std::abs(parts[5].toFloat() - exact) <= 1e-6F * exact);
  }
}

// The pair is pinned, and the head chosen that is shown where the menu was opened.
void MapsReadingTest::linesAreWantedAsCurves() {
  OpenMaps maps({traceOf(60)});
  PaneState state = maps.view.paneState(0);
  state.other = NamedHead{"fox", 1, 2};
  state.setSides(Sides::splitVertically);
  maps.view.setPaneState(0, state);
  QVERIFY(maps.settle());
  const Selection& selection = maps.document.runs().selection();
  const RunId run = maps.document.runs()[0].id;
  std::vector<MapLine::Along> wanted;
  connect(&maps.view, &MapsView::profileWanted, this, [&](MapLine::Along along) { wanted.push_back(along); });
  QVERIFY(choose(maps, "Column 5", 40, 5));
  QCOMPARE(selection.head(), (HeadChoice{run, 0, 0}));
  QCOMPARE(selection.pin(), (Cursor{40, 5}));
  QVERIFY(choose(maps, "Diagonal (distance 10)", 58, 48));
  QCOMPARE(selection.head(), (HeadChoice{run, 1, 2}));
  QCOMPARE(selection.pin(), (Cursor{58, 48}));
  QVERIFY(choose(maps, "Row 30", 30, 4));
  QCOMPARE(wanted, (std::vector{MapLine::Along::column, MapLine::Along::diagonal, MapLine::Along::row}));
}

void MapsReadingTest::differencesAndOtherQuantitiesAreCopied() {
  const auto trace = traceOf(200);
  OpenMaps maps({trace});
  maps.view.setPaneCount(1);
  PaneState state;
  state.setQuantity(Quantity::gate_effect);
  maps.view.setPaneState(0, state);
  QVERIFY(maps.settle());
  QVERIFY(choose(maps, "Copy diagonal", 150, 149));
  QStringList rows = clipboardText().split('\n', Qt::SkipEmptyParts);
  QCOMPARE(rows.size(), 1 + 199);
  QVERIFY(rows[0].endsWith("\tgate_effect"));
  const auto effect = entryValue({{trace, 0, 0}, {}, Quantity::gate_effect, 100, 99}, {}).value();
  QVERIFY(std::abs(rows[100].split('\t')[5].toFloat() - effect) < 1e-6F);
  state.setQuantity(Quantity::attention);
  state.setSides(Sides::difference);
  maps.view.setPaneState(0, state);
  QVERIFY(maps.settle());
  QVERIFY(choose(maps, "Copy value", 150, 20));
  const auto difference = entryValue({{trace, 0, 0}, HeadOf{trace, 0, 1}, Quantity::attention, 150, 20}, {}).value();
  QVERIFY(std::abs(clipboardText().trimmed().split('\t')[5].toFloat() - difference) < 1e-7F);
}

void MapsReadingTest::whatCannotBeCopiedIsTold() {
  SyntheticRun run;
  run.keep = {Keep::gates, Keep::query_key};
  run.length = 80;
  run.mixers = foxscope::test::sink_mixers();  // whose normalisers cannot be computed without what the file lacks
  OpenMaps maps({make_trace(run)});
  // Attention has no normalisers.
  QVERIFY(!maps.pane(1).picture());
  QGuiApplication::clipboard()->setText("before");
  maps.view.setActivePane(1);
  QVERIFY(choose(maps, "Copy row", 40, 20, 1));
  QVERIFY2(maps.pane(1).messageText().contains("rows"), qPrintable(maps.pane(1).messageText()));
  QCOMPARE(clipboardText(), "before");
  QCOMPARE(maps.pane(1).noteText(), QString());
}

void MapsReadingTest::thePictureIsCopied() {
  OpenMaps maps({traceOf(60)});
  QVERIFY(maps.settle());
  QVERIFY(choose(maps, "Copy picture", 40, 21, 1));
  const QImage picture = QGuiApplication::clipboard()->image();
  const QRect map = maps.plot(1).geometryOfView().rect;
  QVERIFY(picture.width() > map.width() && picture.height() > map.height());
  // Nothing of the pane's empty sides is in it.
  QVERIFY(picture.width() < map.width() + 140 && picture.height() < map.height() + 80);
}

void MapsReadingTest::aboveTheDiagonalThereIsNothingToCopy() {
  OpenMaps maps({traceOf(60)});
  QVERIFY(maps.settle());
  const PaneMenu* menu = openMenu(maps, 10, 50);
  QVERIFY(menu != nullptr);
  for (const char* text : {"Copy value", "Copy row", "Copy column", "Copy diagonal", "Row as a curve",
                           "Column as a curve", "Diagonal as a curve", "Lock pin", "Zoom to pin"}) {
    QVERIFY2(!actionOf(*menu, text)->isEnabled(), text);
  }
  for (const char* text : {"Copy picture", "Set pin", "Colours", "Export"})
    QVERIFY2(actionOf(*menu, text)->isEnabled(), text);
}

void MapsReadingTest::pinsAreLockedListedAndRemoved() {
  OpenMaps maps({traceOf(60)});
  QVERIFY(maps.settle());
  const Selection& selection = maps.document.runs().selection();
  QTest::mouseClick(&maps.plot(), Qt::LeftButton, {}, maps.cell(30, 5));
  const QImage before = maps.plot().grab().toImage();
  QTest::mouseClick(&maps.plot(), Qt::LeftButton, Qt::ShiftModifier | Qt::ControlModifier, maps.cell(40, 21));
  QVERIFY(maps.settle());
  QCOMPARE(selection.locks(), (std::vector<Cursor>{{40, 21}}));
  QCOMPARE(selection.pin(), (Cursor{30, 5}));
  QVERIFY(maps.plot().grab().toImage() != before);
  // The same again, and what does not exist, are not locked.
  QTest::mouseClick(&maps.plot(), Qt::LeftButton, Qt::ShiftModifier | Qt::ControlModifier, maps.cell(40, 21));
  QTest::mouseClick(&maps.plot(), Qt::LeftButton, Qt::ShiftModifier | Qt::ControlModifier, maps.cell(10, 50));
  QCOMPARE(selection.locks().size(), std::size_t{1});
  QVERIFY(choose(maps, "Lock pin", 50, 12, 1));
  QCOMPARE(selection.locks(), (std::vector<Cursor>{{40, 21}, {50, 12}}));
  // Listed in the menu, each with what can be done with it.
  const auto listed = [&]() -> QMenu* { return actionOf(*openMenu(maps, 40, 21), "Locked pins")->menu(); };
  QMenu* list = listed();
  QVERIFY2(list->actions()[0]->text().startsWith("1   query 40 "), qPrintable(list->actions()[0]->text()));
  actionOf(*list->actions()[1]->menu(), "Zoom to it")->trigger();
  QVERIFY(maps.settle());
  QVERIFY(maps.range().rows.size() < 30);
  QVERIFY(maps.range().rows.begin <= 50 && maps.range().rows.end > 50);
  QVERIFY(maps.range().columns.begin <= 12 && maps.range().columns.end > 12);
  actionOf(*list->actions()[1]->menu(), "Pin it")->trigger();
  QCOMPARE(selection.pin(), (Cursor{50, 12}));
  actionOf(*list->actions()[0]->menu(), "Remove")->trigger();
  QCOMPARE(selection.locks(), (std::vector<Cursor>{{50, 12}}));
}

void MapsReadingTest::locksAreUndone() {
  OpenMaps maps({traceOf(60)});
  QVERIFY(maps.settle());
  const Selection& selection = maps.document.runs().selection();
  maps.document.runs().lockPair({40, 21});
  maps.document.runs().lockPair({50, 12});
  QCOMPARE(maps.document.runs().undoStack().undoText(), "lock a pair");
  maps.document.runs().unlockAll();
  QVERIFY(selection.locks().empty());
  maps.document.runs().undoStack().undo();
  QCOMPARE(selection.locks(), (std::vector<Cursor>{{40, 21}, {50, 12}}));
  maps.document.runs().undoStack().undo();
  QCOMPARE(selection.locks(), (std::vector<Cursor>{{40, 21}}));
  maps.document.runs().undoStack().redo();
  QCOMPARE(selection.locks().size(), std::size_t{2});
  // Sessions keep them.
  SelectionState state;
  state.locks = selection.locks();
  QCOMPARE(SelectionState::fromJson(state.toJson()).locks, selection.locks());
}

void MapsReadingTest::locksBelongToTheirText() {
  OpenMaps maps({traceOf(60)});
  const Folder folder;
  SyntheticRun run;
  run.name = "elsewhere";
  run.length = 40;
  const std::shared_ptr<const Trace> traces[] = {make_trace(run)};
  write_run_file(folder.path("elsewhere.h5").toStdString(), traces, {"test", ""}, Overwrite::force, {});
  maps.document.runs().lockPair({50, 12});
  maps.document.open({folder.path("elsewhere.h5")});
  QVERIFY(waitUntilIdle(maps.document));
  const Selection& selection = maps.document.runs().selection();
  QCOMPARE(selection.locks().size(), std::size_t{1});
  maps.document.runs().selection().setHead({maps.document.runs()[1].id, 0, 0});
  QVERIFY(selection.locks().empty());
  maps.document.runs().undoStack().undo();
  QVERIFY(selection.locks().empty());
  maps.document.runs().undoStack().redo();
  maps.document.runs().selection().setHead({maps.document.runs()[0].id, 0, 0});
  QCOMPARE(selection.locks(), (std::vector<Cursor>{{50, 12}}));
}

void MapsReadingTest::keysZoomAndLock() {
  OpenMaps maps({traceOf(400)});
  QVERIFY(maps.settle());
  maps.plot().setFocus();
  QTest::keyClick(&maps.plot(), Qt::Key_P);
  QCOMPARE(maps.range(), (View{{0, 400}, {0, 400}}));
  maps.document.runs().selection().setPin({250, 20});
  QTest::keyClick(&maps.plot(), Qt::Key_M);
  QCOMPARE(maps.document.runs().selection().locks(), (std::vector<Cursor>{{250, 20}}));
  QTest::keyClick(&maps.plot(), Qt::Key_P);
  QVERIFY(maps.range().rows.size() < 40 && maps.range().rows.begin < 250 && maps.range().rows.end > 250);
  QVERIFY(maps.range().columns.begin < 20 && maps.range().columns.end > 20);
  QTest::keyClick(&maps.plot(), Qt::Key_Backspace);
  QCOMPARE(maps.range(), (View{{0, 400}, {0, 400}}));
}

void MapsReadingTest::exportIsAskedForOfThePane() {
  OpenMaps maps({traceOf(60)});
  QVERIFY(maps.settle());
  QSignalSpy wanted(&maps.view, &MapsView::exportWanted);
  QVERIFY(choose(maps, "Export", 40, 21, 1));
  QCOMPARE(wanted.count(), 1);
  QCOMPARE(maps.view.activePane(), 1);
}

void MapsReadingTest::aNarrowPaneHasItsColoursInTheMenu() {
  OpenMaps maps({traceOf(60)});
  maps.view.setPaneCount(4);
  maps.view.resize(440, 400);
  QVERIFY(maps.settle());
  const auto* header = maps.pane().findChild<PaneHeader*>();
  for (const auto* button : header->findChildren<QToolButton*>(Qt::FindDirectChildrenOnly)) {
    if (button->accessibleName() == "Colours") QVERIFY(button->isHidden());
  }
  PaneMenu* menu = openMenu(maps, 40, 21);
  QVERIFY(menu != nullptr);
  QTest::mouseClick(menu, Qt::LeftButton, {}, menu->actionGeometry(actionOf(*menu, "Colours")).center());
  auto* form = header->findChild<ColourForm*>();
  QTRY_VERIFY(form->isVisible());
  auto* map = form->findChild<QComboBox*>();
  const QImage before = maps.plot().grab().toImage();
  QVERIFY(map->findText("magma") >= 0);
  map->setCurrentIndex(map->findText("magma"));
  emit map->activated(map->currentIndex());
  QVERIFY(maps.settle());
  QVERIFY(maps.plot().grab().toImage() != before);
  form->window()->close();
}

}  // namespace foxscope::gui::test

FOXSCOPE_GUI_SUBJECT(maps_reading, foxscope::gui::test::MapsReadingTest)
#include "maps_reading_test.moc"
