#include <cmath>

#include <QComboBox>
#include <QFile>
#include <QSignalSpy>
#include <QTabWidget>
#include <QTest>
#include <QToolButton>
#include <qcustomplot.h>

#include "app/figure/kinds/loss.h"
#include "app/gui/evaluations/evaluations_view.h"
#include "app/gui/evaluations/heads_page.h"
#include "app/gui/evaluations/loss_page.h"
#include "app/gui/evaluations/needle_page.h"
#include "app/gui/evaluations/value_grid.h"
#include "app/gui/views/theme.h"
#include "backend/model/weights/checkpoint.h"
#include "tests/gui/subject.h"
#include "tests/gui/support.h"

namespace foxscope::gui::test {

using evaluations::ValueGrid;

class EvaluationsTest : public QObject {
  Q_OBJECT

 private slots:
  void initTestCase() { QApplication::setPalette(lightPalette()); }
  void lossesAreTheFiguresCurves();
  void theLegendIsOffTheCurves();
  void filesOfOneKindStandInOnePlot();
  void differentTextsAreSaidToBe();
  void coloursAreThoseOfTheRuns();
  void aNeedleCellTellsItsValue();
  void allCellsHaveNumbersOrNone();
  void manyHeadsAreSeenAndThoseWithoutAGateAreHatched();
  void aNeedleCellSaysWhatIsMissing();
  void aNeedleCellFindsItsModelByItsWeights();
  void aNeedleCellOpensItsTrace();
  void aNeedleCellIsOfItsModelsChanges();
  void headsAreAGrid();
  void figuresAreExported();
  void hiddenModelsAreLeftOut();
  void allNeedleTestsAreExported();
  void aSessionKeepsEvaluations();
  void aDamagedEvaluationIsOneLine();
};

namespace {

QString evaluationOf(const char* kind) { return source(QStringLiteral("resources/figures/%1.h5").arg(kind)); }

struct Shown {
  Document document;
  EvaluationsView view{document.evaluations(), document.runs(), document.modelRuns(), document.files()};

