#include <algorithm>
#include <thread>

#include <QApplication>
#include <QClipboard>
#include <QComboBox>
#include <QDir>
#include <QDockWidget>
#include <QDropEvent>
#include <QFile>
#include <QFileDialog>
#include <QFileInfo>
#include <QJsonArray>
#include <QJsonDocument>
#include <QJsonObject>
#include <QLabel>
#include <QLineEdit>
#include <QLocale>
#include <QMessageBox>
#include <QMimeData>
#include <QPainter>
#include <QProgressBar>
#include <QPushButton>
#include <QStatusBar>
#include <QTableView>
#include <QTest>
#include <QTimer>
#include <QToolBar>
#include <QToolButton>

#include "app/gui/curves/curves_view.h"
#include "app/gui/curves/position_plot.h"
#include "app/gui/curves/tabs/loss_tab.h"
#include "app/gui/heads/heads_view.h"
#include "app/gui/maps/maps_view.h"
#include "app/gui/maps/pane/map_pane.h"
#include "app/gui/text/text_page.h"
#include "app/gui/text/text_view.h"
#include "app/gui/training/training_view.h"
#include "app/gui/window/docks.h"
#include "app/gui/window/figures/export_bar.h"
#include "app/gui/window/figures/export_dialog.h"
#include "app/gui/window/figures/page_export.h"
#include "app/gui/window/figures/paper_figures.h"
#include "app/gui/window/film/film_export.h"
#include "app/gui/window/message_bar.h"
#include "app/gui/window/preferences.h"
#include "app/gui/window/run_bar.h"
#include "app/gui/window/run_list_view.h"
#include "app/gui/window/settings.h"
#include "app/gui/words/words_view.h"
#include "backend/file/map_file.h"
#include "backend/file/run_file.h"
#include "tests/gui/subject.h"
#include "tests/gui/training/written_training.h"
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
  void theWholeWindowIsWhatItsNameSays();
  void aPageOpensAtTheChosenHeadAndPin();
  void anExportShowsProgressAndIsCancelled();
  void muchMemoryIsAskedFor();
  void aTrainingHasItsSliderAndCurves();
  void theStepsOfATrainingBecomeAFilm();
  void aFrameIsWhatIsSeenBetweenTheBars();
  void aFilmHasTheLimitsOfAllSteps();
  void aFilmWithAStepThatCannotBeShownIsNotWritten();
  void copyingTakesWhatHasTheFocus();
  void placesAreRemembered();
  void preferencesTakeNoDeviceThatIsNone();
  void aSessionOpensBeforeTheWindowIsMaximised();
  void closingAsksAboutWhatIsNotSaved();
  void closingSavesWhatIsNotSaved();
  void nothingIsAskedWithoutNeed();
  void droppedRunFilesStandSideBySide();
  void aTextIsNamedByItsRunFile();
};

void WindowFilesTest::initTestCase() { useOwnSettings(); }

