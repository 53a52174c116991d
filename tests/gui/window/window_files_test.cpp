#include <QApplication>
#include <QClipboard>
#include <QDockWidget>
#include <QDropEvent>
#include <QFile>
#include <QFileInfo>
#include <QMimeData>
#include <QPushButton>
#include <QTest>

#include "app/gui/curves/curves_view.h"
#include "app/gui/heads/heads_view.h"
#include "app/gui/maps/map_pane.h"
#include "app/gui/maps/maps_view.h"
#include "app/gui/text/text_view.h"
#include "app/gui/window/export_dialog.h"
#include "app/gui/window/message_bar.h"
#include "app/gui/window/paper_figures.h"
#include "tests/gui/window/window_shown.h"

namespace foxscope::gui::test {
namespace {

QByteArray content(const QString& path) {
  QFile file(path);
  return file.open(QIODevice::ReadOnly) ? file.readAll() : QByteArray();
}

void dropOn(QWidget& window, const QMimeData& data) {
  const QPoint place(window.width() / 2, 5);
  QDragEnterEvent enter(place, Qt::CopyAction, &data, Qt::LeftButton, Qt::NoModifier);
  QCoreApplication::sendEvent(&window, &enter);
  QDropEvent drop(place, Qt::CopyAction, &data, Qt::LeftButton, Qt::NoModifier);
  QCoreApplication::sendEvent(&window, &drop);
}

}  // namespace

class WindowFilesTest : public QObject {
  Q_OBJECT

