#include "app/gui/window/remote/remote_dialog.h"

#include <QDir>
#include <QFile>
#include <QIcon>
#include <QLabel>
#include <QTest>
#include <QToolButton>

#include "app/gui/evaluations/evaluations_view.h"
#include "app/gui/views/icon.h"
#include "app/gui/window/figures/panel_figures.h"
#include "app/gui/window/settings.h"
#include "backend/eval/atlas/atlas.h"
#include "backend/eval/atlas/atlas_file.h"
#include "backend/model/session/engine.h"
#include "tests/gui/remote/machine.h"
#include "tests/gui/subject.h"
#include "tests/gui/training/written_training.h"

namespace foxscope::gui::test {

class RemoteDialogTest : public QObject {
  Q_OBJECT

 private slots:
  void initTestCase() { useOwnSettings(); }
  void machinesComeFromSshsConfiguration();
  void aFolderListsWhatItHolds();
  void anAtlasIsListedAndOpened();
  void anAtlasThereIsNamedByItsUrl();
  void keysGoThroughFolders();
  void aRunFileIsOpenedAndItsPlaceRemembered();
  void percentSignsOfNamesAreKept();
  void aModelSaysWhatItIsAndItsDevices();
  void whatIsWrongIsSaidInALine();
  void theWindowGoesOnWhileAMachineSaysNothing();
};

namespace {

struct DialogShown {
  Machine machine;
  RemoteWindow window;
  Settings settings;
  RemoteDialog dialog{window.document(), settings, true, &window.window};