  explicit Shown(const QStringList& files) {
    view.resize(900, 400);
    view.show();
    document.open(files);
  }
  bool settle() {
    return waitUntilIdle(document) && QTest::qWaitFor([&] { return view.isSettled() && !document.busy(); }, 60'000);
  }
  std::vector<ValueGrid*> grids() {
    std::vector<ValueGrid*> visible;
    for (auto* grid : view.findChildren<ValueGrid*>()) {
      if (grid->isVisible()) visible.push_back(grid);
    }
    return visible;
  }
};

/// A test of one cell whose haystack is the sample text.
QString writeNeedle(const Folder& folder, const std::string& name = "fox-pro-12m", const std::string& weights = {},
                    const std::string& intervention = {}) {
  NeedleEvaluation test;
  test.haystack = "black-beauty-1-3.txt";
  test.words = NeedleTemplate::built_in();
  test.lengths = {512};
  test.depths = {0.5};
  NeedleModel model;
  model.info.name = name;
  model.info.weights_sha256 = weights;
  model.info.intervention = intervention;
  model.info.layers = model.info.heads = model.info.key_heads = 1;
  model.info.head_dim = 4;
  model.info.length = 512;
  model.found = {1};
  model.answer_log_probability = {-1};
  model.baseline_log_probability = {-3};
  model.position = {330};
  model.needle_begin = {150};
  model.needle_end = {170};
  model.needle_mass = model.needle_gate = {0.5F};
  model.continuation = {"a sandwich"};
  test.models = {model};
  write_needle_file(folder.path("needle.h5").toStdString(), test, {"foxscope", ""}, Overwrite::force);
  return folder.path("needle.h5");
}

}  // namespace

void EvaluationsTest::lossesAreTheFiguresCurves() {
  Shown shown({evaluationOf("loss")});
  QVERIFY(shown.settle());
  const LossEvaluation file = LossEvaluation::open(evaluationOf("loss").toStdString());
  const auto sources = figure::lossesOf(file);
  const auto wanted = figure::lossPlot(sources, {}, figure::smoothingWidth(sources, {}), {});
  const figure::CurvePlot& plot = shown.view.loss().plot();
  QVERIFY(!plot.curves.empty());
  QCOMPARE(plot.curves.size(), wanted.curves.size());
  for (std::size_t curve = 0; curve < plot.curves.size(); ++curve) {
    QCOMPARE(plot.curves[curve].name, wanted.curves[curve].name);
    QVERIFY(plot.curves[curve].y == wanted.curves[curve].y);
    QVERIFY(!plot.curves[curve].bandUpper.empty());
  }
  QVERIFY(shown.view.reading().contains("standard error"));
  // That is said of the losses alone.
  shown.document.open({evaluationOf("heads")});
  QVERIFY(waitUntilIdle(shown.document));
  QVERIFY(shown.view.heads().isVisible());
  QVERIFY2(!shown.view.reading().contains("standard error"), qPrintable(shown.view.reading()));
  shown.view.restoreState({{"tab", 0}});
  QVERIFY(shown.view.reading().contains("standard error"));
}

void EvaluationsTest::theLegendIsOffTheCurves() {
  const Folder folder;
  QVERIFY(QFile::copy(evaluationOf("loss"), folder.path("again.h5")));
  Shown shown({evaluationOf("loss"), folder.path("again.h5")});
  QVERIFY(shown.settle());
  QCustomPlot& axes = shown.view.loss().axes();
  for (const int width : {900, 320}) {
    shown.view.resize(width, 400);
    QCoreApplication::processEvents();
    axes.replot();
    QCOMPARE(axes.legend->itemCount(), static_cast<int>(shown.view.loss().plot().curves.size()));
    QVERIFY(!axes.legend->outerRect().intersects(axes.axisRect()->rect()));
    // In one row where there is room, else in several; never cut off.
    QCOMPARE(axes.legend->rowCount() == 1, width == 900);
    for (int item = 0; item < axes.legend->itemCount(); ++item) {
      const QRect place = axes.legend->item(item)->outerRect();
      QVERIFY(axes.rect().contains(place));
      QVERIFY(place.width() >= axes.legend->item(item)->minimumOuterSizeHint().width());
    }
    QVERIFY(axes.axisRect()->height() > axes.legend->outerRect().height());
  }
}

void EvaluationsTest::filesOfOneKindStandInOnePlot() {
  const Folder folder;
  QVERIFY(QFile::copy(evaluationOf("loss"), folder.path("again.h5")));
  Shown shown({evaluationOf("loss")});
  QVERIFY(shown.settle());
  const std::size_t one = shown.view.loss().plot().curves.size();
  shown.document.open({folder.path("again.h5")});
  QVERIFY(shown.settle());
  QCOMPARE(shown.view.loss().plot().curves.size(), 2 * one);
  QVERIFY(shown.view.loss().plot().curves.back().name.ends_with(" · again"));
  // Opened once more it is not there twice.
  shown.document.open({folder.path("again.h5")});
  QVERIFY(shown.settle());
  QCOMPARE(shown.document.evaluations().size(), 2U);
  const auto closes = shown.view.findChildren<QToolButton*>("close");
  QTest::mouseClick(closes.back(), Qt::LeftButton);
  QTRY_COMPARE(shown.document.evaluations().size(), 1U);
  QVERIFY(shown.settle());
  QCOMPARE(shown.view.loss().plot().curves.size(), one);
}

void EvaluationsTest::differentTextsAreSaidToBe() {
  const Folder folder;
  LossEvaluation other = LossEvaluation::open(evaluationOf("loss").toStdString());
  other.corpus.source = "code.jsonl";
  for (EvaluatedModel& model : other.models) {
    auto windows = std::make_shared<EvaluatedWindows>(*model.windows);
    windows->token_id[0] += 1;
    model.windows = windows;
  }
  write_loss_file(folder.path("code.h5").toStdString(), other, {"foxscope", ""}, Overwrite::refuse);
  Shown shown({evaluationOf("loss")});
  QVERIFY(shown.settle());
  QVERIFY(shown.view.loss().warning().isEmpty());
  shown.document.open({folder.path("code.h5")});
  QVERIFY(shown.settle());
  const QString warning = shown.view.loss().warning();
  QVERIFY2(warning.startsWith("these losses are of different tokens and do not compare: "), qPrintable(warning));
  QVERIFY2(warning.contains("windows of code.jsonl)"), qPrintable(warning));
  // Nor does the figure put them together.
  QSignalSpy messages(&shown.document, &Document::messageRaised);
  shown.view.exportTo(folder.path("loss.svg"));
  QVERIFY(shown.settle());
  QCOMPARE(messages.size(), 1);
  QVERIFY(messages[0][0].value<Message>().text.contains("did not predict the same tokens"));
  const auto closes = shown.view.findChildren<QToolButton*>("close");
  QTest::mouseClick(closes.back(), Qt::LeftButton);
  QTRY_COMPARE(shown.document.evaluations().size(), 1U);
  QVERIFY(shown.settle());
  QVERIFY(shown.view.loss().warning().isEmpty());
}

void EvaluationsTest::coloursAreThoseOfTheRuns() {
  Shown shown({evaluationOf("loss")});
  QVERIFY(shown.settle());
  const QString name = QString::fromStdString(shown.view.loss().plot().curves[0].name);
  shown.document.runs().addModel(foxModel(), name);
  RunLook look = shown.document.runs().models()[0].look;
  look.colour = 4;
  shown.document.runs().setLook(shown.document.runs().listRows()[0], look);
  shown.document.modelRuns().setText({{}, "A text that is short."});
  shown.document.modelRuns().startRun();
  QVERIFY(shown.settle());
  QCOMPARE(shown.view.loss().plot().curves[0].colour, 4);
  for (std::size_t curve = 1; curve < shown.view.loss().plot().curves.size(); ++curve) {
    QVERIFY(shown.view.loss().plot().curves[curve].colour != 4);
  }
}

void EvaluationsTest::aNeedleCellTellsItsValue() {
  Shown shown({evaluationOf("needle")});
  QVERIFY(shown.settle());
  const NeedleEvaluation file = NeedleEvaluation::open(evaluationOf("needle").toStdString());
  const auto grids = shown.grids();
  QCOMPARE(grids.size(), file.models.size());
  QVERIFY(QTest::qWaitForWindowExposed(&shown.view));
  // An X server's pointer may stand there already, and says later where it is.
  QTest::mouseMove(grids[0], grids[0]->cell(0, 0).center().toPoint());
  QTest::mouseMove(grids[0], grids[0]->cell(1, 2).center().toPoint());
  const QString value = QString::number(static_cast<double>(file.models[0].gain()[2 * file.depths.size() + 1]), 'g', 3);
  QTRY_VERIFY2(shown.view.reading().contains(QStringLiteral("gain %1 nats").arg(value)),
               qPrintable(shown.view.reading()));
  QVERIFY(shown.view.reading().contains(QStringLiteral("length %1,").arg(file.lengths[2])));
  grids[0]->setFocus();
  QTest::keyClick(grids[0], Qt::Key_Left);
  QVERIFY(shown.view.reading().contains(QStringLiteral("length %1,").arg(file.lengths[1])));
}

void EvaluationsTest::allCellsHaveNumbersOrNone() {
  Shown shown({evaluationOf("needle")});
  QVERIFY(shown.settle());
  ValueGrid& grid = *shown.grids()[0];
  const auto written = [&](const QSize& size) {
    grid.resize(size);
    const QStringList texts = grid.cellTexts();
    return std::pair(texts.size() - texts.count(QString()), texts);
  };
  const qsizetype cells = static_cast<qsizetype>(grid.content().values.size());
  qsizetype widest = 0;
  for (const int width : {1000, 500, 420, 360, 300}) {
    const auto [count, texts] = written({width, 400});
    QVERIFY2(count == cells || count == 0, qPrintable(QString("%1 of %2 at %3").arg(count).arg(cells).arg(width)));
    qsizetype longest = 0;
    for (const QString& text : texts) longest = std::max(longest, text.size());
    if (widest > 0) QVERIFY(longest <= widest);
    widest = longest;
  }
  QCOMPARE(written({1000, 400}).first, cells);
  QCOMPARE(written({200, 400}).first, 0);
  const double value = static_cast<double>(grid.content().values[0]);
  QCOMPARE(written({1000, 400}).second[0], QString::number(value, 'f', 2));
}

// 24 x 24 heads, of which some never forget: those have no number and no colour of the scale.
void EvaluationsTest::manyHeadsAreSeenAndThoseWithoutAGateAreHatched() {
  ValueGrid grid;
  evaluations::GridContent content;
  content.title = "decay times";
  for (int number = 0; number < 24; ++number) {
    content.rows += QString::number(number);
    content.columns += QString::number(number);
  }
  content.colours.map = &figure::viridis();
  content.colours.lower = 0;
  content.colours.upper = 1;
  for (int cell = 0; cell < 24 * 24; ++cell) content.values.push_back(cell % 24 == 5 ? INFINITY : 1.0F);
  grid.setContent(content);
  grid.resize(grid.minimumSizeHint());
  QVERIFY(grid.width() < 220);
  for (const int last : {0, 12, 23}) {
    QVERIFY(grid.cell(last, last).width() >= 4 && grid.cell(last, last).height() >= 4);
    QVERIFY(QRectF(grid.rect()).contains(grid.cell(last, last)));
  }
  grid.resize(1000, 700);
  QCOMPARE(grid.cellTexts()[5], QString());
  QVERIFY(!grid.cellTexts()[6].isEmpty());
  const QImage picture = grid.grab().toImage();
  const QColor most(253, 231, 37);
  const QRect hatched = grid.cell(3, 5).toAlignedRect().adjusted(2, 2, -2, -2);
  for (int x = hatched.left(); x <= hatched.right(); ++x) {
    QVERIFY(picture.pixelColor(x, hatched.center().y()).hsvSaturation() < 30);
  }
  QCOMPARE(picture.pixelColor(grid.cell(3, 6).topLeft().toPoint() + QPoint(3, 3)), most);
}

void EvaluationsTest::aNeedleCellSaysWhatIsMissing() {
  Shown shown({evaluationOf("needle")});
  QVERIFY(shown.settle());
  ValueGrid* grid = shown.grids()[0];
  QTest::mouseDClick(grid, Qt::LeftButton, {}, grid->cell(0, 0).center().toPoint());
  QVERIFY2(shown.view.reading().startsWith("To open this cell, first open the checkpoint folder of"),
           qPrintable(shown.view.reading()));
  QVERIFY(shown.view.reading().contains("as text (Ctrl+Shift+O)"));
  QVERIFY(shown.document.modelRuns().text().empty());
}

// An evaluation may call a model by another name than its folder's.
void EvaluationsTest::aNeedleCellFindsItsModelByItsWeights() {
  const Folder folder;
  const std::string weights = *Checkpoint::open(foxModel().toStdString()).weights_sha256({});
  Shown shown({writeNeedle(folder, "fox", weights), transformerModel(), sampleText()});
  QVERIFY(shown.settle());
  const auto open = [&shown] {
    ValueGrid* grid = shown.grids()[0];
    QTest::mouseDClick(grid, Qt::LeftButton, {}, grid->cell(0, 0).center().toPoint());
  };
  open();
  QTRY_COMPARE(shown.view.reading(),
               "To open this cell, first open the checkpoint folder of fox (Ctrl+O): no open model has its weights");
  QVERIFY(shown.document.runs().empty() && shown.settle());
  shown.document.open({foxModel()});
  QVERIFY(shown.settle());
  open();
  QTRY_COMPARE_WITH_TIMEOUT(shown.document.runs().size(), 2U, 60'000);
  QVERIFY(shown.settle());
  QTRY_VERIFY(shown.document.runs().selection().pin() == (Cursor{330, 150}));
}

void EvaluationsTest::aNeedleCellOpensItsTrace() {
  const Folder folder;
  Shown shown({writeNeedle(folder), foxModel(), sampleText()});
  QVERIFY(shown.settle());
  RunSettings settings = shown.document.modelRuns().settings();
  settings.limit = 300;
  shown.document.modelRuns().setSettings(settings);
  ValueGrid* grid = shown.grids()[0];
  QTest::mouseDClick(grid, Qt::LeftButton, {}, grid->cell(0, 0).center().toPoint());
  QTRY_COMPARE_WITH_TIMEOUT(shown.document.runs().size(), 1U, 60'000);
  QVERIFY(shown.settle());
  QTRY_VERIFY(shown.document.runs().selection().pin() == (Cursor{330, 150}));
  // The answer follows, so that there is a position that predicts it.
  QVERIFY(shown.document.modelRuns().text().content.ends_with(" " + NeedleTemplate::built_in().answer));
  QVERIFY(shown.document.runs().length() > 312 && shown.document.runs().length() < 512);
  const NeedleTemplate words = NeedleTemplate::built_in();
  QVERIFY(shown.document.modelRuns().text().content.find(words.needle) != std::string::npos);
  // The haystack is remembered: another cell opens without it.
  QTest::mouseDClick(grid, Qt::LeftButton, {}, grid->cell(0, 0).center().toPoint());
  QVERIFY(!shown.view.reading().startsWith("To open"));
  QVERIFY(shown.settle());
  // Going back to the haystack brings back how much of it was read.
  QCOMPARE(shown.document.modelRuns().settings().limit, 0);
  shown.document.runs().undoStack().undo();
  QCOMPARE(shown.document.modelRuns().text().content.find(words.needle), std::string::npos);
  QCOMPARE(shown.document.modelRuns().settings().limit, 300);
}

// What a changed model did is not what the unchanged one does.
void EvaluationsTest::aNeedleCellIsOfItsModelsChanges() {
  const Folder folder;
  const std::string weights = *Checkpoint::open(foxModel().toStdString()).weights_sha256({});
  Shown shown({writeNeedle(folder, "fox-pro-12m", weights, R"(["0:*:one","1:2:cut"])"), foxModel(), sampleText()});
  QVERIFY(shown.settle());
  const auto open = [&shown] {
    ValueGrid* grid = shown.grids()[0];
    QTest::mouseDClick(grid, Qt::LeftButton, {}, grid->cell(0, 0).center().toPoint());
  };
  open();
  QCOMPARE(shown.view.reading(),
           "To open this cell, first open fox-pro-12m with its changes, L0, all heads, gate 1; L1 H2, cut: the file "
           "names them, but does not contain them");
  QVERIFY(shown.document.runs().empty());
  RunSettings settings = shown.document.modelRuns().settings();
  settings.limit = 40;
  shown.document.modelRuns().setSettings(settings);
  shown.document.modelRuns().startRun();
  QTRY_COMPARE_WITH_TIMEOUT(shown.document.runs().size(), 1U, 60'000);
  shown.document.modelRuns().startDerivedRun(shown.document.runs()[0].id, {"0:*:one", "1:2:cut"});
  QTRY_COMPARE_WITH_TIMEOUT(shown.document.runs().size(), 2U, 60'000);
  QVERIFY(shown.settle());
  open();
  QTRY_VERIFY_WITH_TIMEOUT(shown.document.runs().selection().pin() == (Cursor{330, 150}), 60'000);
}

void EvaluationsTest::headsAreAGrid() {
  Shown shown({evaluationOf("heads")});
  QVERIFY(shown.settle());
  const HeadsEvaluation file = HeadsEvaluation::open(evaluationOf("heads").toStdString());
  const EvaluatedHeads& model = file.models[0];
  const auto grids = shown.grids();
  QVERIFY(!grids.empty());
  QCOMPARE(grids[0]->content().rows.size(), model.info.layers);
  QCOMPARE(grids[0]->content().columns.size(), model.info.heads);
  QComboBox& statistic = shown.view.heads().statistic();
  QCOMPARE(statistic.currentText(), "decay time");
  QVERIFY(statistic.count() > 3);
  statistic.setCurrentIndex(statistic.findData("gate_median") >= 0 ? statistic.findData("gate_median") : 1);
  QCoreApplication::processEvents();
  const std::string name = statistic.currentData().toString().toStdString();
  const auto values = find_array(model.numbers, name)->value;
  QCOMPARE(shown.grids()[0]->content().values[1], static_cast<float>(values[1]));
}

void EvaluationsTest::figuresAreExported() {
  const Folder folder;
  for (const char* kind : {"loss", "needle", "heads"}) {
    Shown shown({evaluationOf(kind)});
    QVERIFY(shown.settle());
    QSignalSpy messages(&shown.document, &Document::messageRaised);
    const QString path = folder.path(QStringLiteral("%1.svg").arg(kind));
    shown.view.exportTo(path);
    QVERIFY(shown.settle());
    QCOMPARE(messages.size(), 1);
    QCOMPARE(messages[0][0].value<Message>().text, "Saved " + path);
    QFile file(path);
    QVERIFY(file.open(QIODevice::ReadOnly));
    QVERIFY(file.readAll().contains("<svg"));
  }
}

// What the eye in the list of runs hides is neither in the plots nor in what they export.
void EvaluationsTest::hiddenModelsAreLeftOut() {
  const Folder folder;
  for (const char* kind : {"loss", "needle", "heads"}) {
    Shown shown({evaluationOf(kind)});
    QVERIFY(shown.settle());
    const std::size_t curves = shown.view.loss().plot().curves.size();
    const std::size_t grids = shown.grids().size();
    QVERIFY(curves + grids > 1);
    // The one without gates goes: a figure of decay times needs one with gates.
    const QString name = grids > 0 ? shown.grids().back()->content().title.section(':', 0, 0)
                                   : QString::fromStdString(shown.view.loss().plot().curves[0].name);
    const auto exported = [&](const QString& file) {
      shown.view.exportTo(folder.path(file));
      QFile written(folder.path(file));
      return shown.settle() && written.open(QIODevice::ReadOnly) ? written.readAll() : QByteArray();
    };
    const qsizetype before = exported(QStringLiteral("%1-all.svg").arg(kind)).count(name.toUtf8());
    QVERIFY(before > 0);
    shown.document.runs().addModel(foxModel(), name);
    const RunLook seen = shown.document.runs().models()[0].look;
    RunLook look = seen;
    look.hidden = true;
    shown.document.runs().setLook(shown.document.runs().listRows()[0], look);
    QVERIFY(shown.settle());
    QCOMPARE(shown.view.loss().plot().curves.size() + shown.grids().size(), curves + grids - 1);
    for (const ValueGrid* grid : shown.grids()) QVERIFY(!grid->content().title.startsWith(name + ':'));
    const QByteArray left = exported(QStringLiteral("%1.svg").arg(kind));
    QVERIFY(left.contains("<svg"));
    QVERIFY(left.count(name.toUtf8()) < before);
    shown.document.runs().setLook(shown.document.runs().listRows()[0], seen);
    QVERIFY(shown.settle());
    QCOMPARE(shown.view.loss().plot().curves.size() + shown.grids().size(), curves + grids);
  }
}

void EvaluationsTest::allNeedleTestsAreExported() {
  const Folder folder;
  Shown shown({evaluationOf("needle"), writeNeedle(folder)});
  QVERIFY(shown.settle());
  const NeedleEvaluation first = NeedleEvaluation::open(evaluationOf("needle").toStdString());
  const NeedleEvaluation second = NeedleEvaluation::open(folder.path("needle.h5").toStdString());
  QTRY_COMPARE(shown.grids().size(), first.models.size() + second.models.size());
  const auto exported = [&](const QString& name) {
    shown.view.exportTo(folder.path(name));
    QFile file(folder.path(name));
    return shown.settle() && file.open(QIODevice::ReadOnly) ? file.readAll() : QByteArray();
  };
  const QByteArray figure = exported("both.svg");
  QVERIFY(figure.contains(QByteArray::fromStdString(first.haystack)));
  QVERIFY(figure.contains(QByteArray::fromStdString(second.haystack)));
  const QList<QByteArray> lines = exported("both.csv").trimmed().split('\n');
  QCOMPARE(lines.size(),
           1 + static_cast<qsizetype>(first.cells() * first.models.size() + second.cells() * second.models.size()));
  QVERIFY(lines[0].startsWith("model,haystack,length,depth,gain,"));
  const QList<QByteArray> last = lines.back().split(',');
  QCOMPARE(last[0], QByteArray::fromStdString(second.models[0].info.name));
  QCOMPARE(last[2], QByteArray("512"));
  QCOMPARE(last[4].toFloat(), second.models[0].gain()[0]);
}

void EvaluationsTest::aSessionKeepsEvaluations() {
  const Folder folder;
  QVERIFY(QFile::copy(evaluationOf("needle"), folder.path("needle.h5")));
  Document document;
  document.open({folder.path("needle.h5"), evaluationOf("loss")});
  QVERIFY(waitUntilIdle(document));
  document.sessions().save(folder.path("session.json"), {});
  QVERIFY(waitUntilIdle(document));
  Document back;
  back.open({folder.path("session.json")});
  QVERIFY(waitUntilIdle(back));
  QCOMPARE(back.evaluations().size(), 2U);
  QVERIFY(back.evaluations()[0].as<NeedleEvaluation>() != nullptr);
  back.clear();
  QVERIFY(back.evaluations().empty());
}

void EvaluationsTest::aDamagedEvaluationIsOneLine() {
  const Folder folder;
  QFile whole(evaluationOf("loss"));
  QVERIFY(whole.open(QIODevice::ReadOnly));
  const QString path = folder.write("half.h5", whole.read(whole.size() / 2));
  Document document;
  QSignalSpy messages(&document, &Document::messageRaised);
  document.open({path});
  QVERIFY(waitUntilIdle(document));
  QCOMPARE(messages.size(), 1);
  const QString text = messages[0][0].value<Message>().text;
  QVERIFY2(text.contains("half.h5") && !text.contains('\n'), qPrintable(text));
  QVERIFY(document.evaluations().empty());
}

}  // namespace foxscope::gui::test

FOXSCOPE_GUI_SUBJECT(evaluations, foxscope::gui::test::EvaluationsTest)
#include "evaluations_test.moc"
