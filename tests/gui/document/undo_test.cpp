// What the user changes is undone and done again, step by step.
#include <random>

#include <QJsonArray>
#include <QTest>

#include "app/gui/document/evaluation_list.h"
#include "app/gui/document/undo_history.h"
#include "tests/gui/document/document_support.h"
#include "tests/gui/subject.h"

namespace foxscope::gui::test {

using foxscope::test::make_trace;
using foxscope::test::SyntheticRun;

class UndoTest : public QObject {
  Q_OBJECT

 private slots:
  void aPatchTouchesOnlyWhatDiffers();
  void whatOneInputChangesIsOneStep();
  void stepsThatGoOnAreOne();
  void commandsThatTakeThemselvesBackLeaveNoStep();
  void looksAndOrderComeBack();
  void typingIsOneStep();
  void aClosedEvaluationComesBack();
  void fiftyStepsAreKept();
  void aRandomWalkGoesBackAndForth();
};

namespace {

/// A number that views show, and a command that changes another.
struct Numbers {
  int shown = 0;
  int kept = 0;
  UndoHistory history;

  Numbers() {
    history.setViews(
        {[this] {
           return QJsonObject{{"part", QJsonObject{{"shown", shown}, {"tab", 0}}}};
         },
         [this](const QJsonObject& state) { shown = state.value("part").toObject().value("shown").toInt(); },
         [](const QJsonObject&, const QJsonObject& after) {
           return StepName{"show a number", after.value("part").toObject().value("shown").toInt() >= 100};
         }});
  }
  class Change : public QUndoCommand {
   public:
    Change(int& value, int by, int id) : QUndoCommand("keep a number"), m_value(value), m_by(by), m_id(id) {}
    void redo() override { m_value += m_by; }
    void undo() override { m_value -= m_by; }
    [[nodiscard]] int id() const override { return m_id; }
    bool mergeWith(const QUndoCommand* next) override {
      m_by += static_cast<const Change*>(next)->m_by;
      setObsolete(m_by == 0);
      return true;
    }