 private slots:
  void initTestCase();
  void aSessionBringsBackTheWholeWindow();
  void missingFilesOfASessionAreAskedFor();
  void droppedFilesAreOpened();
  void picturesAndDataAreExported();
  void copyingPutsAPictureOnTheClipboard();
  void placesAreRemembered();
};

void WindowFilesTest::initTestCase() { useOwnSettings(); }

void WindowFilesTest::aSessionBringsBackTheWholeWindow() {
  const Folder folder;
  QJsonObject maps;
  QJsonObject curves;
  {
    Window test;
    QVERIFY(test.run(128));
    test.document().saveRunFile(folder.path("run.h5"));
    test.window.maps().setPaneCount(4);
    test.window.curves().setTab(CurvesView::Tab::gate);
    test.window.headsView().setColouring({HeadColouring::Kind::quantity, HeadQuantity::halfLife, kNoRun});
    test.document().selection().setHead({test.document().runs()[1].id, 2, 2});
    test.document().selection().setPin({90, 40});
    test.document().selection().setView({{32, 96}, {32, 96}});
    QVERIFY(test.settle());
    maps = test.window.maps().saveState();
    curves = test.window.curves().saveState();
    QVERIFY(test.said("Saved " + folder.path("run.h5")));
    test.document().saveSession(
        folder.path("session.json"),
        QJsonObject{{"maps", maps}, {"curves", curves}, {"heads", test.window.headsView().saveState()}});
    QVERIFY(test.settle());
  }
  Window test;
  test.document().open({folder.path("session.json")});
  QTRY_COMPARE_WITH_TIMEOUT(test.document().runs().size(), 2U, kPatience);
  QVERIFY(test.settle());
  QCOMPARE(test.window.maps().paneCount(), 4);
  QCOMPARE(test.window.maps().saveState(), maps);
  QCOMPARE(test.window.curves().saveState(), curves);
  QCOMPARE(test.window.headsView().colouring().quantity, HeadQuantity::halfLife);
  QCOMPARE(test.document().run(test.document().selection().head().run)->name, "transformer-pro-12m");
  QVERIFY(test.document().selection().pin() == (Cursor{90, 40}));
  QVERIFY(test.document().selection().view() == (View{{32, 96}, {32, 96}}));
}

void WindowFilesTest::missingFilesOfASessionAreAskedFor() {
  Window test;
  const QString session = test.folder.write("session.json", R"({"foxscope_session": 1, "run_files": ["./gone.h5"]})");
  test.document().open({session});
  QVERIFY(test.settle());
  QVERIFY(test.said("The session's run file is not there any more: " + test.folder.path("gone.h5")));
  bool offered = false;
  for (auto* button : test.window.findChild<MessageBar*>()->findChildren<QPushButton*>()) {
    offered = offered || button->text().startsWith("Locate");
  }
  QVERIFY(offered);
}

void WindowFilesTest::droppedFilesAreOpened() {
  Window test;
  QMimeData files;
  files.setUrls({QUrl::fromLocalFile(foxModel()), QUrl::fromLocalFile(sampleText())});
  dropOn(test.window, files);
  QVERIFY(waitUntilIdle(test.document()));
  QCOMPARE(test.document().models().size(), 1U);
  QCOMPARE(QFileInfo(test.document().text().file).fileName(), "black-beauty-1-3.txt");
  QMimeData words;
  words.setText("Nobody saw the fox.");
  dropOn(test.window, words);
  QCOMPARE(test.document().text().content, "Nobody saw the fox.");
}

void WindowFilesTest::picturesAndDataAreExported() {
  Window test;
  QVERIFY(test.run(100));
  ExportDialog dialog(test.document(), test.window.maps(), test.window.curves(), test.window);
  const auto write = [&](ExportDialog::Source source, ExportDialog::Kind kind, const char* name) {
    dialog.source().setCurrentIndex(dialog.source().findData(static_cast<int>(source)));
    dialog.kind().setCurrentIndex(dialog.kind().findData(static_cast<int>(kind)));
    const QString path = test.folder.path(name);
    dialog.write(path);
    if (!waitUntilIdle(test.document())) return QByteArray();
    return content(path);
  };
  using Source = ExportDialog::Source;
  using Kind = ExportDialog::Kind;
  QVERIFY(write(Source::map, Kind::pdf, "map.pdf").startsWith("%PDF-"));
  QVERIFY(write(Source::map, Kind::svg, "map.svg").contains("<svg"));
  QVERIFY(write(Source::map, Kind::png, "map.png").startsWith("\x89PNG"));
  QVERIFY(write(Source::map, Kind::hdf5, "map.h5").startsWith("\x89HDF"));
  QVERIFY(write(Source::map, Kind::npy, "map.npy").startsWith("\x93NUMPY"));
  QVERIFY(write(Source::map, Kind::csv, "map.csv").startsWith("nan,"));
  QVERIFY(write(Source::curves, Kind::pdf, "curves.pdf").startsWith("%PDF-"));
  QVERIFY(write(Source::curves, Kind::csv, "curves.csv").contains("nats"));
  QVERIFY(write(Source::window, Kind::png, "window.png").startsWith("\x89PNG"));
  // Of runs every kind of figure can be made but the needle test, which takes a file of its own.
  QSet<QString> kinds;
  for (const PaperFigure& figure : paperFigures(test.document())) kinds += figure.kind;
  QCOMPARE(kinds,
           (QSet<QString>{"loss", "perplexity", "maps", "grid", "compare", "decay", "distance", "text", "ablation"}));
  // Every figure that is offered can be drawn, and no two are the same.
  QSet<QByteArray> figures;
  int offered = 0;
  for (int index = 0; index < dialog.source().count(); ++index) {
    if (dialog.source().itemData(index).toInt() < static_cast<int>(Source::figures)) continue;
    ++offered;
    dialog.source().setCurrentIndex(index);
    QCOMPARE(dialog.kind().count(), 3);
    dialog.kind().setCurrentIndex(dialog.kind().findData(static_cast<int>(Kind::svg)));
    const QString path = test.folder.path(QString("figure%1.svg").arg(index));
    dialog.write(path);
    QVERIFY(waitUntilIdle(test.document()));
    QVERIFY2(content(path).contains("<svg"),
             qPrintable(dialog.source().currentText() + test.window.messages().join('|')));
    figures += content(path);
  }
  QCOMPARE(offered, 11);
  QCOMPARE(figures.size(), offered);
  QVERIFY(write(Source::map, Kind::png, "nowhere/map.png").isEmpty());
  QVERIFY2(test.said("nowhere"), qPrintable(test.window.messages().join('\n')));
}

void WindowFilesTest::copyingPutsAPictureOnTheClipboard() {
  Window test;
  QVERIFY(test.run(64));
  QApplication::clipboard()->clear();
  test.window.maps().setFocus();
  press(test.window, QKeySequence::Copy);
  QTRY_VERIFY(!QApplication::clipboard()->image().isNull());
}

void WindowFilesTest::placesAreRemembered() {
  {
    MainWindow window({});
    window.resize(1111, 777);
    window.show();
    window.findChild<QDockWidget*>("curves")->hide();
    window.close();
  }
  MainWindow window({});
  QVERIFY(window.restorePlaces());
  window.show();
  QCOMPARE(window.size(), QSize(1111, 777));
  QVERIFY(!window.findChild<QDockWidget*>("curves")->isVisible());
  window.setRemembering(MainWindow::Remembering::off);
}

}  // namespace foxscope::gui::test

QTEST_MAIN(foxscope::gui::test::WindowFilesTest)
#include "window_files_test.moc"
