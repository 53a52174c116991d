// What a window keeps while it is open, and how the next one goes on with it.
#include "app/gui/document/autosave.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>

#include <QDir>
#include <QRegularExpression>
#include <QSignalSpy>
#include <QTest>

#include "tests/gui/document/document_support.h"
#include "tests/gui/subject.h"

namespace foxscope::gui::test {

using foxscope::test::make_trace;
using foxscope::test::SyntheticRun;

class AutosaveTest : public QObject {
  Q_OBJECT

 private slots:
  void workComesBackWithoutComputing();
  void aRunThatComesBackIsKeptAgain();
  void aSavedSessionNeedsNothingThatIsKept();
  void aSessionWithRunsStaysOneAfterACrash();
  void aRunIsKeptWhileMoreGoesOn();
  void modelsThatHadNotRunAreNamed();
  void windowsKeepTheirOwn();
  void aClosedWindowLeavesNothing();
  void whatIsTooLargeIsNamed();
  void aDamagedSessionIsToldOfOnce();
  void anEmptySessionIsNoText();
  void oldWorkGoes();
  void aFolderThatCannotBeWrittenIsToldOfOnce();
};

namespace {

/// A window's document, and what it keeps.
struct Kept {
  Document document;
  Autosave autosave{document.runs(), document.modelRuns(), document.sessions()};
  QSignalSpy messages{&autosave, &Autosave::messageRaised};
  std::vector<LeftWork> left;