   private:
    int& m_value;
    int m_by;
    int m_id;
  };
  void keep(int by, int id = -1) { history.push(new Change(kept, by, id)); }
  void show(int number) {
    history.beginInput();
    shown = number;
    history.endInput();
  }
};

/// Everything that can be undone, as a session file would keep it.
QJsonObject snapshot(const Document& document) {
  QJsonObject session = document.sessions().session({}).toJson("/nowhere");
  session.remove("selection");  // that of the views
  return session;
}

void openTwo(Document& document, const Folder& folder) {
  SyntheticRun second;
  second.name = "second";
  second.seed = 2;
  document.open({writeRun(folder, "a.h5", {}), writeRun(folder, "b.h5", second)});
  QVERIFY(waitUntilIdle(document));
  QCOMPARE(document.runs().size(), 2U);
}

}  // namespace

void UndoTest::aPatchTouchesOnlyWhatDiffers() {
  const QJsonObject from{{"a", 1}, {"b", QJsonObject{{"c", 2}, {"gone", 3}}}, {"list", QJsonArray{1, 2}}};
  const QJsonObject to{{"a", 1}, {"b", QJsonObject{{"c", 5}}}, {"list", QJsonArray{1, 7}}};
  const QJsonObject now{{"a", 9}, {"b", QJsonObject{{"c", 2}, {"gone", 3}, {"new", 4}}}, {"list", QJsonArray{8, 2}}};
  QCOMPARE(patched(now, from, to).toObject(),
           (QJsonObject{{"a", 9}, {"b", QJsonObject{{"c", 5}, {"new", 4}}}, {"list", QJsonArray{8, 7}}}));
  // Lists of other lengths have no common places.
  QCOMPARE(patched(QJsonArray{1, 2}, QJsonArray{1, 2}, QJsonArray{3}).toArray(), QJsonArray{3});
  QCOMPARE(patched(now, from, from).toObject(), now);
}

void UndoTest::whatOneInputChangesIsOneStep() {
  Numbers numbers;
  numbers.history.beginInput();
  numbers.keep(3);
  numbers.shown = 5;
  numbers.history.endInput();
  QCOMPARE(numbers.history.count(), 1);
  QCOMPARE(numbers.history.undoText(), "keep a number");
  numbers.history.undo();
  QVERIFY(numbers.kept == 0 && numbers.shown == 0);
  numbers.history.redo();
  QVERIFY(numbers.kept == 3 && numbers.shown == 5);
  // An input that changes nothing is no step, and one that changes a view alone is.
  numbers.show(5);
  QCOMPARE(numbers.history.count(), 1);
  numbers.show(6);
  QCOMPARE(numbers.history.undoText(), "show a number");
  // Undoing ends an input that has begun.
  numbers.history.beginInput();
  numbers.shown = 7;
  numbers.history.undo();
  QCOMPARE(numbers.shown, 6);
  // A new step takes the place of what was undone.
  numbers.keep(1);
  QVERIFY(!numbers.history.canRedo());
  numbers.history.clear();
  QVERIFY(!numbers.history.canUndo());
  QCOMPARE(numbers.history.undoText(), QString());
}

void UndoTest::stepsThatGoOnAreOne() {
  Numbers numbers;
  numbers.show(1);
  for (const int shown : {100, 101, 102}) numbers.show(shown);
  QCOMPARE(numbers.history.count(), 2);
  numbers.history.undo();
  QCOMPARE(numbers.shown, 1);
  numbers.history.redo();
  QCOMPARE(numbers.shown, 102);
}

void UndoTest::commandsThatTakeThemselvesBackLeaveNoStep() {
  Numbers numbers;
  numbers.keep(1, 7);
  numbers.keep(4, 7);
  QCOMPARE(numbers.history.count(), 1);
  numbers.history.undo();
  QCOMPARE(numbers.kept, 0);
  numbers.history.redo();
  QCOMPARE(numbers.kept, 5);
  numbers.keep(-5, 7);
  QCOMPARE(numbers.history.count(), 0);
  QCOMPARE(numbers.kept, 0);
  QVERIFY(!numbers.history.canUndo());
}

void UndoTest::looksAndOrderComeBack() {
  const Folder folder;
  Document document;
  openTwo(document, folder);
  RunList& runs = document.runs();
  UndoHistory& history = runs.undoStack();
  const QJsonObject before = snapshot(document);
  RunLook look = runs[0].look;
  look.label = "Forgetful";
  runs.setLook(runs.listRows()[0], look);
  QCOMPARE(history.undoText(), "rename fox");
  look.colour = 4;
  runs.setLook(runs.listRows()[0], look);
  QCOMPARE(history.undoText(), "recolour Forgetful");
  look.hidden = true;
  runs.setLook(runs.listRows()[0], look);
  QCOMPARE(history.undoText(), "hide Forgetful");
  runs.moveRow(0, 1);
  QCOMPARE(history.undoText(), "move Forgetful");
  QCOMPARE(runs[1].name, "Forgetful");
  runs.sortRuns({runs[1].id}, "sort the runs by loss");
  QCOMPARE(history.undoText(), "sort the runs by loss");
  QCOMPARE(runs[0].name, "Forgetful");
  // The order that there is already is no step.
  runs.sortRuns({runs[0].id, runs[1].id}, "sort the runs by loss");
  QCOMPARE(history.count(), 5);
  const QJsonObject after = snapshot(document);
  while (history.canUndo()) history.undo();
  QCOMPARE(snapshot(document), before);
  while (history.canRedo()) history.redo();
  QCOMPARE(snapshot(document), after);
  QVERIFY(runs[0].look == look);
}

void UndoTest::typingIsOneStep() {
  Document document;
  ModelRuns& models = document.modelRuns();
  models.setText({"/opened.txt", "Opened."});
  for (const char* typed : {"Opened.x", "Opened.xy", "Opened.xyz"}) models.editText(typed);
  QCOMPARE(document.runs().undoStack().undoText(), "type in the text");
  document.runs().undoStack().undo();
  QCOMPARE(models.text().file, "/opened.txt");
  QCOMPARE(models.text().content, "Opened.");
  document.runs().undoStack().redo();
  QCOMPARE(models.text().content, "Opened.xyz");
  // What is taken back by hand leaves the text of its file, and no step.
  models.editText("Opened.");
  QCOMPARE(models.text().file, "/opened.txt");
  QVERIFY(!document.runs().undoStack().canUndo());
  RunSettings settings = models.settings();
  settings.limit = 7;
  models.setSettings(settings);
  QCOMPARE(document.runs().undoStack().undoText(), "read the first 7 tokens");
  settings.keepQueryKey = false;
  models.setSettings(settings);
  QCOMPARE(document.runs().undoStack().undoText(), "change how models run");
  document.runs().undoStack().undo();
  document.runs().undoStack().undo();
  QVERIFY(models.settings() == RunSettings());
  document.runs().undoStack().redo();
  settings.limit = 0;
  models.setSettings(settings);
  QCOMPARE(document.runs().undoStack().undoText(), "read all tokens");
}

void UndoTest::aClosedEvaluationComesBack() {
  UndoHistory history;
  EvaluationList list(history);
  for (const char* path : {"/a/loss.h5", "/a/needle.h5", "/a/heads.h5"}) {
    list.take({QString::fromLatin1(path), std::shared_ptr<const NeedleEvaluation>()});
  }
  list.close("/a/needle.h5");
  QCOMPARE(list.size(), 2U);
  QCOMPARE(history.undoText(), "close needle.h5");
  history.undo();
  QCOMPARE(list.size(), 3U);
  QCOMPARE(list[1].path, "/a/needle.h5");
  history.redo();
  QCOMPARE(list[1].path, "/a/heads.h5");
  // Opened again meanwhile, it does not stand there twice.
  list.take({"/a/needle.h5", std::shared_ptr<const NeedleEvaluation>()});
  history.undo();
  QCOMPARE(list.size(), 3U);
  // Closing what is not open is no step.
  list.close("/a/nowhere.h5");
  QVERIFY(!history.canUndo());
}

void UndoTest::fiftyStepsAreKept() {
  Numbers numbers;
  for (int step = 0; step < 3 * UndoHistory::kMostSteps; ++step) numbers.keep(1);
  QVERIFY(numbers.history.count() >= 50);
  QCOMPARE(numbers.history.count(), UndoHistory::kMostSteps);
  while (numbers.history.canUndo()) numbers.history.undo();
  QCOMPARE(numbers.kept, 2 * UndoHistory::kMostSteps);
  // Runs that were removed hold memory.
  numbers.history.clear();
  for (int step = 0; step < UndoHistory::kMostHeavySteps + 5; ++step)
    numbers.history.push(new Numbers::Change(numbers.kept, 1, -1), UndoHistory::Weight::heavy);
  QCOMPARE(numbers.history.count(), UndoHistory::kMostHeavySteps);
}

// Sixty random changes of the document, each compared on the way back and on the way forth.
void UndoTest::aRandomWalkGoesBackAndForth() {
  const Folder folder;
  Document document;
  openTwo(document, folder);
  RunList& runs = document.runs();
  std::mt19937 random(5);
  const auto any = [&](int below) { return static_cast<int>(random() % static_cast<unsigned>(below)); };
  std::vector<QJsonObject> states{snapshot(document)};
  while (states.size() <= 60) {
    const std::vector<ListRow> rows = runs.listRows();
    const ListRow row = rows.empty() ? ListRow() : rows[static_cast<std::size_t>(any(static_cast<int>(rows.size())))];
    RunLook look = rows.empty() ? RunLook() : runs.lookOf(row);
    const int count = runs.undoStack().count();
    switch (any(7)) {
      case 0:
        look.label = QStringLiteral("name %1").arg(any(100));
        if (!rows.empty()) runs.setLook(row, look);
        break;
      case 1:
        look.colour = any(6);
        if (!rows.empty()) runs.setLook(row, look);
        break;
      case 2:
        look.hidden = !look.hidden;
        if (!rows.empty()) runs.setLook(row, look);
        break;
      case 3:
        runs.moveRow(0, 1);
        break;
      case 4:
        document.modelRuns().setText({{}, QStringLiteral("text %1").arg(any(1000)).toStdString()});
        break;
      case 5: {
        RunSettings settings = document.modelRuns().settings();
        settings.limit = any(1000);
        document.modelRuns().setSettings(settings);
        break;
      }
      default:
        // One run stays, so that there is something to change.
        if (rows.size() > 1 && any(3) == 0) runs.removeRow(row);
        break;
    }
    if (runs.undoStack().count() > count) states.push_back(snapshot(document));
  }
  QCOMPARE(runs.undoStack().count(), 60);
  for (std::size_t step = states.size() - 1; step > 0; --step) {
    runs.undoStack().undo();
    QCOMPARE(snapshot(document), states[step - 1]);
  }
  for (std::size_t step = 1; step < states.size(); ++step) {
    runs.undoStack().redo();
    QCOMPARE(snapshot(document), states[step]);
  }
}

}  // namespace foxscope::gui::test

FOXSCOPE_GUILESS_SUBJECT(undo, foxscope::gui::test::UndoTest)
#include "undo_test.moc"
