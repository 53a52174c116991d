#include "app/gui/document/session.h"

#include <QFile>
#include <QJsonArray>
#include <QJsonDocument>
#include <QTest>

#include "app/gui/document/opened_path.h"
#include "backend/base/error.h"
#include "tests/gui/subject.h"
#include "tests/gui/support.h"

namespace foxscope::gui::test {

class SessionTest : public QObject {
  Q_OBJECT

 private slots:
  void comesBackAsItWas();
  void pathsBelowItsFolderMoveWithIt();
  void readsWhatIsThereAndLeavesTheRest();
  void refusesWhatItCannotRead_data();
  void refusesWhatItCannotRead();
};

namespace {

QJsonObject readJson(const QString& path) {
  QFile file(path);
  return file.open(QIODevice::ReadOnly) ? QJsonDocument::fromJson(file.readAll()).object() : QJsonObject();
}

QString messageOf(const QString& path) {
  try {
    openPath(path);
  } catch (const Error& error) {
    return QString::fromUtf8(error.what());
  }
  return {};
}

}  // namespace

void SessionTest::comesBackAsItWas() {
  const Folder folder;
  Session session;
  session.models = {{"fox", "/models/fox"}, {"hub", "owner/name"}};
  session.text = {{}, "typed täxt\n"};
  session.settings.limit = 512;
  session.settings.device = {DeviceChoice::Kind::cpu, {}};
  session.settings.dtype = DType::bfloat16;
  session.settings.keepQueryKey = false;
  session.runFiles = {"/runs/a.h5"};
  session.selection = SelectionState{"fox", 3, 1, {100, 20}, {{10, 200}, {0, 150}, {5, 90}}}.toJson();
  session.window = {{"maps", QJsonObject{{"panes", 2}}}};
  const QString path = folder.path("session.json");
  session.write(path);

  const Session back = Session::fromJson(std::get<OpenedSession>(openPath(path)).session, folder.path(""));
  QVERIFY(back.models == session.models);
  QVERIFY(back.text == session.text);
  QVERIFY(back.settings == session.settings);
  QCOMPARE(back.runFiles, session.runFiles);
  QCOMPARE(back.window, session.window);
  const SelectionState state = SelectionState::fromJson(back.selection);
  QCOMPARE(state.run, "fox");
  QVERIFY(state.pin == (Cursor{100, 20}));
  QVERIFY(state.view == (View{{10, 200}, {0, 150}, {5, 90}}));
}

void SessionTest::pathsBelowItsFolderMoveWithIt() {
  const Folder folder;
  Session session;
  session.models = {{"fox", folder.path("models/fox")}};
  session.text.file = folder.path("book.txt");
  session.runFiles = {folder.path("run.h5"), "/elsewhere/run.h5"};
  session.write(folder.path("session.json"));
  const Session moved = Session::fromJson(readJson(folder.path("session.json")), "/moved/here");
  QCOMPARE(moved.models[0].path, "/moved/here/models/fox");
  QCOMPARE(moved.text.file, "/moved/here/book.txt");
  QCOMPARE(moved.runFiles, (QStringList{"/moved/here/run.h5", "/elsewhere/run.h5"}));
}

void SessionTest::readsWhatIsThereAndLeavesTheRest() {
  const Session session = Session::fromJson({{kSessionKey, 1}, {"models", "no list"}, {"settings", 3}}, "/");
  QVERIFY(session.models.empty());
  QVERIFY(session.settings == RunSettings());
  const SelectionState state = SelectionState::fromJson({{"rows", "nonsense"}, {"query", "seven"}});
  QVERIFY(state.pin == Cursor());
  QVERIFY(state.view == View());
}

void SessionTest::refusesWhatItCannotRead_data() {
  QTest::addColumn<QByteArray>("content");
  QTest::addColumn<QString>("words");
  QTest::newRow("newer") << QByteArray(R"({"foxscope_session": 99})")
                         << "saved by a newer version of Foxscope (schema 99, this one reads 1)";
  QTest::newRow("nested") << QByteArray(R"({"foxscope_session": )") + QByteArray(100'000, '[')
                          << "deeper than 256 levels";
  QTest::newRow("cut off") << QByteArray(R"({"foxscope_session": 1, "models": [)") << "damaged session";
  QTest::newRow("device") << QByteArray(R"({"foxscope_session": 1, "settings": {"device": "toaster"}})")
                          << "settings: --device 'toaster' is not known";
  QTest::newRow("numbers") << QByteArray(R"({"foxscope_session": 1, "settings": {"dtype": "int3"}})")
                           << "settings: --dtype 'int3' is not known";
  QTest::newRow("no number") << QByteArray(R"({"foxscope_session": "x"})") << "'foxscope_session' is not a number";
}

void SessionTest::refusesWhatItCannotRead() {
  QFETCH(const QByteArray, content);
  QFETCH(const QString, words);
  const Folder folder;
  const QString path = folder.write("session.json", content);
  const QString message = messageOf(path);
  QVERIFY2(message.startsWith(path + ": "), qPrintable(message));
  QVERIFY2(message.contains(words), qPrintable(message));
  QVERIFY(!message.contains('\n'));
}

}  // namespace foxscope::gui::test

FOXSCOPE_GUILESS_SUBJECT(session, foxscope::gui::test::SessionTest)
#include "session_test.moc"