  explicit Kept(const Folder& folder) {
    autosave.setFolder(folder.path("windows"));
    autosave.setViews(
        [] {
          return QJsonObject{{"maps", QJsonObject{{"pane_count", 4}}}};
        },
        [] {
          QImage picture(4, 3, QImage::Format_RGB32);
          picture.fill(Qt::red);
          return picture;
        });
    QObject::connect(&autosave, &Autosave::found, &autosave, [this](const auto& works) { left = works; });
    QObject::connect(&document.sessions(), &SessionStore::leftOpened, &autosave, &Autosave::goOn);
  }
  bool settle() {
    return waitUntilIdle(document) && QTest::qWaitFor([this] { return !autosave.busy(); }, 60'000);
  }
  /// Two runs that models made of a text, the second of them shown.
  bool make(const std::string& text = "A story.") {
    document.modelRuns().setText({"/texts/story.txt", text});
    for (const char* name : {"fox", "other"}) {
      SyntheticRun wanted;
      wanted.name = name;
      wanted.seed = name[0];
      document.runs().addModel(QStringLiteral("/models/%1").arg(name), name);
      Run run{kNoRun, name, make_trace(wanted), QStringLiteral("/models/%1").arg(name)};
      run.textFile = "/texts/story.txt";
      run.textName = "moby.txt, tokens 1 to 9";
      run.forwardSeconds = 2.5;
      document.runs().addMade(run);
    }
    document.runs().selection().setHead({document.runs()[1].id, 1, 3});
    document.runs().selection().setPin({30, 12});
    autosave.write();
    return settle();
  }
  bool look() {
    autosave.look();
    return settle();
  }
};

bool sameNumbers(const Run& a, const Run& b) {
  const auto equal = [](const auto& left, const auto& right) { return std::ranges::equal(left, right); };
  return equal(a.trace->per_token_loss(), b.trace->per_token_loss()) &&
         equal(a.trace->cumulative_log_gate(1, 2), b.trace->cumulative_log_gate(1, 2)) &&
         b.trace->query_key() != nullptr;
}

}  // namespace

void AutosaveTest::workComesBackWithoutComputing() {
  const Folder folder;
  std::vector<Run> before;
  {
    Kept kept(folder);
    QVERIFY(kept.make());
    before.assign(kept.document.runs().begin(), kept.document.runs().end());
    QVERIFY(!before[0].kept.isEmpty());
  }
  Kept next(folder);
  QVERIFY(next.look());
  QCOMPARE(next.left.size(), 1U);
  const LeftWork& work = next.left[0];
  QVERIFY2(work.title.startsWith("2 runs on story.txt, "), qPrintable(work.title));
  QVERIFY(work.left.isEmpty() && work.lost.isEmpty() && work.waiting.isEmpty());
  QCOMPARE(work.picture.size(), QSize(4, 3));
  QSignalSpy views(&next.document.sessions(), &SessionStore::sessionOpened);
  QSignalSpy recent(&next.document, &Document::pathOpened);
  QSignalSpy status(&next.document.modelRuns(), &ModelRuns::runStatusChanged);
  QVERIFY(next.autosave.takeOver(work.session));
  next.document.open({work.session});
  QVERIFY(next.settle());
  const RunList& runs = next.document.runs();
  QCOMPARE(runs.size(), 2U);
  for (std::size_t n = 0; n < 2; ++n) {
    QCOMPARE(runs[n].name, before[n].name);
    QCOMPARE(runs[n].model, before[n].model);
    QCOMPARE(runs[n].textFile, before[n].textFile);
    QCOMPARE(runs[n].textName, before[n].textName);
    QCOMPARE(runs[n].forwardSeconds, 2.5);
    QVERIFY(runs[n].look == before[n].look);
    QVERIFY(runs[n].file.isEmpty());
    QVERIFY(sameNumbers(before[n], runs[n]));
  }
  QCOMPARE(runs.run(runs.selection().head().run)->name, "other");
  QVERIFY(runs.selection().head().layer == 1 && runs.selection().head().head == 3);
  QVERIFY(runs.selection().pin() == (Cursor{30, 12}));
  QCOMPARE(views[0][0].toJsonObject().value("maps").toObject().value("pane_count").toInt(), 4);
  // No model ran, and nothing of it was opened as the user's own file is.
  QVERIFY(status.isEmpty());
  QVERIFY(recent.isEmpty());
  QCOMPARE(next.document.sessions().file(), QString());
  QCOMPARE(next.document.sessions().unsaved().runs, (QStringList{"fox", "other"}));
  QCOMPARE(next.document.sessions().unsaved().parts[0], "the run fox, 2.5 s to compute");
  // It is not offered any more.
  QVERIFY(next.left.empty());
}

// The folder is the next window's: it writes there, and a run that was taken out and comes back is written anew.
void AutosaveTest::aRunThatComesBackIsKeptAgain() {
  const Folder folder;
  {
    Kept kept(folder);
    QVERIFY(kept.make());
  }
  {
    Kept next(folder);
    QVERIFY(next.look());
    QVERIFY(next.autosave.takeOver(next.left.at(0).session));
    next.document.open({next.left[0].session});
    QVERIFY(next.settle());
    const QString file = next.document.runs()[0].kept;
    QVERIFY(QFileInfo::exists(file));
    next.document.runs().removeRun(next.document.runs()[0].id);
    next.autosave.write();
    QVERIFY(next.settle());
    QVERIFY(!QFileInfo::exists(file));
    next.document.runs().undoStack().undo();
    next.autosave.write();
    QVERIFY(next.settle());
    QVERIFY(QFileInfo::exists(next.document.runs()[0].kept));
  }
  Kept last(folder);
  QVERIFY(last.look());
  QCOMPARE(last.left.size(), 1U);
  last.document.open({last.left[0].session});
  QVERIFY(last.settle());
  QCOMPARE(last.document.runs().size(), 2U);
}

// What a window keeps goes with it: a session that the user saves does not speak of it.
void AutosaveTest::aSavedSessionNeedsNothingThatIsKept() {
  const Folder folder;
  Kept kept(folder);
  QVERIFY(kept.make());
  QVERIFY(!kept.document.runs()[0].kept.isEmpty());
  kept.document.sessions().save(folder.path("session.json"), {});
  QVERIFY(kept.settle());
  QFile session(folder.path("session.json"));
  QVERIFY(session.open(QIODevice::ReadOnly));
  const QByteArray content = session.readAll();
  QVERIFY(content.contains("\"fox\"") && !content.contains("\"kept\""));
}

void AutosaveTest::aSessionWithRunsStaysOneAfterACrash() {
  const Folder folder;
  {
    Kept kept(folder);
    QVERIFY(kept.make());
    kept.document.sessions().saveWithRuns(kept.document.files(), folder.path("with.json"), {});
    QVERIFY(kept.settle());
    kept.autosave.write();
    QVERIFY(kept.settle());
  }
  Kept next(folder);
  QVERIFY(next.look());
  next.document.open({next.left.at(0).session});
  QVERIFY(next.settle());
  QCOMPARE(next.document.sessions().file(), folder.path("with.json"));
  QVERIFY(next.document.sessions().carriesRuns());
}

// Neither a map that takes its time nor the runs that follow keep a run from being written.
void AutosaveTest::aRunIsKeptWhileMoreGoesOn() {
  const Folder folder;
  Kept kept(folder);
  JobRunner::Request<bool> endless;
  endless.work = [](const Job& job) -> std::optional<bool> {
    std::mutex mutex;
    std::condition_variable_any never;
    std::unique_lock lock(mutex);
    never.wait(lock, job.stop, [] { return false; });
    return true;
  };
  kept.document.runs().jobs().submit(&kept.document, -1, std::move(endless));
  kept.document.runs().addMade({kNoRun, "fox", make_trace({}), "/models/fox"});
  QTRY_VERIFY_WITH_TIMEOUT(!kept.document.runs()[0].kept.isEmpty(), 60'000);
  QVERIFY(kept.document.runs().jobs().busy());
  QVERIFY(QFileInfo::exists(kept.document.runs()[0].kept));
  kept.document.runs().jobs().cancel(&kept.document, -1);
}

void AutosaveTest::modelsThatHadNotRunAreNamed() {
  const Folder folder;
  {
    Kept kept(folder);
    kept.document.open({foxModel(), transformerModel()});
    QVERIFY(kept.settle());
    kept.document.modelRuns().setText({{}, "A story."});
    kept.document.modelRuns().startRun();
    QCOMPARE(kept.document.modelRuns().waiting(), (QStringList{"fox-pro-12m", "transformer-pro-12m"}));
    QSignalSpy written(&kept.autosave, &Autosave::written);
    kept.autosave.write();
    QTRY_VERIFY_WITH_TIMEOUT(!written.isEmpty(), 60'000);
  }
  Kept next(folder);
  QVERIFY(next.look());
  QCOMPARE(next.left.at(0).waiting, (QStringList{"fox-pro-12m", "transformer-pro-12m"}));
  QVERIFY(next.left[0].left.isEmpty());
}

void AutosaveTest::windowsKeepTheirOwn() {
  const Folder folder;
  Kept one(folder);
  Kept two(folder);
  QVERIFY(one.make() && two.make());
  QCOMPARE(QDir(folder.path("windows")).entryList(QDir::Dirs | QDir::NoDotAndDotDot).size(), 2);
  // What a living window keeps is not offered.
  QVERIFY(two.look());
  QVERIFY(two.left.empty());
  // Nor can two go on with the same.
  { QVERIFY(Kept(folder).make()); }
  QVERIFY(one.look() && two.look());
  QCOMPARE(one.left.size(), 1U);
  QVERIFY(one.autosave.takeOver(one.left[0].session));
  QVERIFY(!two.autosave.takeOver(one.left[0].session));
  QCOMPARE(textsOf(two.messages), QStringList{"Another window goes on with this already"});
  // Nor does one discard what the other has.
  const QString taken = one.left[0].session;
  two.autosave.discard(taken);
  QVERIFY(two.settle());
  QCOMPARE(two.messages.size(), 2);
  QVERIFY(QFileInfo::exists(taken));
}

void AutosaveTest::aClosedWindowLeavesNothing() {
  const Folder folder;
  {
    Kept kept(folder);
    QVERIFY(kept.make());
    kept.autosave.finish();
  }
  Kept next(folder);
  QVERIFY(next.look());
  QVERIFY(next.left.empty());
  QVERIFY(QDir(folder.path("windows")).entryList(QDir::Dirs | QDir::NoDotAndDotDot).isEmpty());
  // Nor does what was discarded.
  { QVERIFY(Kept(folder).make()); }
  QVERIFY(next.look());
  next.autosave.discard(next.left.at(0).session);
  QVERIFY(next.settle());
  QVERIFY(next.left.empty());
}

void AutosaveTest::whatIsTooLargeIsNamed() {
  const Folder folder;
  {
    Kept kept(folder);
    kept.autosave.setMostBytes(1);
    QVERIFY(kept.make(make_trace({})->text()->content));
    QVERIFY(kept.document.runs()[0].kept.isEmpty());
    // It is told when it happens, once.
    kept.document.runs().selection().setPin({20, 10});
    kept.autosave.write();
    QVERIFY(kept.settle());
    QCOMPARE(textsOf(kept.messages), QStringList{"Too large to be kept for the case of a crash: fox, other: save the "
                                                 "session with runs (Ctrl+Shift+S)"});
  }
  Kept next(folder);
  QVERIFY(next.look());
  QCOMPARE(next.left.at(0).left, (QStringList{"fox", "other"}));
  QVERIFY(next.left[0].lost.isEmpty());
  next.document.open({next.left[0].session});
  QVERIFY(next.settle());
  // Its models wait for F5.
  QVERIFY(next.document.runs().empty());
  QCOMPARE(next.document.runs().models().size(), 0U);  // /models/fox is not there
  QVERIFY(!next.document.modelRuns().runStatus().running);
  // A run on another text than the one that F5 reads is lost.
  const Folder other;
  {
    Kept kept(other);
    kept.autosave.setMostBytes(1);
    QVERIFY(kept.make());
  }
  Kept last(other);
  QVERIFY(last.look());
  QCOMPARE(last.left.at(0).lost, (QStringList{"fox", "other"}));
  QVERIFY(last.left[0].left.isEmpty());
}

void AutosaveTest::aDamagedSessionIsToldOfOnce() {
  const Folder folder;
  { QVERIFY(Kept(folder).make()); }
  Kept next(folder);
  QVERIFY(next.look());
  QFile session(next.left.at(0).session);
  QVERIFY(session.open(QIODevice::WriteOnly) && session.write("{\"foxscope_session\": 1, \"mod") > 0);
  session.close();
  QVERIFY(next.look());
  QVERIFY(next.left.empty());
  QCOMPARE(next.messages.size(), 1);
  const QString message = textsOf(next.messages)[0];
  const QRegularExpression sentence(
      "^What a window kept at \\d\\d:\\d\\d cannot be opened: damaged session: .*: its runs can \\(Ctrl\\+Alt\\+O\\): "
      "fox\\.h5, other\\.h5 in (.*)$");
  const QRegularExpressionMatch match = sentence.match(message);
  QVERIFY2(match.hasMatch(), qPrintable(message));
  QVERIFY2(!message.contains("session.json"), qPrintable(message));
  QVERIFY(!message.contains('\n'));
  QVERIFY(next.look());
  QCOMPARE(next.messages.size(), 1);
  next.document.open({match.captured(1) + "/fox.h5", match.captured(1) + "/other.h5"});
  QVERIFY(next.settle());
  QCOMPARE(next.document.runs().size(), 2U);
}

void AutosaveTest::anEmptySessionIsNoText() {
  const Folder folder;
  { QVERIFY(Kept(folder).make()); }
  Kept next(folder);
  QVERIFY(next.look());
  const QString path = next.left.at(0).session;
  for (const QString& run : QDir(QFileInfo(path).path()).entryList({"*.h5"})) {
    QVERIFY(QFile::resize(QFileInfo(path).path() + '/' + run, 10));
  }
  QVERIFY(QFile::resize(path, 0));
  QVERIFY(next.look());
  QCOMPARE(next.messages.size(), 1);
  const QString message = textsOf(next.messages)[0];
  QVERIFY2(message.contains("cannot be opened: the session is empty: it is "), qPrintable(message));
  QVERIFY2(message.endsWith("/damaged.json now") && !message.contains("text"), qPrintable(message));
}

void AutosaveTest::oldWorkGoes() {
  const Folder folder;
  for (int n = 0; n < Autosave::kMostLeft + 2; ++n) QVERIFY(Kept(folder).make());
  Kept next(folder);
  QVERIFY(next.look());
  QCOMPARE(next.left.size(), static_cast<std::size_t>(Autosave::kMostLeft));
  QCOMPARE(QDir(folder.path("windows")).entryList(QDir::Dirs | QDir::NoDotAndDotDot).size(), Autosave::kMostLeft);
  QVERIFY(std::ranges::is_sorted(next.left, std::greater(), &LeftWork::modified));
}

void AutosaveTest::aFolderThatCannotBeWrittenIsToldOfOnce() {
  const Folder folder;
  Kept kept(folder);
  kept.autosave.setFolder(folder.write("file", "no folder") + "/windows");
  QVERIFY(kept.make());
  kept.autosave.write();
  QCOMPARE(kept.messages.size(), 1);
  const QString message = textsOf(kept.messages)[0];
  QVERIFY2(message.startsWith("What is open is not kept for the case of a crash: "), qPrintable(message));
}

}  // namespace foxscope::gui::test

FOXSCOPE_GUILESS_SUBJECT(autosave, foxscope::gui::test::AutosaveTest)
#include "autosave_test.moc"
