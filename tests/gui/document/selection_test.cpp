#include "app/gui/document/selection.h"

#include <QSignalSpy>
#include <QTest>

#include "tests/gui/subject.h"

namespace foxscope::gui::test {

class SelectionTest : public QObject {
  Q_OBJECT

 private slots:
  void settingTheSameIsNoChange();
  void aKeyAfterItsQueryIsLetGo();
  void hoverGoesBeforeThePin();
  void backGoesMovementByMovement();
  void aNewTextHasNoHistory();
};

void SelectionTest::settingTheSameIsNoChange() {
  Selection selection;
  QSignalSpy heads(&selection, &Selection::headChanged);
  QSignalSpy pins(&selection, &Selection::pinChanged);
  QSignalSpy views(&selection, &Selection::viewChanged);
  for (int time = 0; time < 2; ++time) {
    selection.setHead({1, 2, 3});
    selection.setPin({10, 5});
    selection.setView({{0, 10}, {0, 10}});
  }
  QCOMPARE(heads.size(), 1);
  QCOMPARE(pins.size(), 1);
  QCOMPARE(views.size(), 1);
}

void SelectionTest::aKeyAfterItsQueryIsLetGo() {
  Selection selection;
  selection.setPin({5, 9});
  QVERIFY(selection.pin() == (Cursor{5, std::nullopt}));
  selection.setPin({20, 9});
  selection.pinQuery(8);
  QVERIFY(selection.pin() == (Cursor{8, std::nullopt}));
  selection.pinKey(12);
  QVERIFY(selection.pin() == (Cursor{std::nullopt, 12}));
  selection.pinQuery(12);
  QVERIFY(selection.pin() == (Cursor{12, 12}));
}

void SelectionTest::hoverGoesBeforeThePin() {
  Selection selection;
  selection.setPin({50, 20});
  QVERIFY(selection.cursor() == (Cursor{50, 20}));
  selection.setHover({60, std::nullopt});
  QVERIFY(selection.cursor() == (Cursor{60, 20}));
  selection.setHover({60, 30});
  QVERIFY(selection.cursor() == (Cursor{60, 30}));
  selection.setHover({10, std::nullopt});
  QVERIFY(selection.cursor() == (Cursor{10, std::nullopt}));
  selection.setHover({});
  QVERIFY(selection.cursor() == (Cursor{50, 20}));
}

void SelectionTest::backGoesMovementByMovement() {
  Selection selection;
  selection.resetView(1000);
  QVERIFY(!selection.canGoBack());
  // One drag of three steps, then another.
  for (const std::int64_t begin : {10, 20, 30}) selection.setView({{begin, begin + 100}, {begin, begin + 100}});
  selection.endMovement();
  selection.setView({{500, 600}, {500, 600}});
  selection.endMovement();
  selection.goBack();
  QVERIFY(selection.view() == (View{{30, 130}, {30, 130}}));
  selection.goBack();
  QVERIFY(selection.view() == (View{{0, 1000}, {0, 1000}}));
  QVERIFY(!selection.canGoBack());
  selection.goBack();
  QVERIFY(selection.view() == (View{{0, 1000}, {0, 1000}}));
}

void SelectionTest::aNewTextHasNoHistory() {
  Selection selection;
  selection.resetView(1000);
  selection.setView({{0, 10}, {0, 10}});
  selection.resetView(500);
  QVERIFY(!selection.canGoBack());
  QVERIFY(selection.view() == (View{{0, 500}, {0, 500}}));
}

}  // namespace foxscope::gui::test

FOXSCOPE_GUILESS_SUBJECT(selection, foxscope::gui::test::SelectionTest)
#include "selection_test.moc"
