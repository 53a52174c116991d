// What a window keeps while it is open, and how the next one goes on with it.
#include "app/gui/document/autosave.h"

#include <algorithm>

#include <QDir>
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
  void windowsKeepTheirOwn();
  void aClosedWindowLeavesNothing();
  void whatIsTooLargeIsNamed();
  void aDamagedSessionIsToldOfOnce();
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
  bool make() {
    document.modelRuns().setText({"/texts/story.txt", "A story."});
    for (const char* name : {"fox", "other"}) {
      SyntheticRun wanted;
      wanted.name = name;
      wanted.seed = name[0];
      document.runs().addModel(QStringLiteral("/models/%1").arg(name), name);
      Run run{kNoRun, name, make_trace(wanted), QStringLiteral("/models/%1").arg(name)};
      run.textFile = "/texts/story.txt";
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
  QVERIFY(work.left.isEmpty());
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
    QVERIFY(kept.make());
    QVERIFY(kept.document.runs()[0].kept.isEmpty());
  }
  Kept next(folder);
  QVERIFY(next.look());
  QCOMPARE(next.left.at(0).left, (QStringList{"fox", "other"}));
  next.document.open({next.left[0].session});
  QVERIFY(next.settle());
  // Its models wait for F5.
  QVERIFY(next.document.runs().empty());
  QCOMPARE(next.document.runs().models().size(), 0U);  // /models/fox is not there
  QVERIFY(!next.document.modelRuns().runStatus().running);
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
  QVERIFY2(message.startsWith("What a window kept at ") && message.contains("damaged session"), qPrintable(message));
  QVERIFY(!message.contains('\n'));
  QVERIFY(next.look());
  QCOMPARE(next.messages.size(), 1);
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
