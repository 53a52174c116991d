// The Export dialog: what it offers, its preview, and that the command line draws the same from its command and spec.
#include <cmath>

#include <QApplication>
#include <QCheckBox>
#include <QClipboard>
#include <QComboBox>
#include <QDir>
#include <QFile>
#include <QFileInfo>
#include <QLineEdit>
#include <QProcess>
#include <QPushButton>
#include <QRegularExpression>
#include <QSpinBox>
#include <QTest>

#include "app/figure/figure_length.h"
#include "app/gui/curves/curves_view.h"
#include "app/gui/evaluations/evaluations_view.h"
#include "app/gui/maps/maps_view.h"
#include "app/gui/window/figures/export_dialog.h"
#include "app/gui/window/figures/figure_form.h"
#include "tests/gui/subject.h"
#include "tests/gui/window/window_shown.h"

namespace foxscope::gui::test {
namespace {

using Source = ExportDialog::Source;
using Kind = ExportDialog::Kind;

QByteArray contentOf(const QString& path) {
  QFile file(path);
  return file.open(QIODevice::ReadOnly) ? file.readAll() : QByteArray();
}

/// A window with two runs of few tokens, saved, and its dialog.
struct Exporting {
  Window test;
  std::unique_ptr<ExportDialog> dialog;

  bool open(std::int64_t tokens = 100) {
    if (!test.run(tokens)) return false;
    test.document().files().saveRunFile(test.folder.path("a run's.h5"));
    if (!waitUntilIdle(test.document())) return false;
    show();
    return true;
  }
  void show() {
    dialog = std::make_unique<ExportDialog>(test.document(), test.window.maps(), test.window.curves(),
                                            test.window.evaluations(), test.window.settings(), test.window);
    dialog->show();
  }
  [[nodiscard]] QString folder(const QString& name) const {
    QDir(test.folder.path(".")).mkdir(name);
    return test.folder.path(name);
  }
  void choose(int data) { dialog->source().setCurrentIndex(dialog->source().findData(data)); }
  void choose(Source source) { choose(static_cast<int>(source)); }
  /// Chooses the first figure whose words hold these.
  bool chooseFigure(const QString& words) {
    for (int index = 0; index < dialog->source().count(); ++index) {
      if (!dialog->source().itemText(index).contains(words)) continue;
      dialog->source().setCurrentIndex(index);
      return true;
    }
    return false;
  }
  void chooseKind(Kind kind) { dialog->kind().setCurrentIndex(dialog->kind().findData(static_cast<int>(kind))); }
  template <typename Field>
  [[nodiscard]] Field* field(const QString& name) const {
    for (auto* one : dialog->findChildren<Field*>()) {
      if (one->accessibleName() == name) return one;
    }
    return nullptr;
  }
  [[nodiscard]] QPushButton* button(const QString& words) const {
    for (auto* one : dialog->findChildren<QPushButton*>()) {
      if (one->text() == words) return one;
    }
    return nullptr;
  }
  bool previewed() {
    return QTest::qWaitFor([&] { return dialog->preview().isSettled(); }, kPatience);
  }
  QByteArray written(const QString& path) {
    dialog->write(path);
    return waitUntilIdle(test.document()) ? contentOf(path) : QByteArray();
  }
};

/// What the shell makes of a command. @returns what it said, or an empty text when all went well
QString inShell(const QString& command) {
  QProcess shell;
  QProcessEnvironment environment = QProcessEnvironment::systemEnvironment();
  environment.insert("PATH", QFileInfo(FOXSCOPE_PROGRAM).absolutePath() + ':' + environment.value("PATH"));
  environment.insert("CUDA_VISIBLE_DEVICES", "");
  shell.setProcessEnvironment(environment);
  shell.start("sh", {"-c", command});
  if (!shell.waitForFinished(kPatience)) return "it did not end";
  return shell.exitCode() == 0 ? QString() : command + '\n' + shell.readAllStandardError();
}

/// The curves of a figure: the lines that it draws.
QStringList curvesOf(const QByteArray& svg) {
  QStringList curves;
  auto found = QRegularExpression("<(path|polyline)[^>]*>").globalMatch(QString::fromUtf8(svg));
  while (found.hasNext()) curves += found.next().captured();
  return curves;
}

QByteArray withoutCommand(const QByteArray& svg) {
  return QString::fromUtf8(svg).remove(QRegularExpression("foxscope figure [^<]*")).toUtf8();
}

}  // namespace

class ExportTest : public QObject {
  Q_OBJECT

