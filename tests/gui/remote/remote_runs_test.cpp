#include <csignal>

#include <QFile>
#include <QLabel>
#include <QRegularExpression>
#include <QStatusBar>
#include <QTest>
#include <QToolButton>
#include <QToolTip>

#include "app/gui/maps/maps_view.h"
#include "app/gui/maps/pane/map_pane.h"
#include "app/gui/text/text_page.h"
#include "app/gui/text/text_view.h"
#include "app/gui/window/remote/machine_bar.h"
#include "app/gui/window/remote/machine_label.h"
#include "app/gui/window/run_list_view.h"
#include "backend/map/pair_reading.h"
#include "tests/gui/remote/machine.h"
#include "tests/gui/subject.h"

namespace foxscope::gui::test {

class RemoteRunsTest : public QObject {
  Q_OBJECT

 private slots:
  void initTestCase() { useOwnSettings(); }
  void aRunNamesItsMachine();
  void twoFilesOfAMachineStandSideBySide();
  void bytesAndDelayAreShown();
  void aConnectionThatEndsComesBackByItself();
  void aLostConnectionWaitsForAClick();
  void requestsAreCancelledAndAskedForAgain();
  void theWindowGoesOnWhileAMachineSaysNothing();
  void aSilentMachineIsSaid();
  void aFileThatChangedIsOpenedAgain();
  void aFileThatIsGoneLeavesWhatIsShown();
  void aSessionOpensItsRunsThere();
  void theWordsTipWaitsForNobody();
};

namespace {

struct RunsShown {
  Machine machine;
  RemoteWindow window;

