// What the runs expected at the pinned position: against the backend's own predictions, of runs in memory and of files,
// with a gate and without.
#include "backend/eval/predictions/predictions.h"

#include <cmath>

#include <QRegularExpression>
#include <QSignalSpy>
#include <QTest>

#include "app/figure/token_text.h"
#include "app/gui/predictions/predictions_view.h"
#include "backend/base/index.h"
#include "backend/file/run_file.h"
#include "backend/model/session/run.h"
#include "tests/gui/subject.h"
#include "tests/gui/support.h"

namespace foxscope::gui::test {

class PredictionsTest : public QObject {
  Q_OBJECT

 private slots:
  void eachRunTellsWhatItExpected();
  void thePinIsFollowed();
  void aHiddenRunLeaves();
  void theGatesPartStandsBeside();
  void aFileNeedsItsModel();
  void filesWithoutPredictionsSayWhatToDo();
  void withoutAPinOrARunItSaysWhatToDo();
};

namespace {

constexpr int kPatience = 120'000;
constexpr std::int64_t kTokens = 300;

struct Expecting {
  Document document;
  PredictionsView view{document.runs(), document.modelRuns()};

  Expecting() {
    view.resize(900, 320);
    view.show();
  }
  bool settled() {
    return QTest::qWaitFor([this] { return view.isSettled() && !document.busy(); }, kPatience);
  }
  bool runBoth() { return runDemo(document, kTokens) && settled(); }
  bool pin(std::int64_t query) {
    document.runs().selection().pinQuery(query);
    return settled();
  }
  [[nodiscard]] QString text(int list, int row, PredictionTable::Column column) const {
    return view.table(list).item(row, column)->text();
  }
  [[nodiscard]] double p(int list, int row, PredictionTable::Column column = PredictionTable::kShare) const {
    return view.table(list).item(row, column)->data(Qt::UserRole).toDouble();
  }
};

OutputHead headOf(const QString& model) {
  ModelRequest request;
  request.model = model.toStdString();
  request.device = DeviceChoice::parse("cpu");
  return {Engine().open(request), DType::float32};
}

void compareList(const Expecting& shown, int list, const Run& run, const OutputHead& head, std::int64_t position) {
  const auto wanted = predict(*run.trace, &head, position, 10, {});
  QVERIFY(wanted);
  const std::int32_t came = run.trace->tokens()->id[index_of(position)];
  QVERIFY(shown.view.table(list).rowCount() >= 10);
  bool seen = false;
  for (int row = 0; row < shown.view.table(list).rowCount(); ++row) {
    const bool last = row >= 10;  // what came, where it is none of the ten
    const std::int32_t id = last ? came : wanted->scored.top[index_of(row)].id;
    QCOMPARE(shown.text(list, row, PredictionTable::kToken),
             figure::tokenText(head.token_string(id), figure::Whitespace::visible));
    QCOMPARE(shown.p(list, row), std::exp(static_cast<double>(wanted->log_probability[index_of(id)])));
    QCOMPARE(shown.text(list, row, PredictionTable::kRank),
             last ? QLocale(QLocale::English).toString(static_cast<qlonglong>(wanted->scored.rank))
                  : QString::number(row + 1));
    QCOMPARE(shown.view.table(list).item(row, PredictionTable::kToken)->font().bold(), id == came);
    seen = seen || id == came;
  }
  QVERIFY(seen);
  static const QRegularExpression nats(QStringLiteral(", ([\\d.]+) nats;"));
  const double loss = nats.match(shown.view.summary(list)).captured(1).toDouble();
  QVERIFY2(std::abs(loss + wanted->scored.log_probability) <= 0.0051, qPrintable(shown.view.summary(list)));
}

}  // namespace

void PredictionsTest::eachRunTellsWhatItExpected() {
  Expecting shown;
  QSignalSpy available(&shown.view, &PredictionsView::available);
  QVERIFY(shown.runBoth());
  QCOMPARE(available.size(), 1);
  QVERIFY(shown.pin(150));
  QCOMPARE(shown.view.message(), QString());
  QCOMPARE(shown.view.lists(), 2);
  QCOMPARE(shown.view.title(0), QStringLiteral("fox-pro-12m"));
  QCOMPARE(shown.view.title(1), QStringLiteral("transformer-pro-12m"));
  compareList(shown, 0, shown.document.runs()[0], headOf(foxModel()), 150);
  compareList(shown, 1, shown.document.runs()[1], headOf(transformerModel()), 150);
  QVERIFY(shown.view.table(0).isColumnHidden(PredictionTable::kUnchanged));
  const QString came =
      figure::predictedText(*shown.document.runs()[0].trace->tokens(), 150, figure::Whitespace::visible);
  QVERIFY2(shown.view.caption().startsWith("Position 150, after “…") && shown.view.caption().contains(came),
           qPrintable(shown.view.caption()));
}

void PredictionsTest::thePinIsFollowed() {
  Expecting shown;
  QVERIFY(shown.runBoth());
  QVERIFY(shown.pin(150));
  const QString before = shown.view.summary(0);
  QVERIFY(shown.pin(kTokens - 1));
  QVERIFY(shown.view.summary(0) != before);
  compareList(shown, 0, shown.document.runs()[0], headOf(foxModel()), kTokens - 1);
}

void PredictionsTest::aHiddenRunLeaves() {
  Expecting shown;
  QVERIFY(shown.runBoth());
  QVERIFY(shown.pin(20));
  const ListRow row = shown.document.runs().listRows().front();
  RunLook look = shown.document.runs().lookOf(row);
  look.hidden = true;
  shown.document.runs().setLook(row, look);
  QVERIFY(shown.settled());
  QCOMPARE(shown.view.lists(), 1);
  QCOMPARE(shown.view.title(0), QStringLiteral("transformer-pro-12m"));
}

void PredictionsTest::theGatesPartStandsBeside() {
  Expecting shown;
  QVERIFY(shown.runBoth());
  const RunId fox = shown.document.runs()[0].id;
  shown.document.runs().selection().setHead({fox, 7, 2});
  QVERIFY(shown.pin(150));
  QVERIFY(shown.view.gate().isEnabled());
  QCOMPARE(shown.view.gate().text(), QStringLiteral("Without the gate of L7 H2"));
  QTest::mouseClick(&shown.view.gate(), Qt::LeftButton);
  QVERIFY(QTest::qWaitFor([&] { return shown.document.runs().size() == 3; }, kPatience));
  QVERIFY(QTest::qWaitFor([&] { return !shown.document.modelRuns().runStatus().running; }, kPatience));
  QVERIFY(shown.settled());
  QVERIFY(shown.view.takeAwaited());
  QVERIFY(!shown.view.takeAwaited());
  QVERIFY(!shown.view.gate().isEnabled());
  QCOMPARE(shown.view.lists(), 3);
  // Beside the run that it is a changed copy of.
  int list = 0;
  while (list < 3 && shown.view.table(list).isColumnHidden(PredictionTable::kUnchanged)) ++list;
  QVERIFY(list < 3);
  PredictionTable& table = shown.view.table(list);
  QCOMPARE(table.horizontalHeaderItem(PredictionTable::kUnchanged)->text(), QStringLiteral("p with the gate"));
  QCOMPARE(table.horizontalHeaderItem(PredictionTable::kShare)->text(), QStringLiteral("p without the gate"));
  const Run* with = shown.document.runs().run(fox);
  const Run* without = nullptr;
  for (const Run& run : shown.document.runs()) {
    if (shown.document.runs().baseOf(run) == with) without = &run;
  }
  QVERIFY(without != nullptr);
  const OutputHead head = headOf(foxModel());
  const auto kept = predict(*with->trace, &head, 150, 10, {});
  const auto gone = predict(*without->trace, &head, 150, 10, {});
  QVERIFY(kept && gone);
  bool differs = false;
  double larger = 2;
  for (int row = 0; row < 10; ++row) {
    const QString token = table.item(row, PredictionTable::kToken)->text();
    std::size_t id = 0;
    while (figure::tokenText(head.token_string(static_cast<std::int32_t>(id)), figure::Whitespace::visible) != token)
      ++id;
    QCOMPARE(shown.p(list, row), std::exp(static_cast<double>(gone->log_probability[id])));
    QCOMPARE(shown.p(list, row, PredictionTable::kUnchanged), std::exp(static_cast<double>(kept->log_probability[id])));
    differs = differs || shown.p(list, row) != shown.p(list, row, PredictionTable::kUnchanged);
    const double most = std::max(shown.p(list, row), shown.p(list, row, PredictionTable::kUnchanged));
    QVERIFY(most <= larger);
    larger = most;
  }
  QVERIFY(differs);
  // A Transformer has no gate to take away.
  shown.document.runs().selection().setHead({shown.document.runs().back().id, 0, 0});
  for (const Run& run : shown.document.runs()) {
    if (run.plainName() == "transformer-pro-12m") shown.document.runs().selection().setHead({run.id, 0, 0});
  }
  QVERIFY(!shown.view.gate().isEnabled());
  QCOMPARE(shown.view.gate().toolTip(), QStringLiteral("transformer-pro-12m has no forget gate"));
}

void PredictionsTest::aFileNeedsItsModel() {
  Folder folder;
  {
    Document made;
    QVERIFY(runDemo(made, kTokens));
    std::vector<std::shared_ptr<const Trace>> traces = {made.runs()[0].trace};
    QVERIFY(write_run_file(folder.path("run.h5").toStdString(), traces, {"command", ""}, Overwrite::refuse, {}));
  }
  Expecting shown;
  shown.document.open({folder.path("run.h5")});
  QVERIFY(waitUntilIdle(shown.document));
  QVERIFY(shown.pin(150));
  QCOMPARE(shown.view.lists(), 1);
  const auto problem = [&] {
    for (const QLabel* label : shown.view.findChildren<QLabel*>()) {
      if (label->isVisible() && label->text().contains("comes from a file")) return label->text();
    }
    return QString();
  };
  QCOMPARE(problem(), QStringLiteral("fox-pro-12m comes from a file, and predictions need the head of its model: open "
                                     "its checkpoint folder (Ctrl+O)."));
  // Another model is not its model.
  shown.document.open({transformerModel()});
  QVERIFY(waitUntilIdle(shown.document));
  QVERIFY(shown.settled());
  QVERIFY(!problem().isEmpty());
  shown.document.open({foxModel()});
  QVERIFY(waitUntilIdle(shown.document));
  QVERIFY(shown.settled());
  QVERIFY(problem().isEmpty());
  compareList(shown, 0, shown.document.runs()[0], headOf(foxModel()), 150);
}

void PredictionsTest::filesWithoutPredictionsSayWhatToDo() {
  Folder folder;
  {
    ModelRequest wanted;
    wanted.name = "fox";
    wanted.model = foxModel().toStdString();
    wanted.device = DeviceChoice::parse("cpu");
    RunRequest request;
    request.input.ids = {5, 6, 7, 8};
    request.keep = {Keep::loss, Keep::gates};
    const auto run = run_model(plan_run(Engine().open(wanted), request), {});
    QVERIFY(run);
    QVERIFY(
        write_run_file(folder.path("run.h5").toStdString(), {&run->trace, 1}, {"command", ""}, Overwrite::refuse, {}));
  }
  Expecting shown;
  shown.document.open({folder.path("run.h5")});
  QVERIFY(waitUntilIdle(shown.document));
  QVERIFY(shown.pin(2));
  bool said = false;
  for (const QLabel* label : shown.view.findChildren<QLabel*>()) {
    said = said || (label->isVisible() && label->text() ==
                                              "The file of fox holds no predictions: write it with foxscope run --keep "
                                              "predictions, or open the model (Ctrl+O) and run it on this text (F5).");
  }
  QVERIFY(said);
}

void PredictionsTest::withoutAPinOrARunItSaysWhatToDo() {
  Expecting shown;
  QVERIFY(shown.view.message().startsWith("No model yet"));
  QVERIFY(shown.runBoth());
  QVERIFY2(shown.view.message().startsWith("Pin a position, by a click"), qPrintable(shown.view.message()));
  QVERIFY(shown.pin(3));
  QCOMPARE(shown.view.message(), QString());
}

}  // namespace foxscope::gui::test

FOXSCOPE_GUI_SUBJECT(predictions, foxscope::gui::test::PredictionsTest)
#include "predictions_test.moc"