 private slots:
  void initTestCase();
  void everyFigureIsThatOfItsCommandAndOfItsSpec();
  void whatIsChosenIsInTheCommandAndInTheSpec();
  void theMapOfAPaneIsThatOfItsCommand();
  void curvesTakeNamesLimitsAndATitle();
  void thePreviewShowsThePageAndItsSize();
  void thePreviewSaysWhyThereIsNone();
  void theCommandIsCopied();
  void runsInNoFileAreMadeByTheCommand();
  void anAtlasIsExportedByTheSameForm();
  void modelsAreExportedBesideEachOther();
  void whereThereIsNoCommandTheReasonIsTold();
  void sizesAreRemembered();
  void everyVenueHasItsWidth();
};

void ExportTest::initTestCase() {
  useOwnSettings();
  qputenv("CUDA_VISIBLE_DEVICES", "");
}

void ExportTest::everyFigureIsThatOfItsCommandAndOfItsSpec() {
  Exporting exporting;
  QVERIFY(exporting.open());
  const QString here = exporting.folder("here");
  const QString there = exporting.folder("there");
  int compared = 0;
  for (int index = 0; index < exporting.dialog->source().count(); ++index) {
    if (exporting.dialog->source().itemData(index).toInt() < static_cast<int>(Source::figures)) continue;
    exporting.dialog->source().setCurrentIndex(index);
    exporting.chooseKind(Kind::svg);
    const QString name = QString("/figure%1.svg").arg(index);
    const QByteArray window = exporting.written(here + name);
    QVERIFY(window.contains("<svg"));
    QCOMPARE(inShell(exporting.dialog->command(there + name)), QString());
    QVERIFY2(contentOf(there + name) == window, qPrintable(exporting.dialog->source().currentText()));
    const QString spec = exporting.test.folder.path("spec.json");
    exporting.dialog->writeSpec(spec);
    QVERIFY(waitUntilIdle(exporting.test.document()));
    QCOMPARE(
        inShell(QString("foxscope figure spec %1 '%2' -o %3 --force")
                    .arg(spec, QString(exporting.test.folder.path("a run's.h5")).replace("'", "'\\''"), there + name)),
        QString());
    // The metadata tell another command, and nothing else differs.
    QVERIFY2(withoutCommand(contentOf(there + name)) == withoutCommand(window),
             qPrintable(exporting.dialog->source().currentText()));
    ++compared;
  }
  QVERIFY(compared >= 15);
}

void ExportTest::whatIsChosenIsInTheCommandAndInTheSpec() {
  Exporting exporting;
  QVERIFY(exporting.open());
  const QString here = exporting.folder("here");
  const QString there = exporting.folder("there");
  const auto compare = [&](const QString& name, Kind kind) {
    exporting.chooseKind(kind);
    const QByteArray window = exporting.written(here + name);
    const QString said = inShell(exporting.dialog->command(there + name));
    if (!said.isEmpty()) return said;
    return window == contentOf(there + name) ? QString() : QString("other bytes");
  };
  QVERIFY(exporting.chooseFigure("figure: losses"));
  exporting.dialog->pageWidth().setValue(82.55);
  exporting.field<QLineEdit>("Title")->setText("--Losses of *two*, it's \"so\"");
  exporting.field<QLineEdit>("Name of fox-pro-12m")->setText("FoX (*Pro*)");
  exporting.field<QComboBox>("Legend")->setCurrentIndex(1);
  exporting.field<QSpinBox>("Width of the moving average")->setValue(5);
  exporting.field<QSpinBox>("Training length")->setValue(64);
  exporting.field<QLineEdit>("Ends of the vertical axis: lower")->setText("-1");
  exporting.field<QLineEdit>("Ends of the vertical axis: upper")->setText("12.5");
  QCOMPARE(compare("/loss.svg", Kind::svg), QString());
  QVERIFY(contentOf(here + "/loss.svg").contains("82.55mm"));
  QCOMPARE(compare("/loss.pdf", Kind::pdf), QString());
  exporting.field<QComboBox>("Legend")->setCurrentIndex(2);
  QCOMPARE(compare("/loss.png", Kind::png), QString());
  QVERIFY(exporting.chooseFigure("of the chosen head, in the range"));
  exporting.field<QComboBox>("Palette")->setCurrentIndex(2);
  exporting.field<QLineEdit>("Ends of the colour bar of A: upper")->setText("0.5");
  QCOMPARE(compare("/maps.pdf", Kind::pdf), QString());
  QVERIFY(exporting.chooseFigure("beside the nearest"));
  QCOMPARE(compare("/compare.svg", Kind::svg), QString());
}

void ExportTest::theMapOfAPaneIsThatOfItsCommand() {
  Exporting exporting;
  QVERIFY(exporting.open());
  exporting.choose(Source::map);
  const QString here = exporting.folder("here");
  const QString there = exporting.folder("there");
  for (const char* name : {"/map.png", "/map.svg", "/without.svg", "/plain.svg"}) {
    if (QString(name) == "/without.svg") {
      PaneState state;
      state.setQuantity(Quantity::attention);
      state.setFirstKey(FirstKey::left_out);
      exporting.test.window.maps().setPaneState(0, state);
      QVERIFY(exporting.test.settle());
      exporting.show();
      exporting.choose(Source::map);
      QVERIFY(exporting.dialog->command("x.svg").contains(" --without-first "));
    }
    if (QString(name) == "/plain.svg") {
      for (auto* box : exporting.dialog->findChildren<QCheckBox*>()) {
        if (box->text().startsWith("names of the heads")) box->setChecked(false);
      }
      QVERIFY(exporting.dialog->command("x.svg").contains(" --plain "));
    }
    const QByteArray window = exporting.written(here + name);
    QVERIFY(!window.isEmpty());
    QCOMPARE(inShell(exporting.dialog->command(there + name)), QString());
    QVERIFY2(window == contentOf(there + name), name);
  }
}

void ExportTest::curvesTakeNamesLimitsAndATitle() {
  Exporting exporting;
  QVERIFY(exporting.open());
  exporting.choose(Source::curves);
  exporting.chooseKind(Kind::svg);
  const QByteArray plain = exporting.written(exporting.test.folder.path("plain.svg"));
  QVERIFY(plain.contains("fox-pro-12m"));
  exporting.field<QLineEdit>("Name of fox-pro-12m")->setText("FoX");
  exporting.field<QLineEdit>("Title")->setText("Two models");
  const QByteArray named = exporting.written(exporting.test.folder.path("named.svg"));
  QVERIFY(named.contains("curve: FoX"));
  QVERIFY(named.contains("Two models"));
}

void ExportTest::thePreviewShowsThePageAndItsSize() {
  Exporting exporting;
  QVERIFY(exporting.open());
  QVERIFY(exporting.chooseFigure("figure: losses"));
  exporting.dialog->pageWidth().setValue(82.55);
  QVERIFY(exporting.previewed());
  const QImage picture = exporting.dialog->preview().picture();
  QVERIFY(!picture.isNull());
  QVERIFY2(exporting.dialog->preview().caption().startsWith("82.6 × ") ||
               exporting.dialog->preview().caption().startsWith("82.5 × "),
           qPrintable(exporting.dialog->preview().caption()));
  QVERIFY(exporting.dialog->preview().caption().contains(" in, seen at "));
  // Any field asks for another picture.
  exporting.field<QLineEdit>("Title")->setText("A title");
  QVERIFY(exporting.previewed());
  QVERIFY(exporting.dialog->preview().picture() != picture);
  // The whole window is there at once, numbers are counted.
  exporting.choose(Source::window);
  QVERIFY(exporting.dialog->preview().isSettled());
  QVERIFY(exporting.dialog->preview().caption().endsWith(" pixels"));
  exporting.choose(Source::map);
  exporting.chooseKind(Kind::csv);
  QVERIFY(exporting.dialog->preview().picture().isNull());
  QVERIFY(exporting.dialog->preview().caption().contains(" entries, "));
}

void ExportTest::thePreviewSaysWhyThereIsNone() {
  Exporting exporting;
  QVERIFY(exporting.open());
  QVERIFY(exporting.chooseFigure("figure: losses"));
  const auto says = [&](const QString& words) {
    return exporting.previewed() && exporting.dialog->preview().caption().contains(words);
  };
  auto* lower = exporting.field<QLineEdit>("Ends of the vertical axis: lower");
  auto* upper = exporting.field<QLineEdit>("Ends of the vertical axis: upper");
  lower->setText("2");
  QVERIFY2(says("Up: write both ends of the axis, or neither"), qPrintable(exporting.dialog->preview().caption()));
  upper->setText("many");
  QVERIFY2(says("Up: “many” is not a number"), qPrintable(exporting.dialog->preview().caption()));
  upper->setText("1");
  QVERIFY(exporting.previewed());
  QVERIFY2(exporting.dialog->preview().picture().isNull(), qPrintable(exporting.dialog->preview().caption()));
  exporting.dialog->write(exporting.test.folder.path("loss.svg"));
  QVERIFY(waitUntilIdle(exporting.test.document()));
  QVERIFY(!QFile::exists(exporting.test.folder.path("loss.svg")));
  upper->setText("many");
  exporting.dialog->write(exporting.test.folder.path("loss.svg"));
  QVERIFY(exporting.test.said("Up: “many” is not a number"));
  exporting.dialog->writeSpec(exporting.test.folder.path("loss.json"));
  QVERIFY(!QFile::exists(exporting.test.folder.path("loss.json")));
}

void ExportTest::theCommandIsCopied() {
  Exporting exporting;
  QVERIFY(exporting.open());
  QVERIFY(exporting.chooseFigure("all heads"));
  exporting.chooseKind(Kind::pdf);
  QTest::mouseClick(exporting.button("Copy the Command"), Qt::LeftButton);
  const QString command = QApplication::clipboard()->text();
  QVERIFY2(command.startsWith("foxscope figure grid '") && command.endsWith(" -o foxscope.pdf"), qPrintable(command));
}

void ExportTest::runsInNoFileAreMadeByTheCommand() {
  Exporting exporting;
  Document& document = exporting.test.document();
  QVERIFY(exporting.test.run(64));
  document.modelRuns().startDerivedRun(document.runs()[0].id, {"3:1:cut"});
  QTRY_COMPARE_WITH_TIMEOUT(document.runs().size(), 3U, kPatience);
  QVERIFY(exporting.test.settle());
  exporting.show();
  const QString here = exporting.folder("here");
  const QString there = exporting.folder("there it is");
  // Changes are for all models of a command: there is one for each.
  QVERIFY(exporting.chooseFigure("figure: losses"));
  exporting.chooseKind(Kind::svg);
  const QString command = exporting.dialog->command(there + "/loss.svg");
  QVERIFY2(command.startsWith("foxscope run --model fox-pro-12m="), qPrintable(command));
  QCOMPARE(command.count(" && "), 2);
  QCOMPARE(command.count(" --intervene 3:1:cut "), 1);
  const QByteArray window = exporting.written(here + "/loss.svg");
  QVERIFY(!window.isEmpty());
  QCOMPARE(inShell(command), QString());
  QVERIFY(QFile::exists(there + "/loss.h5") && QFile::exists(there + "/loss-2.h5"));
  QVERIFY(curvesOf(window).size() >= 3 && curvesOf(contentOf(there + "/loss.svg")) == curvesOf(window));
  exporting.choose(Source::map);
  const QByteArray map = exporting.written(here + "/map.png");
  QCOMPARE(inShell(exporting.dialog->command(there + "/map.png")), QString());
  QVERIFY(QImage::fromData(map) == QImage(there + "/map.png"));
  QVERIFY(exporting.button("Copy the Command")->isEnabled());
}

void ExportTest::whereThereIsNoCommandTheReasonIsTold() {
  Exporting exporting;
  Document& document = exporting.test.document();
  document.open({foxModel()});
  QVERIFY(waitUntilIdle(document));
  // A text that was pasted is in no file.
  document.modelRuns().setText({{}, "A fox stood on a hill, and nobody knew what it had forgotten."});
  document.modelRuns().startRun();
  QTRY_COMPARE_WITH_TIMEOUT(document.runs().size(), 1U, kPatience);
  QVERIFY(exporting.test.settle());
  exporting.show();
  const auto refused = [&](const QString& words) {
    return !exporting.button("Copy the Command")->isEnabled() && exporting.dialog->command("x.pdf").isEmpty() &&
           exporting.dialog->commandNote().contains(words);
  };
  QVERIFY(exporting.chooseFigure("all heads"));
  QVERIFY2(refused("fox-pro-12m and its text are in no file yet"), qPrintable(exporting.dialog->commandNote()));
  QCOMPARE(exporting.button("Copy the Command")->toolTip(), exporting.dialog->commandNote());
  QVERIFY(exporting.button("Write the Spec…")->isEnabled());
  exporting.choose(Source::map);
  QVERIFY2(refused("are in no file yet"), qPrintable(exporting.dialog->commandNote()));
  QVERIFY(!exporting.button("Write the Spec…")->isEnabled());
  exporting.choose(Source::curves);
  QVERIFY(refused("No command draws curves as they are on the screen"));
  exporting.choose(Source::window);
  QVERIFY(refused("No command draws the window"));
  // It was in one, which has gone.
  const QString text =
      exporting.test.folder.write("fox.txt", QByteArray::fromStdString(document.modelRuns().text().content));
  document.open({text});
  QVERIFY(waitUntilIdle(document));
  QVERIFY(exporting.chooseFigure("all heads"));
  QVERIFY(exporting.dialog->commandNote().isEmpty());
  QVERIFY(QFile::remove(text));
  exporting.chooseKind(Kind::pdf);
  exporting.chooseKind(Kind::svg);
  QVERIFY2(refused("fox.txt no longer exists"), qPrintable(exporting.dialog->commandNote()));
}

void ExportTest::sizesAreRemembered() {
  Exporting exporting;
  QVERIFY(exporting.open(64));
  exporting.choose(Source::map);
  exporting.dialog->pageWidth().setValue(100);
  QVERIFY(!exporting.written(exporting.test.folder.path("map.svg")).isEmpty());
  exporting.show();
  QCOMPARE(exporting.dialog->format().widthMm, 100.0);
  QCOMPARE(exporting.dialog->format().dpi, 300);
  QVERIFY(!exporting.dialog->format().fontSizePt);
}

void ExportTest::everyVenueHasItsWidth() {
  Exporting at;
  QVERIFY(at.open());
  QComboBox* sizes = nullptr;
  for (auto* one : at.dialog->findChildren<QComboBox*>()) {
    if (one->findText("Nature: column") >= 0) sizes = one;
  }
  QVERIFY(sizes != nullptr);
  for (const figure::Venue& venue : figure::venues()) {
    if (venue.title == nullptr) continue;
    sizes->setCurrentIndex(sizes->findText(venue.title));
    // The field has two decimals, in millimetres.
    QVERIFY(std::abs(at.dialog->pageWidth().value() - figure::parseLength("--width", venue.word)) < 0.0051);
    QCOMPARE(sizes->currentText(), QString(venue.title));
  }
}

void ExportTest::anAtlasIsExportedByTheSameForm() {
  Exporting exporting;
  const QString atlas = exporting.test.folder.path("the atlas.h5");
  QVERIFY(makeAtlas(atlas));
  exporting.test.document().open({atlas});
  QVERIFY(exporting.test.settle());
  AtlasView& view = exporting.test.window.evaluations().atlas();
  view.pane(0).setHead(9);
  // The scatter above the head's tokens.
  exporting.show();
  QVERIFY(exporting.chooseFigure("atlas as shown"));
  QVERIFY(exporting.previewed());
  QVERIFY2(!exporting.dialog->preview().picture().isNull(), qPrintable(exporting.dialog->preview().caption()));
  exporting.dialog->pageWidth().setValue(90);
  exporting.field<QLineEdit>("Title")->setText("Two views of a head");
  exporting.chooseKind(Kind::svg);
  const QByteArray page = exporting.written(exporting.test.folder.path("page.svg"));
  QVERIFY2(page.contains("Tokens that make a head forget") && page.contains("Heads by two statistics"),
           page.left(2000).constData());
  QVERIFY(exporting.dialog->commandNote().contains("a spec does"));
  // The spec draws the same page.
  exporting.dialog->writeSpec(exporting.test.folder.path("page.json"));
  QVERIFY(waitUntilIdle(exporting.test.document()));
  QCOMPARE(inShell(QStringLiteral("cd '%1' && foxscope -q figure spec page.json 'the atlas.h5' -o again.svg")
                       .arg(exporting.test.folder.path("."))),
           QString());
  QCOMPARE(curvesOf(contentOf(exporting.test.folder.path("again.svg"))), curvesOf(page));
  // Below it stands what the page of the head shows.
  atlas::ModelPane& pane = view.pane(0);
  for (const auto& [tab, title] : {std::pair(atlas::HeadPage::kResets, "Where a head resets"),
                                   std::pair(atlas::HeadPage::kGates, "Forget gates of fox")}) {
    pane.page().tabs().setCurrentIndex(tab);
    QVERIFY(exporting.test.settle());
    exporting.show();
    QVERIFY(exporting.chooseFigure("atlas as shown"));
    exporting.chooseKind(Kind::svg);
    const QByteArray both = exporting.written(exporting.test.folder.path("both.svg"));
    QVERIFY2(both.contains(title) && both.contains("Heads by two statistics"), both.left(2000).constData());
  }
  // One figure alone has a command, with what is chosen in the form: a head without resets has no other.
  pane.page().tabs().setCurrentIndex(atlas::HeadPage::kResets);
  std::size_t head = 0;
  for (; head < 32; ++head) {
    pane.setHead(head);
    QVERIFY(exporting.test.settle());
    if (!pane.page().message(atlas::HeadPage::kResets).isEmpty()) break;
  }
  QVERIFY(head < 32);
  exporting.show();
  QVERIFY(exporting.chooseFigure("atlas as shown"));
  exporting.chooseKind(Kind::svg);
  QCOMPARE(exporting.dialog->commandNote(), QString());
  const QByteArray scatter = exporting.written(exporting.test.folder.path("scatter.svg"));
  QVERIFY(scatter.contains(QStringLiteral("%1:%2").arg(head / 4).arg(head % 4).toUtf8()));
  QCOMPARE(inShell(exporting.dialog->command(exporting.test.folder.path("command.svg"))), QString());
  const QByteArray drawn = contentOf(exporting.test.folder.path("command.svg"));
  QCOMPARE(withoutCommand(drawn), withoutCommand(scatter));
}

void ExportTest::modelsAreExportedBesideEachOther() {
  Exporting exporting;
  const QString atlas = exporting.test.folder.path("two.h5");
  QVERIFY(makeAtlas(atlas, {foxModel(), transformerModel()}));
  exporting.test.document().open({atlas});
  QVERIFY(exporting.test.settle());
  AtlasView& view = exporting.test.window.evaluations().atlas();
  QComboBox& beside = view.model(1);
  beside.setCurrentIndex(beside.findText("transformer-pro-12m"));
  emit beside.activated(beside.currentIndex());
  for (const int number : {0, 1}) view.pane(number).maps().setCurrentIndex(1);
  QVERIFY(exporting.test.settle());
  exporting.show();
  QVERIFY(exporting.chooseFigure("atlas as shown"));
  exporting.chooseKind(Kind::svg);
  const QByteArray page = exporting.written(exporting.test.folder.path("page.svg"));
  QVERIFY(!page.isEmpty());
  exporting.dialog->writeSpec(exporting.test.folder.path("page.json"));
  QVERIFY(waitUntilIdle(exporting.test.document()));
  QCOMPARE(inShell(QStringLiteral("cd '%1' && foxscope -q figure spec page.json two.h5 -o again.svg")
                       .arg(exporting.test.folder.path("."))),
           QString());
  QCOMPARE(curvesOf(contentOf(exporting.test.folder.path("again.svg"))), curvesOf(page));
}

}  // namespace foxscope::gui::test

FOXSCOPE_GUI_SUBJECT(export, foxscope::gui::test::ExportTest)
#include "export_test.moc"