void WindowFilesTest::aSessionBringsBackTheWholeWindow() {
  const Folder folder;
  QJsonObject maps;
  QJsonObject curves;
  {
    Window test;
    QVERIFY(test.run(128));
    test.document().files().saveRunFile(folder.path("run.h5"));
    test.window.maps().setPaneCount(4);
    test.window.curves().setTab(CurvesView::Tab::gate);
    test.window.headsView().setColouring({HeadColouring::Kind::quantity, HeadQuantity::halfLife, kNoRun});
    test.document().runs().selection().setHead({test.document().runs()[1].id, 2, 2});
    test.document().runs().selection().setPin({90, 40});
    test.document().runs().selection().setView({{32, 96}, {32, 96}});
    QVERIFY(test.settle());
    maps = test.window.maps().saveState();
    curves = test.window.curves().saveState();
    QVERIFY(test.said("Saved " + folder.path("run.h5")));
    test.document().sessions().save(
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
  QCOMPARE(test.document().runs().run(test.document().runs().selection().head().run)->name, "transformer-pro-12m");
  QVERIFY(test.document().runs().selection().pin() == (Cursor{90, 40}));
  QVERIFY(test.document().runs().selection().view() == (View{{32, 96}, {32, 96}}));
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
  QCOMPARE(test.document().runs().models().size(), 1U);
  QCOMPARE(QFileInfo(test.document().modelRuns().text().file).fileName(), "black-beauty-1-3.txt");
  QMimeData words;
  words.setText("Nobody saw the fox.");
  dropOn(test.window, words);
  QCOMPARE(test.document().modelRuns().text().content, "Nobody saw the fox.");
}

void WindowFilesTest::picturesAndDataAreExported() {
  Window test;
  QVERIFY(test.run(100));
  ExportDialog dialog(test.document(), test.window.maps(), test.window.curves(), test.window.evaluations(),
                      test.window.settings(), test.window);
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
  // Byte for byte what `foxscope map` writes, which tests/cli reads.
  const QByteArray table = write(Source::map, Kind::csv, "map.csv");
  QVERIFY(table.startsWith("query,0 ⟨BOS⟩,"));
  QVERIFY(write_map_csv(test.folder.path("same.csv").toStdString(), test.window.maps().shownMap()->picture->computed,
                        Overwrite::force, {}));
  QCOMPARE(table, content(test.folder.path("same.csv")));
  QVERIFY(write(Source::curves, Kind::pdf, "curves.pdf").startsWith("%PDF-"));
  QVERIFY(write(Source::curves, Kind::csv, "curves.csv").contains("nats"));
  QVERIFY(write(Source::window, Kind::png, "window.png").startsWith("\x89PNG"));
  // The cards that say what was saved are not in it, and stay in the window.
  auto* cards = test.window.findChild<MessageBar*>();
  QVERIFY(test.said("map.csv") && cards->isVisible());
  cards->setVisible(false);
  const QImage without = test.window.grab().toImage().convertToFormat(QImage::Format_RGB32);
  cards->setVisible(true);
  QCOMPARE(QImage(test.folder.path("window.png")).convertToFormat(QImage::Format_RGB32), without);
  // Of runs every kind of figure can be made but the needle test, which takes a file of its own.
  QSet<QString> kinds;
  for (const PaperFigure& figure : paperFigures(test.document().runs()))
    kinds += QString::fromStdString(figure.figure.kind);
  QCOMPARE(kinds, (QSet<QString>{"loss", "perplexity", "maps", "grid", "compare", "decay", "distance", "labels", "text",
                                 "ablation", "comparison", "gates", "scatter", "pruning"}));
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
  QCOMPARE(offered, 16);
  QCOMPARE(figures.size(), offered);
  QVERIFY(write(Source::map, Kind::png, "nowhere/map.png").isEmpty());
  QVERIFY2(test.said("nowhere"), qPrintable(test.window.messages().join('\n')));
}

void WindowFilesTest::theWholeWindowIsWhatItsNameSays() {
  Window test;
  ExportDialog dialog(test.document(), test.window.maps(), test.window.curves(), test.window.evaluations(),
                      test.window.settings(), test.window);
  dialog.source().setCurrentIndex(dialog.source().findData(static_cast<int>(ExportDialog::Source::window)));
  const auto written = [&](const char* name) {
    dialog.write(test.folder.path(name));
    return waitUntilIdle(test.document()) ? content(test.folder.path(name)) : QByteArray();
  };
  const QByteArray png = written("window.png");
  QVERIFY(png.startsWith("\x89PNG"));
  const QSize size = QImage::fromData(png).size();
  QCOMPARE(size, test.window.size() * test.window.devicePixelRatioF());
  const QByteArray pdf = written("window.pdf");
  QVERIFY(pdf.startsWith("%PDF-"));
  // One picture, its pixels as they are on the screen: no JPEG.
  QVERIFY(pdf.contains(QString("/Width %1").arg(size.width()).toUtf8()));
  QVERIFY(pdf.contains(QString("/Height %1").arg(size.height()).toUtf8()));
  QVERIFY(!pdf.contains("DCTDecode"));
  QVERIFY(written("window.svg").isEmpty());
  QVERIFY2(test.said("window.svg: whole window cannot be written as “.svg”: end the name in .pdf"),
           qPrintable(test.window.messages().join('|')));
}

void WindowFilesTest::aPageOpensAtTheChosenHeadAndPin() {
  Window test;
  QVERIFY(test.run(128));
  test.document().files().saveRunFile(test.folder.path("run.h5"));
  QVERIFY(test.settle());
  test.document().runs().selection().setHead({test.document().runs()[1].id, 2, 2});
  test.document().runs().selection().setPin({90, 40});
  exportPage(test.document(), test.folder.path("page.html"));
  QVERIFY(test.settle());
  QVERIFY(test.said("Saved " + test.folder.path("page.html")));

  const QByteArray html = content(test.folder.path("page.html"));
  const QByteArray mark = "<script id=\"data\" type=\"application/json\">";
  const qsizetype begin = html.indexOf(mark) + mark.size();
  const QJsonObject data = QJsonDocument::fromJson(html.mid(begin, html.indexOf("</script>", begin) - begin)).object();
  QCOMPARE(data["pin"].toObject(), (QJsonObject{{"query", 90}, {"key", 40}}));
  QCOMPARE(data["models"].toArray().size(), 2);
  const QJsonObject model = data["models"].toArray()[0].toObject();
  QCOMPARE(model["name"].toString(), "transformer-pro-12m");
  const QJsonObject head = model["heads"].toArray()[data["first"].toInt()].toObject();
  QCOMPARE(head["layer"].toInt(), 2);
  QCOMPARE(head["head"].toInt(), 2);
  const QString command = data["command"].toString();
  QVERIFY2(command.startsWith("foxscope page run.h5 --heads ") && command.contains("2:2,"), qPrintable(command));
  QVERIFY2(command.endsWith(" --model transformer-pro-12m --minus fox-pro-12m -o page.html"), qPrintable(command));
}

void WindowFilesTest::anExportShowsProgressAndIsCancelled() {
  Window test;
  const QString path = test.folder.path("map.h5");
  test.document().files().writeFile(path, [](const Job& job) -> std::optional<bool> {
    job.tell({1, 4, "rows", "computing the map"});
    while (!job.stopped()) std::this_thread::yield();
    return std::nullopt;
  });
  auto* bar = test.window.findChild<ExportBar*>();
  QVERIFY(bar != nullptr);
  QTRY_VERIFY(bar->isVisible());
  auto* progress = bar->findChild<QProgressBar*>();
  QTRY_COMPARE(progress->value(), 250);
  QVERIFY2(progress->format().startsWith("computing the map, ") && progress->format().endsWith("s left"),
           qPrintable(progress->format()));
  QTest::mouseClick(bar->findChild<QPushButton*>(), Qt::LeftButton);
  QTRY_VERIFY(!bar->isVisible());
  QVERIFY(test.said("Cancelled: " + path + " was not written"));
  QVERIFY(!QFile::exists(path));
}

void WindowFilesTest::muchMemoryIsAskedFor() {
  Window test;
  emit test.document().modelRuns().memoryAsked({3'400'000, 66e9, 23e9, 200'000});
  auto* box = test.window.findChild<QMessageBox*>();
  QVERIFY(box != nullptr);
  const QLocale locale;
  QVERIFY2(box->text().contains(locale.formattedDataSize(66'000'000'000, 1, QLocale::DataSizeSIFormat)) &&
               box->text().contains(locale.formattedDataSize(23'000'000'000, 1, QLocale::DataSizeSIFormat)),
           qPrintable(box->text()));
  QVERIFY(box->informativeText().contains(locale.toString(3'400'000)));
  QStringList buttons;
  for (const QAbstractButton* button : box->buttons()) buttons += button->text();
  QVERIFY(buttons.contains("Run Anyway"));
  QVERIFY(buttons.contains("First " + locale.toString(200'000) + " Tokens"));
  box->reject();
  QVERIFY(!test.document().modelRuns().runStatus().running);
}

void WindowFilesTest::copyingTakesWhatHasTheFocus() {
  Window test;
  QVERIFY(test.run(64));
  QApplication::clipboard()->clear();
  test.window.maps().setFocus();
  QTest::keySequence(&test.window.maps(), QKeySequence::Copy);
  QTRY_VERIFY(!QApplication::clipboard()->image().isNull());
  QVERIFY(QApplication::clipboard()->text().isEmpty());
  const auto copied = [](QWidget& widget) {
    QApplication::clipboard()->clear();
    widget.setFocus();
    QTest::keySequence(&widget, QKeySequence::Copy);
    return QApplication::clipboard()->text();
  };
  auto* loss = test.window.curves().findChild<curves::LossTab*>();
  auto* plot = loss->findChild<curves::PositionPlot*>();
  QVERIFY(copied(*plot).startsWith("position\treads\t"));
  QVERIFY(!QApplication::clipboard()->image().isNull());
  const QString list = copied(*loss->findChild<QTableView*>());
  QVERIFY2(list.startsWith("predicts\tposition\tloss, nats\n"), qPrintable(list));
  QVERIFY(copied(test.window.headsView().grid()).startsWith("layer\thead\t"));
  QVERIFY(!QApplication::clipboard()->image().isNull());
  press(test.window, QKeySequence("Ctrl+W"));
  QVERIFY(test.settle());
  const QString words = copied(test.window.words().table());
  QVERIFY2(words.startsWith("before\tword\tfox-pro-12m (nats)\t") || words.startsWith("word\tfox-pro-12m (nats)\t"),
           qPrintable(words));
  QVERIFY(copied(*test.window.text().findChild<TextPage*>()).length() > 100);
  QVERIFY(QApplication::clipboard()->image().isNull());
}

void WindowFilesTest::placesAreRemembered() {
  {
    MainWindow window({});
    window.resize(1111, 777);
    window.show();
    window.document().runs().addModel(foxModel(), "fox");
    window.findChild<QDockWidget*>("curves")->hide();
    window.close();
  }
  MainWindow window({});
  QVERIFY(window.restorePlaces());
  window.show();
  QCOMPARE(window.size(), QSize(1111, 777));
  window.document().runs().addModel(foxModel(), "fox");
  QVERIFY(window.findChild<QDockWidget*>("heads")->isVisible());
  QVERIFY(!window.findChild<QDockWidget*>("curves")->isVisible());
  window.setRemembering(MainWindow::Remembering::off);
}

// The window manager's size comes last: after the docks of the settings and those of the session.
void WindowFilesTest::aSessionOpensBeforeTheWindowIsMaximised() {
  QByteArray docks;
  QByteArray geometry;
  {
    MainWindow window({});
    window.setRemembering(MainWindow::Remembering::off);
    // Wider and higher than any screen here, so that these docks do not fit when the next window is shown.
    window.resize(2600, 1800);
    window.show();
    docks = window.saveState();
  }
  {
    MainWindow window({});
    window.setRemembering(MainWindow::Remembering::off);
    window.showMaximized();
    geometry = window.saveGeometry();
  }
  const Folder folder;
  const QJsonObject views{{"docks", QString::fromLatin1(docks.toBase64())}, {"curves", QJsonObject{{"tab", "decay"}}}};
  const QString session =
      folder.write("session.json", QJsonDocument(QJsonObject{{"foxscope_session", 1}, {"window", views}}).toJson());
  for (int start = 0; start < 3; ++start) {
    MainWindow window({});
    window.setRemembering(MainWindow::Remembering::off);
    window.settings().setWindow(docks, geometry);
    QVERIFY(window.restorePlaces());
    window.show();
    window.document().open({session});
    QTRY_VERIFY(window.document().sessions().file() == session);
    QTRY_VERIFY(window.isSettled());
    if (QGuiApplication::platformName() == "offscreen") window.resize(2600, 1800);  // a manager's size comes by itself
    QTRY_VERIFY(window.width() > 1500);
    QCoreApplication::processEvents();
    QCOMPARE(window.curves().tab(), CurvesView::Tab::decay);
  }
}

namespace {

/// Presses the button of the next question that begins with these words. @returns what it asked
QString answer(MainWindow& window, const QString& words, const std::function<void()>& ask) {
  QString asked;
  QTimer look;
  QObject::connect(&look, &QTimer::timeout, &window, [&] {
    auto* box = qobject_cast<QMessageBox*>(QApplication::activeModalWidget());
    if (box == nullptr) return;
    look.stop();
    asked = box->text() + ' ' + box->informativeText();
    for (QAbstractButton* button : box->buttons()) {
      if (button->text().remove('&').startsWith(words)) return button->click();
    }
    box->reject();
  });
  look.start(20);
  ask();
  return asked;
}

}  // namespace

void WindowFilesTest::closingAsksAboutWhatIsNotSaved() {
  Window test;
  QVERIFY(test.run(32));
  test.document().modelRuns().editText("Typed.");
  test.window.setRemembering(MainWindow::Remembering::on);
  QString asked = answer(test.window, "Cancel", [&] { test.window.close(); });
  QVERIFY2(asked.contains("the run fox-pro-12m, ") && asked.contains(" s to compute\nthe run transformer-pro-12m, ") &&
               asked.contains("typed or changed"),
           qPrintable(asked));
  QVERIFY(test.window.isVisible());
  // A session would take the place of everything as well.
  asked = answer(test.window, "Cancel", [&] {
    test.document().open({source("resources/demo.json")});
    waitUntilIdle(test.document());
  });
  QVERIFY(asked.contains("fox-pro-12m"));
  QCOMPARE(test.document().modelRuns().text().content, "Typed.");
  asked = answer(test.window, "Discard", [&] { test.window.close(); });
  QVERIFY(!asked.isEmpty());
  QVERIFY(!test.window.isVisible());
}

void WindowFilesTest::closingSavesWhatIsNotSaved() {
  Window test;
  QVERIFY(test.run(32));
  test.document().modelRuns().editText("Typed.");
  test.window.setRemembering(MainWindow::Remembering::on);
  const QStringList files{test.folder.path("saved.h5"), test.folder.path("typed.txt")};
  qsizetype next = 0;
  QTimer choose;
  connect(&choose, &QTimer::timeout, &test.window, [&] {
    auto* dialog = qobject_cast<QFileDialog*>(QApplication::activeModalWidget());
    if (dialog == nullptr || next >= files.size()) return;
    dialog->findChild<QLineEdit*>("fileNameEdit")->setText(files[next++]);
    QMetaObject::invokeMethod(dialog, "accept");
  });
  choose.start(20);
  const QString asked = answer(test.window, "Save Runs and Text", [&] { test.window.close(); });
  QVERIFY(!asked.isEmpty());
  QTRY_VERIFY_WITH_TIMEOUT(!test.window.isVisible(), kPatience);
  QCOMPARE(RunFile::open(files[0].toStdString()).traces.size(), 2U);
  QCOMPARE(content(files[1]), QByteArray("Typed."));
}

void WindowFilesTest::nothingIsAskedWithoutNeed() {
  const auto closes = [](Window& test) {
    test.window.setRemembering(MainWindow::Remembering::on);
    const QString asked = answer(test.window, "Cancel", [&] { test.window.close(); });
    return asked.isEmpty() && !test.window.isVisible();
  };
  Window demo;
  demo.document().open({source("resources/demo.json")});
  QTRY_COMPARE_WITH_TIMEOUT(demo.document().runs().size(), 2U, kPatience);
  QVERIFY(demo.settle());
  QVERIFY(closes(demo));
  Window saved;
  QVERIFY(saved.run(32));
  saved.document().files().saveRunFile(saved.folder.path("run.h5"));
  QVERIFY(saved.settle());
  QVERIFY(closes(saved));
  Window opened;
  opened.document().open({saved.folder.path("run.h5"), source("resources/figures/needle.h5")});
  QVERIFY(opened.settle());
  const auto* evaluations = opened.window.findChild<QDockWidget*>("evaluations");
  QVERIFY(evaluations->isVisible());
  QVERIFY(closes(opened));
  // Parts that come with what they show are not remembered without it.
  Window next;
  QVERIFY(next.window.restorePlaces());
  next.document().open({saved.folder.path("run.h5")});
  QVERIFY(next.settle());
  QTRY_VERIFY(next.window.findChild<QDockWidget*>("curves")->isVisible());
  QVERIFY(!next.window.findChild<QDockWidget*>("evaluations")->isVisible());
}

void WindowFilesTest::droppedRunFilesStandSideBySide() {
  Window test;
  {
    Document made;
    QVERIFY(runDemo(made, 48));
    made.files().saveRunFile(test.folder.path("a.h5"));
    QVERIFY(waitUntilIdle(made));
    QVERIFY(QFile::copy(test.folder.path("a.h5"), test.folder.path("b.h5")));
  }
  test.document().open({test.folder.path("a.h5")});
  QVERIFY(test.settle());
  QMimeData files;
  files.setUrls({QUrl::fromLocalFile(test.folder.path("b.h5"))});
  dropOn(test.window, files);
  QVERIFY(test.settle());
  QCOMPARE(test.document().runs().size(), 4U);
  QCOMPARE(test.window.findChildren<QToolButton*>("chip").size(), 4);
  QCOMPARE(test.document().runs()[2].name, "fox-pro-12m · b");
  // The same model from two files: no difference, in what is exported as well, under both names.
  const QString data = test.window.curves().dataOfCurrentTab();
  QVERIFY2(data.contains("loss of fox-pro-12m · a minus fox-pro-12m · b"), qPrintable(data.left(600)));
  press(test.window, QKeySequence("Ctrl+R"));
  auto* list = test.window.findChild<RunListView*>();
  list->setCurrentIndex(list->list().index(2, RunListModel::kName));
  QTest::keyClick(list, Qt::Key_Delete);
  QTRY_COMPARE(test.document().runs().size(), 3U);
  press(test.window, QKeySequence("Ctrl+Z"));
  QCOMPARE(test.document().runs().size(), 4U);
}

void WindowFilesTest::aTextIsNamedByItsRunFile() {
  Window test;
  QStringList files;
  for (const auto& [name, text] : {std::pair{"a.h5", "A text."}, {"b.h5", "Another text."}}) {
    Document made;
    made.open({foxModel()});
    made.modelRuns().setText({{}, text});
    QVERIFY(waitUntilIdle(made));
    made.modelRuns().startRun();
    QVERIFY(waitUntilIdle(made));
    files += test.folder.path(name);
    made.files().saveRunFile(files.back());
    QVERIFY(waitUntilIdle(made));
  }
  test.document().open(files);
  QVERIFY(test.settle());
  QCOMPARE(test.document().runs().size(), 2U);
  const auto shown = [&test] {
    QStringList texts;
    for (const auto* label : test.window.findChild<RunBar*>()->findChildren<QLabel*>()) texts += label->text();
    return texts.join('|');
  };
  // The text that is to be run is that of the last file; the pictures are those of the run that is shown.
  RunList& runs = test.document().runs();
  const auto show = [&](const char* file) {
    const auto run = std::find_if(runs.begin(), runs.end(), [&](const Run& one) { return one.file.endsWith(file); });
    runs.selection().setHead({run->id, 0, 0});
    return test.settle();
  };
  QVERIFY(show("b.h5"));
  QVERIFY2(shown().contains("on the text of b.h5 (13 bytes)"), qPrintable(shown()));
  QVERIFY(show("a.h5"));
  QVERIFY2(shown().contains("on the text of a.h5; next: the text of b.h5 (13 bytes)"), qPrintable(shown()));
}

void WindowFilesTest::aTrainingHasItsSliderAndCurves() {
  const WrittenTraining out;
  out.make();
  Window test;
  const auto* dock = test.window.findChild<QDockWidget*>("training");
  QVERIFY(!dock->isVisible());
  QVERIFY(!test.window.training().bar().isVisible());
  test.document().open({out.path()});
  QVERIFY(test.settle());
  QVERIFY(test.window.training().bar().isVisible());
  QVERIFY(dock->isVisible());
  test.document().modelRuns().setText({{}, "The fox ran over the hill."});
  test.document().modelRuns().startRun();
  QVERIFY(test.settle());
  press(test.window, QKeySequence("Alt+Left"));
  QVERIFY(test.settle());
  QCOMPARE(test.document().runs()[0].model, out.checkpoint(20));
  press(test.window, QKeySequence("Alt+End"));
  QVERIFY(test.settle());
  QCOMPARE(test.document().runs()[0].model, out.checkpoint(30));
  test.document().clear();
  QVERIFY(test.settle());
  QVERIFY(!dock->isVisible());
  QVERIFY(!test.window.training().bar().isVisible());
}

void WindowFilesTest::theStepsOfATrainingBecomeAFilm() {
  const WrittenTraining out;
  out.make();
  Window test;
  test.document().open({out.path()});
  QVERIFY(test.settle());
  const QString path = out.folder.path("film.webp");
  emit test.window.training().filmWanted(path);
  QVERIFY(test.said(test.document().modelRuns().noRunText()));  // nothing has run, there is nothing to film
  QVERIFY(!test.document().files().busy());
  test.document().modelRuns().setText({{}, "The fox ran over the hill, and nobody saw the fox."});
  test.document().modelRuns().startRun();
  QVERIFY(test.settle());
  test.window.training().bar().slider().setValue(1);
  QVERIFY(test.settle());
  QStringList seen;
  connect(&test.document().runs(), &RunList::runsChanged, &test.window, [&] {
    if (!test.document().runs().empty()) seen += test.document().runs()[0].model;
  });
  emit test.window.training().filmWanted(path);
  QVERIFY(test.document().files().busy());
  QVERIFY(test.settle());
  QVERIFY(test.said("Saved " + path));
  // All are shown before the first picture is taken, since colours have the limits of all.
  const QStringList all{out.checkpoint(10), out.checkpoint(20), out.checkpoint(30)};
  QCOMPARE(seen, all + all + QStringList{out.checkpoint(20)});
  // Three pictures of what is between the bars: the caption has another step and another bar in each.
  const QByteArray film = content(path);
  QVERIFY(film.startsWith("RIFF") && film.mid(8, 4) == "WEBP");
  QCOMPARE(film.count("ANMF"), 3);
  // Cancelled, it leaves no file, and the step that was shown.
  const QString other = out.folder.path("other.webp");
  emit test.window.training().filmWanted(other);
  test.document().files().cancelExport(other);
  QVERIFY(test.settle());
  QVERIFY(!QFile::exists(other));
  QCOMPARE(test.document().runs()[0].model, out.checkpoint(20));
  // What it shows goes: so does the film.
  emit test.window.training().filmWanted(other);
  test.document().clear();
  QVERIFY(test.settle());
  QVERIFY(!QFile::exists(other));
}

void WindowFilesTest::aFrameIsWhatIsSeenBetweenTheBars() {
  const WrittenTraining out;
  out.make();
  Window test;
  test.document().open({out.path()});
  QVERIFY(test.settle());
  test.document().modelRuns().setText({{}, "The fox ran over the hill, and nobody saw the fox."});
  test.document().modelRuns().startRun();
  QVERIFY(test.settle());
  // Only one dock of several in one place is seen.
  Docks& docks = test.window.docks();
  for (QDockWidget* dock : {&docks.curves(), &docks.predictions(), &docks.training()}) dock->show();
  test.window.tabifyDockWidget(&docks.curves(), &docks.predictions());
  test.window.tabifyDockWidget(&docks.curves(), &docks.training());
  docks.training().raise();
  QVERIFY(test.settle());
  QVERIFY(docks.curves().visibleRegion().isEmpty() && !docks.training().visibleRegion().isEmpty());

  FilmExport film(test.window);
  const QRect area = film.area();
  QVERIFY(test.window.rect().contains(area));
  QCOMPARE(area.width(), test.window.width());
  QVERIFY(area.top() > test.window.findChild<QToolBar*>("run")->geometry().bottom());
  QVERIFY(area.bottom() >= docks.training().geometry().bottom() && area.bottom() >= docks.heads().geometry().bottom());
  QVERIFY(area.bottom() < test.window.statusBar()->geometry().top());
  // The place of the caption apart.
  const QRect centre = test.window.centralWidget()->geometry();
  const QPoint maps = test.window.maps().mapTo(&test.window, QPoint());
  const QRect caption =
      QRect(centre.topLeft(), QSize(centre.width(), maps.y() - centre.top())).translated(-area.topLeft());
  const auto withoutCaption = [&](const QImage& picture) {
    QImage rest = picture.convertToFormat(QImage::Format_RGB32);
    QPainter(&rest).fillRect(caption, Qt::black);
    return rest;
  };
  const QImage seen = withoutCaption(test.window.grab(area).toImage());
  // Messages lie over the window, not over the film.
  emit test.document().messageRaised({Message::Kind::error, "no disk"});
  QVERIFY(withoutCaption(test.window.grab(area).toImage()) != seen);
  const QImage frame = film.frame();
  QCOMPARE(frame.size(), area.size() * test.window.devicePixelRatioF());
  QCOMPARE(withoutCaption(frame), seen);
  QVERIFY(test.window.findChild<MessageBar*>()->isVisible());
  QVERIFY(test.said("no disk"));

  const QString path = out.folder.path("film.webp");
  emit test.window.training().filmWanted(path);
  QVERIFY(test.settle());
  // The canvas of an animated picture: its width and height less one, 24 bits each.
  const QByteArray file = content(path);
  QCOMPARE(file.mid(12, 4), QByteArray("VP8X"));
  const auto number = [&](int at) {
    return static_cast<uchar>(file[at]) + 256 * static_cast<uchar>(file[at + 1]) +
           65536 * static_cast<uchar>(file[at + 2]);
  };
  QCOMPARE(QSize(number(24) + 1, number(27) + 1), frame.size());
}

void WindowFilesTest::aFilmHasTheLimitsOfAllSteps() {
  // Two models that differ in every number.
  const WrittenTraining out;
  out.log(1, 20);
  out.save(20);
  QDir().mkpath(out.checkpoint(10));
  for (const QFileInfo& file : QDir(transformerModel()).entryInfoList(QDir::Files)) {
    QVERIFY(QFile::link(file.filePath(), out.checkpoint(10) + '/' + file.fileName()));
  }
  Window test;
  test.document().open({out.path()});
  QVERIFY(test.settle());
  test.window.training().bar().slider().setValue(0);
  test.document().modelRuns().setText({{}, "The fox ran over the hill, and nobody saw the fox."});
  test.document().modelRuns().startRun();
  QVERIFY(test.settle());
  PaneState logits;
  logits.setQuantity(Quantity::logits);
  test.window.maps().setPaneState(0, logits);
  QVERIFY(test.settle());
  // As a step is left, so it was filmed.
  std::vector<std::vector<double>> limits;
  const auto* page = test.window.text().findChild<TextPage*>();
  connect(&test.document().runs(), &RunList::runsChanged, &test.window, [&] {
    const figure::ScaledColours& map = test.window.maps().pane(0).picture()->colours;
    limits.push_back({map.lower, map.upper, page->tint() == nullptr ? 0 : page->tint()->scale.upper});
  });
  emit test.window.training().filmWanted(out.folder.path("film.webp"));
  QVERIFY(test.settle());
  QCOMPARE(limits.size(), 4U);  // 10 and 20 to know their limits, then 10 and 20
  QCOMPARE(limits[2], limits[3]);
  QVERIFY(limits[0] != limits[2]);
  for (const std::vector<double>& one : {limits[0], limits[1]}) {
    QVERIFY(limits[2][0] <= one[0] && limits[2][1] >= one[1] && limits[2][2] >= one[2]);
  }
}

void WindowFilesTest::aFilmWithAStepThatCannotBeShownIsNotWritten() {
  const WrittenTraining out;
  out.make();
  Window test;
  test.document().open({out.path()});
  QVERIFY(test.settle());
  test.window.training().bar().slider().setValue(1);
  test.document().modelRuns().setText({{}, "The fox ran over the hill, and nobody saw the fox."});
  test.document().modelRuns().startRun();
  QVERIFY(test.settle());
  QStringList errors;
  connect(&test.document(), &Document::messageRaised, &test.window, [&](const Message& message) {
    if (message.kind == Message::Kind::error) errors += message.text;
  });
  const QString path = out.folder.path("film.webp");
  QVERIFY(QFile::remove(out.checkpoint(30) + "/model.safetensors.index.json"));
  emit test.window.training().filmWanted(path);
  QVERIFY(test.settle());
  QCOMPARE(errors.size(), 1);
  QVERIFY2(errors[0].startsWith(path + ": not written, since step 30 cannot be shown: ") &&
               errors[0].contains("step-000030"),
           qPrintable(errors[0]));
  QVERIFY(!QFile::exists(path));
  QVERIFY(!test.said("Saved"));
  QCOMPARE(test.document().runs()[0].model, out.checkpoint(20));
  // The folder is moved away: no step can run, and it is said once.
  errors.clear();
  QVERIFY(QDir().rename(out.path(), out.folder.path("elsewhere")));
  emit test.window.training().filmWanted(path);
  QVERIFY(test.settle());
  QCOMPARE(errors.size(), 1);
  QVERIFY2(errors[0].startsWith(path + ": not written, since step "), qPrintable(errors[0]));
  QVERIFY(!QFile::exists(path));
  QVERIFY(!test.said("Saved"));
  // A failure of a step that somebody chooses later is told as ever.
  test.window.training().bar().slider().setValue(2);
  QVERIFY(test.settle());
  QCOMPARE(errors.size(), 2);
}

void WindowFilesTest::preferencesTakeNoDeviceThatIsNone() {
  Document document;
  Settings settings;
  Preferences preferences(document.modelRuns(), settings, nullptr);
  QComboBox* device = nullptr;
  for (QComboBox* box : preferences.findChildren<QComboBox*>()) device = box->isEditable() ? box : device;
  QVERIFY(device != nullptr);
  preferences.show();
  device->setCurrentText("toaster");
  preferences.accept();
  QVERIFY(preferences.isVisible());
  const QList<QLabel*> labels = preferences.findChildren<QLabel*>();
  QVERIFY(std::ranges::any_of(labels, [](const QLabel* label) {
    return label->isVisible() && label->text().contains("'toaster' is not known: choose auto, cpu, cuda or cuda:N");
  }));
  QVERIFY(document.modelRuns().settings() == RunSettings());
  device->setCurrentText(" cuda:3 ");
  preferences.accept();
  QCOMPARE(preferences.result(), static_cast<int>(QDialog::Accepted));
  QVERIFY(document.modelRuns().settings().device == (DeviceChoice{DeviceChoice::Kind::cuda, 3}));
}

}  // namespace foxscope::gui::test

FOXSCOPE_GUI_SUBJECT(window_files, foxscope::gui::test::WindowFilesTest)
#include "window_files_test.moc"