  /// Opens a run of this machine, looked at from the other one.
  bool open(const foxscope::test::SyntheticRun& run = {}) {
    writeRun(machine.folder, "run.h5", run);
    return window.open(machine.url("run.h5")) && window.document().runs().size() == 1;
  }
  RunList& runs() { return window.document().runs(); }
  void choose(int layer, int head) { runs().selection().setHead({runs()[0].id, layer, head}); }
  /// A head of the other layer.
  void chooseAnother() { choose(1 - runs().selection().head().layer, 2); }
  [[nodiscard]] QString status() { return window.window.findChild<MachineLabel*>()->text(); }
  PicturePointer mapShown() { return window.window.maps().pane(1).picture(); }
  /// A pixel for each of its entries.
  QImage picture() { return mapShown()->images.front(); }
};

/// The same of the same head of the same run here.
QImage pictureHere(RunsShown& shown) {
  const HeadChoice head = shown.runs().selection().head();
  Window here(source("resources/demo.json"), shown.window.window.size());
  here.document().open({shown.machine.folder.path("run.h5")});
  if (!waitUntilIdle(here.document()) || !here.settle()) return {};
  here.document().runs().selection().setHead({here.document().runs()[0].id, head.layer, head.head});
  here.settle();
  return here.window.maps().pane(1).picture()->images.front();
}

}  // namespace

void RemoteRunsTest::aRunNamesItsMachine() {
  RunsShown shown;
  QVERIFY(shown.open());
  QCOMPARE(shown.runs()[0].host, "box");
  auto* chip = shown.window.window.findChild<QToolButton*>("chip");
  QVERIFY(chip->toolTip().contains("on the machine box"));
  QCOMPARE(chip->accessibleName(), "fox");
  const auto* list = shown.window.window.findChild<RunListView*>();
  QCOMPARE(list->model()->index(0, RunListModel::kName).data(RunListModel::kHostRole).toString(), "box");
}

void RemoteRunsTest::twoFilesOfAMachineStandSideBySide() {
  RunsShown shown;
  QVERIFY(shown.open());
  foxscope::test::SyntheticRun other;
  other.name = "other";
  writeRun(shown.machine.folder, "other.h5", other);
  QVERIFY(shown.window.open(shown.machine.url("other.h5")));
  QCOMPARE(shown.runs().size(), 2U);
  QVERIFY(shown.window.open(shown.machine.url("other.h5")));
  QCOMPARE(shown.runs().size(), 2U);
  QVERIFY(shown.window.said("other.h5 is open already"));
}

void RemoteRunsTest::bytesAndDelayAreShown() {
  RunsShown shown;
  QVERIFY(!shown.window.window.findChild<MachineLabel*>()->isVisible());
  QVERIFY(shown.open());
  QVERIFY(QTest::qWaitFor([&] { return shown.status().contains(" ms"); }, kPatience));
  const QRegularExpression words("^box · [0-9.]+ (bytes|kB) received · (below 1|[0-9]+) ms$");
  QVERIFY2(words.match(shown.status()).hasMatch(), qPrintable(shown.status()));
}

void RemoteRunsTest::aConnectionThatEndsComesBackByItself() {
  RunsShown shown;
  QVERIFY(shown.open());
  const QImage before = shown.picture();
  shown.machine.cut();
  QVERIFY(QTest::qWaitFor([&] { return shown.machine.agents().size() == 2; }, kPatience));
  QVERIFY(shown.window.showsNoLine());
  QCOMPARE(shown.picture(), before);
  shown.chooseAnother();
  QVERIFY(shown.window.settle());
  QCOMPARE(shown.picture(), pictureHere(shown));
  QVERIFY(shown.window.window.messages().isEmpty());
}

void RemoteRunsTest::aLostConnectionWaitsForAClick() {
  RunsShown shown;
  QVERIFY(shown.open());
  const PicturePointer map = shown.mapShown();
  QVERIFY(map != nullptr);
  shown.machine.setReachable(false);
  shown.machine.cut();
  QVERIFY(
      shown.window.shows("Connection lost, what is shown stays. box: cannot be reached: ssh: connect to host box port "
                         "22: No route to host"));
  // The line takes some of the height.
  QCOMPARE(shown.mapShown(), map);
  QVERIFY(shown.status().endsWith("not connected"));
  // Another head waits; no view says anything in the place of what it shows.
  shown.chooseAnother();
  QVERIFY(QTest::qWaitFor([&] { return shown.runs().jobs().putOffCount() > 0; }, kPatience));
  QVERIFY(!shown.window.window.maps().isSettled());
  QCOMPARE(shown.mapShown(), map);
  QCOMPARE(shown.window.window.maps().pane(1).messageText(), "");
  QVERIFY(shown.window.window.messages().isEmpty());
  // A click that fails says so in the same line.
  shown.window.pressButton();
  QVERIFY(shown.window.shows("Connecting to box"));
  QVERIFY(shown.window.shows("Connection lost, what is shown stays."));
  shown.machine.setReachable(true);
  shown.window.pressButton();
  QVERIFY(shown.window.showsNoLine());
  QVERIFY(shown.window.settle());
  QCOMPARE(shown.machine.agents().size(), 2);
  QCOMPARE(shown.picture(), pictureHere(shown));
}

void RemoteRunsTest::requestsAreCancelledAndAskedForAgain() {
  RunsShown shown;
  QVERIFY(shown.open());
  auto& cancel = shown.window.window.findChild<MachineLabel*>()->cancelButton();
  shown.machine.freeze();
  shown.chooseAnother();
  QVERIFY(QTest::qWaitFor([&] { return cancel.isEnabled(); }, kPatience));
  cancel.click();
  QVERIFY(shown.window.shows("Cancelled: what was asked of the other machine is not shown."));
  shown.machine.thaw();
  shown.window.pressButton();
  QVERIFY(shown.window.showsNoLine());
  QVERIFY(shown.window.settle());
  QCOMPARE(shown.picture(), pictureHere(shown));
}

void RemoteRunsTest::theWindowGoesOnWhileAMachineSaysNothing() {
  RunsShown shown;
  QVERIFY(shown.open());
  shown.machine.freeze();
  // Were the window's thread waiting for any of these, it would wait for ever.
  Selection& selection = shown.runs().selection();
  for (int head = 0; head < 4; ++head) {
    shown.choose(1, head);
    selection.pinQuery(20 + head);
    selection.pinKey(3 + head);
    selection.setHover({20, head});
    QCoreApplication::processEvents();
  }
  shown.window.window.grab();
  shown.machine.thaw();
  QVERIFY(shown.window.settle());
  // Of all these the last is shown.
  QCOMPARE(selection.head().head, 3);
  const QString text = shown.window.window.statusBar()->findChild<QLabel*>()->text();
  const double attention = pair_reading(*shown.runs().headOf(selection.head()), 20, 3).attention;
  QVERIFY2(text.contains(QStringLiteral("A ") + QString::number(attention, 'g', 3)), qPrintable(text));
}

void RemoteRunsTest::aSilentMachineIsSaid() {
  RunsShown shown;
  shown.window.document().machines().setPace({10, 10, 30});
  QVERIFY(shown.open());
  shown.machine.freeze();
  QVERIFY(shown.window.shows("box has not answered for "));
  // The old connection goes, and what hung is asked over a new one.
  shown.chooseAnother();
  const qint64 old = shown.machine.agents().back();
  shown.window.pressButton();
  QVERIFY(QTest::qWaitFor([&] { return shown.machine.agents().size() == 2; }, kPatience));
  kill(static_cast<pid_t>(old), SIGCONT);
  QVERIFY(shown.window.showsNoLine());
  QVERIFY(shown.window.settle());
  QCOMPARE(shown.picture(), pictureHere(shown));
}

void RemoteRunsTest::aFileThatChangedIsOpenedAgain() {
  RunsShown shown;
  QVERIFY(shown.open());
  foxscope::test::SyntheticRun other;
  other.seed = 2;
  writeRun(shown.machine.folder, "run.h5", other);
  shown.chooseAnother();
  QVERIFY(shown.window.shows("What is shown stays. ssh://box" + shown.machine.folder.path("run.h5") +
                             ": has changed since it was opened: open it again"));
  shown.window.pressButton();
  QVERIFY(shown.window.showsNoLine());
  QVERIFY(shown.window.settle());
  QCOMPARE(shown.runs().size(), 1U);
  shown.chooseAnother();
  QVERIFY(shown.window.settle());
  QCOMPARE(shown.picture(), pictureHere(shown));
}

void RemoteRunsTest::aFileThatIsGoneLeavesWhatIsShown() {
  RunsShown shown;
  QVERIFY(shown.open());
  const PicturePointer map = shown.mapShown();
  QFile::remove(shown.machine.folder.path("run.h5"));
  shown.chooseAnother();
  QVERIFY(shown.window.shows("What is shown stays. ssh://box" + shown.machine.folder.path("run.h5") +
                             ": cannot be opened (No such file or directory)"));
  shown.window.pressButton();
  QVERIFY(QTest::qWaitFor([&] { return shown.window.said("run.h5: cannot be opened"); }, kPatience));
  QCOMPARE(shown.runs().size(), 1U);
  QCOMPARE(shown.mapShown(), map);
}

void RemoteRunsTest::aSessionOpensItsRunsThere() {
  RunsShown shown;
  QVERIFY(shown.open());
  const Folder folder;
  shown.window.document().sessions().save(folder.path("session.json"), {});
  shown.window.document().clear();
  QVERIFY(shown.window.open(folder.path("session.json")));
  QVERIFY(QTest::qWaitFor([&] { return shown.runs().size() == 1; }, kPatience));
  QCOMPARE(shown.runs()[0].file, shown.machine.url("run.h5"));
  QCOMPARE(shown.runs()[0].host, "box");
}

void RemoteRunsTest::theWordsTipWaitsForNobody() {
  RunsShown shown;
  QVERIFY(shown.open());
  shown.runs().selection().pinQuery(30);
  QVERIFY(shown.window.settle());
  shown.machine.freeze();
  // A tip is asked for; one that nobody waits for any more is dropped, and the machine is told so.
  TextPage* page = shown.window.window.findChild<TextPage*>();
  for (const std::int64_t cell : {3, 5, 7}) emit page->readoutAsked(cell, {});
  QCoreApplication::processEvents();
  shown.machine.thaw();
  QVERIFY(QTest::qWaitFor([&] { return !shown.runs().quickJobs().busy(); }, kPatience));
  QVERIFY(QTest::qWaitFor([&] { return QToolTip::text().contains("from the pinned query"); }, kPatience));
  QVERIFY(QToolTip::text().contains("A(30, 7)"));
}

}  // namespace foxscope::gui::test

FOXSCOPE_GUI_SUBJECT(remote_runs, foxscope::gui::test::RemoteRunsTest)
#include "remote_runs_test.moc"