  DialogShown() { dialog.open(); }
  bool answered() {
    return QTest::qWaitFor([&] { return !dialog.isAsking(); }, kPatience);
  }
  bool go(const QString& url) {
    dialog.go(url);
    return answered();
  }
  [[nodiscard]] QStringList rows(int column = 0) const {
    QStringList texts;
    const QAbstractItemModel& model = *const_cast<RemoteDialog&>(dialog).entries().model();
    for (int row = 0; row < model.rowCount(); ++row) texts += model.index(row, column).data().toString();
    return texts;
  }
  void choose(const QString& name) {
    dialog.entries().setCurrentIndex(dialog.entries().model()->index(static_cast<int>(rows().indexOf(name)), 0));
  }
  void press(Qt::Key key) { QTest::keyClick(&dialog.entries(), key); }
};

/// An atlas of a small model, "atlas.h5" of the machine.
void writeAtlas(const Machine& machine) {
  ModelRequest model;
  model.name = "fox";
  model.model = foxModel().toStdString();
  const Engine engine;
  AtlasRequest request;
  request.models = {engine.open(model)};
  EvaluationInput input;
  input.corpus = sampleText().toStdString();
  input.windows.length = 64;
  input.windows.windows = 2;
  request.inputs = {input};
  request.output = machine.folder.path("atlas.h5").toStdString();
  write_atlas_file(request.output, evaluate_atlas(request, {}, {}).value(), {"foxscope", ""}, Overwrite::force);
}

}  // namespace

void RemoteDialogTest::machinesComeFromSshsConfiguration() {
  const Folder home;
  QDir().mkpath(home.path(".ssh"));
  home.write(".ssh/config", "Host cluster *.example.org\nInclude more\n");
  home.write(".ssh/more", "Host gpu-1\n");
  const QByteArray before = qgetenv("HOME");
  qputenv("HOME", home.path("").toUtf8());
  DialogShown shown;
  QListWidget& places = shown.dialog.places();
  QVERIFY(QTest::qWaitFor([&] { return places.count() == 3; }));
  qputenv("HOME", before);
  QCOMPARE(places.item(0)->text(), "Machines of ssh's configuration");
  QCOMPARE(places.item(1)->text(), "cluster");
  QCOMPARE(places.item(2)->text(), "gpu-1");
  QCOMPARE(places.currentRow(), 1);
  QCOMPARE(shown.dialog.focusWidget(), &places);
}

void RemoteDialogTest::aFolderListsWhatItHolds() {
  DialogShown shown;
  const Folder& there = shown.machine.folder;
  writeRun(there, "run.h5", {});
  there.write("b.txt", "a text");
  there.write("odd.bin", "odd");
  there.write(".hidden.txt", "hidden");
  QDir().mkpath(there.path("folder"));
  QFile::link(foxModel(), there.path("fox"));
  const WrittenTraining training;
  training.make();
  QFile::link(training.path(), there.path("training"));
  QVERIFY(shown.go(shown.machine.url()));
  QCOMPARE(shown.rows(), (QStringList{"folder", "fox", "training", "b.txt", "run.h5"}));
  QCOMPARE(shown.rows(FolderModel::kWhat), (QStringList{"folder", "model", "training", "text", "run file"}));
  QCOMPARE(shown.rows(FolderModel::kSize)[0], "");
  QCOMPARE(shown.rows(FolderModel::kSize)[3], "6 bytes");
  QCOMPARE(shown.rows(FolderModel::kDate)[3].size(), 16);
  QCOMPARE(shown.dialog.message(), "5 of 9 entries.");
  QCOMPARE(shown.dialog.machine().text(), "box");
  QCOMPARE(Machine::urlOf(shown.dialog.folder().text()), shown.machine.url());
  auto* all = shown.dialog.findChild<QCheckBox*>();
  all->setChecked(true);
  QVERIFY(shown.rows().contains("odd.bin") && shown.rows().contains(".hidden.txt"));
  all->setChecked(false);
  // Folders stay above also from Z to A.
  shown.dialog.entries().sortByColumn(FolderModel::kName, Qt::DescendingOrder);
  QCOMPARE(shown.rows(), (QStringList{"training", "fox", "folder", "run.h5", "b.txt"}));
}

void RemoteDialogTest::anAtlasIsListedAndOpened() {
  DialogShown shown;
  writeAtlas(shown.machine);
  QVERIFY(shown.go(shown.machine.url()));
  QCOMPARE(shown.rows(), QStringList{"atlas.h5"});
  QCOMPARE(shown.rows(FolderModel::kWhat), QStringList{"atlas of heads"});
  const QModelIndex row = shown.dialog.entries().model()->index(0, 0);
  QCOMPARE(row.data(Qt::DecorationRole).value<QIcon>().pixmap(16).toImage(),
           themedIcon("evaluation").pixmap(16).toImage());
  shown.choose("atlas.h5");
  shown.press(Qt::Key_Return);
  QVERIFY(QTest::qWaitFor([&] { return !shown.window.document().evaluations().empty(); }, kPatience));
}

void RemoteDialogTest::anAtlasThereIsNamedByItsUrl() {
  const Machine machine;
  RemoteWindow window;
  writeAtlas(machine);
  const QString url = machine.url("atlas.h5");
  const EvaluationList& open = window.document().evaluations();
  QVERIFY(window.open(url));
  QCOMPARE(open.size(), 1U);
  QCOMPARE(open[0].path, url);
  const auto* tab = window.window.evaluations().findChild<QToolButton*>("close");
  QCOMPARE(tab->text(), "atlas.h5 on box");
  QCOMPARE(tab->toolTip(), "Close " + url);
  const ShownPanels panels = window.window.evaluations().shownPanels();
  QVERIFY(!panels.empty());
  for (const auto& row : panels) QCOMPARE(row[0].files, std::vector{url.toStdString()});
  // The name stays whole in a spec of several panels, though another file is named from the spec's folder on.
  ShownPanels two{panels[0], panels[0]};
  const Folder folder;
  two[1][0].files = {folder.path("here.h5").toStdString()};
  const QString spec = QString::fromStdString(panelsSpec(two, {}, folder.path("spec.json")));
  QVERIFY2(spec.contains('"' + url + '"') && spec.contains("\"here.h5\""), qPrintable(spec));
  QVERIFY(drawPanels({panels[0]}, {}, {}).has_value());
  // A session names it so too, and opens it there again.
  window.document().sessions().save(folder.path("session.json"), {});
  QVERIFY(window.settle());
  window.document().clear();
  QVERIFY(open.empty());
  QVERIFY(window.open(folder.path("session.json")));
  QVERIFY(QTest::qWaitFor([&] { return open.size() == 1; }, kPatience));
  QCOMPARE(open[0].path, url);
  QVERIFY(open[0].ofSession);
}

void RemoteDialogTest::keysGoThroughFolders() {
  DialogShown shown;
  QDir().mkpath(shown.machine.folder.path("outer/inner"));
  shown.machine.folder.write("outer/inner/a.txt", "a");
  // A machine is typed; what opens is its home folder.
  shown.dialog.machine().setText("box");
  QTest::keyClick(&shown.dialog.machine(), Qt::Key_Return);
  QVERIFY(shown.answered());
  QCOMPARE(shown.dialog.folder().text(), QFileInfo(QDir::homePath()).canonicalFilePath());
  shown.dialog.folder().setText(shown.machine.folder.path("outer"));
  QTest::keyClick(&shown.dialog.folder(), Qt::Key_Return);
  QVERIFY(shown.answered());
  QCOMPARE(shown.rows(), QStringList{"inner"});
  QVERIFY(shown.dialog.entries().hasFocus());
  QCOMPARE(shown.dialog.openButton().text(), "&Enter");
  shown.press(Qt::Key_Right);
  QVERIFY(shown.answered());
  QCOMPARE(shown.rows(), QStringList{"a.txt"});
  shown.press(Qt::Key_Backspace);
  QVERIFY(shown.answered());
  QCOMPARE(shown.dialog.entries().currentIndex().data().toString(), "inner");
  shown.press(Qt::Key_Return);
  QVERIFY(shown.answered());
  QCOMPARE(shown.rows(), QStringList{"a.txt"});
  QCOMPARE(shown.dialog.openButton().text(), "&Open");
  QVERIFY(shown.dialog.openButton().isEnabled());
}

void RemoteDialogTest::aRunFileIsOpenedAndItsPlaceRemembered() {
  DialogShown shown;
  writeRun(shown.machine.folder, "run.h5", {});
  QVERIFY(shown.go(shown.machine.url()));
  shown.choose("run.h5");
  shown.press(Qt::Key_Return);
  QVERIFY(!shown.dialog.isVisible());
  QVERIFY(shown.window.settle());
  QCOMPARE(shown.window.document().runs().size(), 1U);
  QCOMPARE(shown.window.document().runs()[0].host, "box");
  QCOMPARE(shown.settings.remotePlaces().front(), shown.machine.url());
  RemoteDialog again(shown.window.document(), shown.settings, true, &shown.window.window);
  QCOMPARE(again.places().item(0)->text(), "Last places");
  QVERIFY(again.places().item(1)->text().startsWith("box: /"));
}

void RemoteDialogTest::percentSignsOfNamesAreKept() {
  DialogShown shown;
  QDir().mkpath(shown.machine.folder.path("50%"));
  writeRun(shown.machine.folder, "50%/a%20b.h5", {});
  QVERIFY(shown.go(shown.machine.url()));
  shown.choose("50%");
  shown.press(Qt::Key_Right);
  QVERIFY(shown.answered());
  QCOMPARE(shown.rows(), QStringList{"a%20b.h5"});
  shown.choose("a%20b.h5");
  shown.press(Qt::Key_Return);
  QVERIFY(shown.window.settle());
  QCOMPARE(shown.window.document().runs().size(), 1U);
  QCOMPARE(shown.window.document().runs()[0].file, shown.machine.url("50%25/a%2520b.h5"));
  QCOMPARE(shown.settings.remotePlaces().front(), shown.machine.url("50%25"));
  QVERIFY(shown.go(shown.settings.remotePlaces().front()));
  QCOMPARE(shown.rows(), QStringList{"a%20b.h5"});
}

void RemoteDialogTest::aModelSaysWhatItIsAndItsDevices() {
  DialogShown shown;
  QFile::link(foxModel(), shown.machine.folder.path("fox"));
  QVERIFY(shown.go(shown.machine.url()));
  shown.choose("fox");
  QVERIFY(shown.answered());
  const auto labels = shown.dialog.findChildren<QLabel*>();
  QVERIFY(std::any_of(labels.begin(), labels.end(), [](const QLabel* label) {
    return label->text() == "FoX (Pro), 11.6M parameters, 8 layers of 4 heads, 23 MB";
  }));
  QComboBox& device = shown.dialog.device();
  QVERIFY(device.isVisible());
  QCOMPARE(device.itemText(0), "auto: a GPU if there is one");
  const int cpu = device.findData("cpu");
  QVERIFY(device.itemText(cpu).startsWith("cpu: ") && device.itemText(cpu).endsWith(" free"));
  device.setCurrentIndex(cpu);
  shown.dialog.openButton().click();
  QVERIFY(QTest::qWaitFor([&] { return !shown.window.document().runs().models().empty(); }, kPatience));
  QCOMPARE(shown.window.document().runs().models()[0].device, "cpu");
  QCOMPARE(shown.window.document().runs().models()[0].path, shown.machine.url("fox"));
}

void RemoteDialogTest::whatIsWrongIsSaidInALine() {
  DialogShown shown;
  shown.machine.setReachable(false);
  QVERIFY(shown.go("ssh://box/~"));
  QVERIFY(shown.dialog.message().startsWith(
      "box: cannot be reached: ssh: connect to host box port 22: No route to host: look whether `"));
  shown.machine.setReachable(true);
  qputenv("FOXSCOPE_REMOTE_PROGRAM", "/nowhere/foxscope");
  QVERIFY(shown.go("ssh://box/~"));
  QVERIFY2(shown.dialog.message().contains("there is no program /nowhere/foxscope there") &&
               shown.dialog.message().contains("install foxscope there"),
           qPrintable(shown.dialog.message()));
  qputenv("FOXSCOPE_REMOTE_PROGRAM", FOXSCOPE_PROGRAM);
  QVERIFY(shown.go("ssh://box/nowhere/at/all"));
  QCOMPARE(shown.dialog.message(), "ssh://box/nowhere/at/all: cannot be listed (No such file or directory)");
  shown.dialog.machine().setText("-oProxyCommand=x");
  QTest::keyClick(&shown.dialog.machine(), Qt::Key_Return);
  QVERIFY(shown.dialog.message().contains("a host does not begin with a dash"));
  shown.dialog.machine().clear();
  QTest::keyClick(&shown.dialog.machine(), Qt::Key_Return);
  QCOMPARE(shown.dialog.message(), "Type the machine: USER@HOST:PORT, or a name of ssh's configuration.");
  QDir().mkpath(shown.machine.folder.path("empty"));
  QVERIFY(shown.go(shown.machine.url("empty")));
  QCOMPARE(shown.dialog.message(), "No run file, model, training, evaluation or text in 0 entries.");
}

void RemoteDialogTest::theWindowGoesOnWhileAMachineSaysNothing() {
  DialogShown shown;
  QVERIFY(shown.go(shown.machine.url()));
  shown.machine.freeze();
  shown.dialog.go(shown.machine.url("folder"));
  // Were the window's thread waiting, no event would come.
  QTest::keyClicks(&shown.dialog.machine(), "elsewhere");
  QVERIFY(shown.dialog.isAsking());
  shown.dialog.reject();
  QVERIFY(!shown.dialog.isVisible());
  shown.machine.thaw();
}

}  // namespace foxscope::gui::test

FOXSCOPE_GUI_SUBJECT(remote_dialog, foxscope::gui::test::RemoteDialogTest)
#include "remote_dialog_test.moc"
