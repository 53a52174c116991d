#include <algorithm>
#include <cmath>
#include <memory>

#include <QApplication>
#include <QComboBox>
#include <QLabel>
#include <QLineEdit>
#include <QPushButton>
#include <QSpinBox>
#include <QTest>
#include <QTimer>

#include "app/gui/curves/curves_view.h"
#include "app/gui/document/number_text.h"
#include "app/gui/heads/heads_view.h"
#include "app/gui/maps/map_plot.h"
#include "app/gui/maps/maps_view.h"
#include "app/gui/maps/pane/map_pane.h"
#include "app/gui/text/text_editor.h"
#include "app/gui/text/text_page.h"
#include "app/gui/text/text_view.h"
#include "app/gui/window/command_palette.h"
#include "app/gui/window/help/shortcut_sheet.h"
#include "app/gui/window/help/start_page.h"
#include "app/gui/window/preferences.h"
#include "app/gui/window/readout.h"
#include "app/gui/window/run_bar.h"
#include "backend/file/run_file.h"
#include "backend/map/pair_reading.h"
#include "tests/file/synthetic_trace.h"
#include "tests/gui/subject.h"
#include "tests/gui/window/window_shown.h"

namespace foxscope::gui::test {

class WindowTest : public QObject {
  Q_OBJECT

 private slots:
  void initTestCase();
  void theStartPageOpensTheDemo();
  void keysRunAndCancel();
  void fromATokenToTheHeadsThatRememberItInTwoClicks();
  void theReadoutNamesWhatIsReadAndPredicted();
  void theReadoutNamesMeansOfChannels();
  void thePaletteFindsCommands();
  void everyShortcutIsThereOnce();
  void messagesLeaveTheStateAlone();
  void closingDuringARunEnds();
  void keysWorkAnywhereButWhereOneTypes();
  void preferencesAreNamedAndTaken();
};

void WindowTest::initTestCase() { useOwnSettings(); }

void WindowTest::theStartPageOpensTheDemo() {
  Window test;
  auto* start = test.window.findChild<StartPage*>();
  QVERIFY(start->isVisible());
  QPushButton* demo = nullptr;
  for (auto* button : start->findChildren<QPushButton*>()) {
    if (button->text() == "Demo") demo = button;
  }
  QVERIFY(demo != nullptr && demo->isEnabled());
  QTest::mouseClick(demo, Qt::LeftButton);
  QTRY_COMPARE_WITH_TIMEOUT(test.document().runs().size(), 2U, kPatience);
  QVERIFY(test.settle());
  QVERIFY(!start->isVisible() && test.window.maps().isVisible());
  QVERIFY2(test.window.messages().isEmpty(), qPrintable(test.window.messages().join('\n')));
  QVERIFY(test.window.windowTitle().startsWith("fox-pro-12m, transformer-pro-12m"));
  QVERIFY(test.window.maps().figureOfActivePane().has_value());
  QVERIFY(test.window.curves().figureOfCurrentTab().has_value());
}

void WindowTest::keysRunAndCancel() {
  Window test(source("resources/demo.json"), {1024, 700});
  test.document().open({foxModel(), sampleText()});
  QVERIFY(waitUntilIdle(test.document()));
  // What is missing is read without scrolling, however low the page is.
  const QLabel* hint = nullptr;
  for (const auto* label : test.window.findChild<StartPage*>()->findChildren<QLabel*>()) {
    if (label->text() == "No run yet: press F5.") hint = label;
  }
  QVERIFY(hint != nullptr && hint->isVisible());
  QTRY_COMPARE(hint->visibleRegion().boundingRect(), hint->rect());
  press(test.window, QKeySequence("F5"));
  QVERIFY(test.document().modelRuns().runStatus().running);
  press(test.window, QKeySequence("Shift+F5"));
  QVERIFY(!test.document().modelRuns().runStatus().running);
  QVERIFY(test.document().runs().empty());
  RunSettings settings;
  settings.limit = 64;
  test.document().modelRuns().setSettings(settings);
  press(test.window, QKeySequence("F5"));
  QTRY_COMPARE_WITH_TIMEOUT(test.document().runs().size(), 1U, kPatience);
}

void WindowTest::fromATokenToTheHeadsThatRememberItInTwoClicks() {
  Window test;
  QVERIFY(test.run(256));
  test.window.headsView().setColouring({HeadColouring::Kind::quantity, HeadQuantity::pinnedForget, kNoRun});
  // A click in the map pins query and key at once.
  MapPlot& plot = test.window.maps().pane(0).plot();
  const QPoint place = plot.geometryOfView().cell(180, 60).topLeft().toPoint();
  QTest::mouseMove(&plot, place);
  QTest::mouseClick(&plot, Qt::LeftButton, {}, place);
  QTRY_VERIFY(test.document().runs().selection().pin().query && test.document().runs().selection().pin().key);
  QVERIFY(test.settle());
  const Cursor pin = test.document().runs().selection().pin();
  const Run& fox = test.document().runs()[0];
  for (int layer = 0; layer < 8; ++layer) {
    QCOMPARE(test.window.headsView().grid().shownValue({fox.id, layer, 2}),
             pair_reading({fox.trace, layer, 2}, *pin.query, *pin.key).forget);
  }
}

void WindowTest::theReadoutNamesWhatIsReadAndPredicted() {
  Window test;
  QVERIFY(test.run(128));
  const Run& fox = test.document().runs()[0];
  test.document().runs().selection().setHead({fox.id, 3, 0});
  test.document().runs().selection().setPin({100, 60});
  QVERIFY(test.settle());
  const QString told = test.window.findChild<Readout*>()->text();
  const TokenTable& tokens = *fox.trace->tokens();
  const PairReading reading = pair_reading({fox.trace, 3, 0}, 100, 60);
  // Position 100 reads the text's token 99 and predicts token 100.
  QVERIFY2(told.contains("query 100 " + predictedText(tokens, 99, Whitespace::visible)), qPrintable(told));
  QVERIFY(told.contains("→ predicts " + predictedText(tokens, 100, Whitespace::visible)));
  QVERIFY(told.contains("key 60 " + predictedText(tokens, 59, Whitespace::visible)));
  const auto number = [](double value) { return numberOf(value, 3); };
  QVERIFY(told.contains("loss " + number(static_cast<double>(fox.trace->per_token_loss()[100])) + " nats"));
  QVERIFY(told.contains("distance 40"));
  QVERIFY(told.contains("F " + number(reading.forget)));
  QVERIFY(told.contains("A " + number(reading.attention)));
  QVERIFY(told.contains("logit " + number(reading.logit) + " nats"));
  QVERIFY(told.contains("log F " + number(reading.log_forget) + " nats"));
}

void WindowTest::theReadoutNamesMeansOfChannels() {
  Window test;
  foxscope::test::SyntheticRun run;
  run.mixers = {foxscope::test::all_mixers()[2], foxscope::test::all_mixers()[4]};  // GLA, and DeltaNet without a decay
  run.keep = {Keep::loss, Keep::gates, Keep::query_key, Keep::values};
  const std::shared_ptr<const Trace> traces[] = {foxscope::test::make_trace(run)};
  const QString path = test.folder.path("run.h5");
  write_run_file(path.toStdString(), traces, {"test", ""}, Overwrite::force, {});
  test.document().open({path});
  QVERIFY(test.settle());
  const Run& shown = test.document().runs()[0];
  test.document().runs().selection().setHead({shown.id, 0, 1});
  test.document().runs().selection().setPin({30, 10});
  QVERIFY(test.settle());
  const PairReading reading = pair_reading({shown.trace, 0, 1}, 30, 10);
  QVERIFY(reading.forget > 1.01 * std::exp(reading.log_forget));
  const auto told = [&test] { return test.window.findChild<Readout*>()->text(); };
  const auto number = [](double value) { return numberOf(value, 3); };
  QVERIFY2(told().contains("F " + number(reading.forget) + " (mean of channels)"), qPrintable(told()));
  QVERIFY2(told().contains("log F " + number(reading.log_forget) + " nats (mean of channels)"), qPrintable(told()));
  test.document().runs().selection().setHead({shown.id, 1, 1});
  QVERIFY(test.settle());
  QVERIFY2(told().contains("layer 1, head 1") && !told().contains("F "), qPrintable(told()));
}

void WindowTest::thePaletteFindsCommands() {
  Window test;
  QVERIFY(test.run(32));
  QStringList shown;
  QString first;
  QTimer::singleShot(0, &test.window, [&] {
    auto* palette = qobject_cast<CommandPalette*>(QApplication::activePopupWidget());
    if (palette == nullptr) return;
    auto* input = palette->findChild<QLineEdit*>();
    // What begins so is first, and what Return does.
    QTest::keyClicks(input, "show sal");
    first = palette->shownTexts().value(0);
    input->clear();
    QTest::keyClicks(input, "entropy heads");
    shown = palette->shownTexts();
    QTest::keyClick(input, Qt::Key_Return);
  });
  press(test.window, QKeySequence("Ctrl+K"));
  QTRY_COMPARE(shown, QStringList{"Colour heads by entropy"});
  QCOMPARE(first, "Show saliency along the text");
  QTRY_COMPARE(test.window.headsView().colouring().quantity, HeadQuantity::entropy);
}

void WindowTest::everyShortcutIsThereOnce() {
  Window test;
  QMap<QString, QStringList> users;
  for (const QAction* action : test.window.commands()) {
    QVERIFY2(!plainText(*action).isEmpty(), "a command without a name");
    for (const QKeySequence& keys : action->shortcuts()) users[keys.toString()] += plainText(*action);
  }
  for (auto entry = users.begin(); entry != users.end(); ++entry) {
    QVERIFY2(entry->size() == 1, qPrintable(entry.key() + ": " + entry->join(", ")));
  }
  for (const char* keys :
       {"Ctrl+O", "Ctrl+Shift+O", "F5", "Ctrl+K", "Ctrl+,", "Ctrl+C", "Ctrl+E", "Ctrl+S", "Ctrl+0", "Ctrl+F", "F1"}) {
    QVERIFY2(users.contains(keys), keys);
  }
  ShortcutSheet sheet(test.window.commands(), &test.window);
  QVERIFY(!sheet.grab().isNull());
}

void WindowTest::messagesLeaveTheStateAlone() {
  Window test;
  QVERIFY(test.run(64));
  const RunId before = test.document().runs()[0].id;
  test.document().open({test.folder.write("bad.txt", "\xff\xfe\xff"), test.folder.path("nowhere"),
                        test.folder.write("new.json", R"({"foxscope_session": 7})")});
  QVERIFY(test.settle());
  QVERIFY(test.said("bad.txt"));
  QVERIFY(test.said("there is no such file or folder"));
  QVERIFY(test.said("newer version"));
  QCOMPARE(test.window.messages().size(), 3);
  QCOMPARE(test.document().runs()[0].id, before);
  QVERIFY(test.window.maps().figureOfActivePane().has_value());
  // The same message is not said twice, and closing it removes it.
  test.document().open({test.folder.path("nowhere")});
  QVERIFY(test.settle());
  QCOMPARE(test.window.messages().size(), 3);
}

void WindowTest::closingDuringARunEnds() {
  auto test = std::make_unique<Window>();
  test->document().open({foxModel(), sampleText()});
  QVERIFY(waitUntilIdle(test->document()));
  test->document().modelRuns().startRun();
  test->window.close();
  test.reset();
  QCoreApplication::processEvents();
}

void WindowTest::keysWorkAnywhereButWhereOneTypes() {
  Window test;
  QVERIFY(test.run(64));
  MapsView& maps = test.window.maps();
  test.window.headsView().setTab(HeadsView::Tab::table);
  QTableView& table = test.window.headsView().table();
  auto* page = test.window.text().findChild<TextPage*>();
  const HeadChoice head = test.document().runs().selection().head();
  const QList<QWidget*> places{&table, test.window.headsView().findChild<QComboBox*>(), page, &test.window.curves(),
                               &maps.pane(0).plot()};
  for (QWidget* place : places) {
    place->setFocus();
    maps.setPaneCount(2);
    PaneState state = maps.paneState(maps.activePane());
    state.setQuantity(Quantity::forget);
    state.setSides(Sides::left);
    maps.setPaneState(maps.activePane(), state);
    QTest::keyClick(place, Qt::Key_4);
    QCOMPARE(maps.paneCount(), 4);
    QTest::keyClick(place, Qt::Key_1);
    QCOMPARE(maps.paneCount(), 1);
    QTest::keyClick(place, Qt::Key_Q);
    QVERIFY(maps.paneState(maps.activePane()).quantity != Quantity::forget);
    QTest::keyClick(place, Qt::Key_D);
    QCOMPARE(maps.paneState(maps.activePane()).sides, Sides::difference);
    QTest::keyClick(place, Qt::Key_A);
    QCOMPARE(maps.paneState(maps.activePane()).sides, Sides::left);
    test.document().runs().selection().resetView(64);
    QTest::keyClick(place, Qt::Key_Plus);
    QVERIFY(test.document().runs().selection().view().rows.size() < 64);
    // Numbers and letters that are no keys choose nothing either.
    QTest::keyClick(place, Qt::Key_3);
    QVERIFY(test.document().runs().selection().head() == head);
  }
  // Where one types, they are letters and numbers.
  for (QAction* action : test.window.commands()) {
    if (action->text() == "Edit text or show run") action->trigger();
  }
  auto* editor = test.window.text().findChild<TextEditor*>();
  QVERIFY(editor->isVisible());
  editor->setFocus();
  QTest::keyClicks(editor, "4ABVHDNQCLK+-2");
  QVERIFY(QString::fromStdString(test.document().modelRuns().text().content).startsWith("4ABVHDNQCLK+-2"));
  QCOMPARE(maps.paneCount(), 1);
  auto* limit = test.window.findChild<RunBar*>()->findChild<QSpinBox*>();
  limit->setFocus();
  limit->selectAll();
  QTest::keyClicks(limit, "42");
  QTest::keyClick(limit, Qt::Key_Return);
  QCOMPARE(limit->value(), 42);
  QCOMPARE(maps.paneCount(), 1);
  QVERIFY(maps.paneState(maps.activePane()).sides == Sides::left);
}

void WindowTest::preferencesAreNamedAndTaken() {
  Window test;
  Settings& settings = test.window.settings();
  const ThemeChoice before = settings.theme();
  Preferences dialog(test.document().modelRuns(), settings, nullptr);
  for (const auto* field : dialog.findChildren<QComboBox*>()) {
    const auto labels = dialog.findChildren<QLabel*>();
    QVERIFY(std::any_of(labels.begin(), labels.end(),
                        [&](const QLabel* label) { return label->buddy() == field && !label->text().isEmpty(); }));
  }
  const auto choose = [&](const QString& label, const QString& value) {
    for (const auto* each : dialog.findChildren<QLabel*>()) {
      if (each->text() == label) qobject_cast<QComboBox*>(each->buddy())->setCurrentText(value);
    }
  };
  choose("&Theme", "dark");
  choose("&Device", "cpu");
  choose("&Precision", "bfloat16");
  dialog.findChild<QCheckBox*>()->setChecked(false);
  QVERIFY(test.document().modelRuns().settings().keepQueryKey);
  dialog.accept();
  QCOMPARE(settings.theme(), ThemeChoice::dark);
  QVERIFY(test.document().modelRuns().settings().device == (DeviceChoice{DeviceChoice::Kind::cpu, {}}));
  QVERIFY(test.document().modelRuns().settings().dtype == DType::bfloat16);
  QVERIFY(!test.document().modelRuns().settings().keepQueryKey);
  settings.setTheme(before);
}

}  // namespace foxscope::gui::test

FOXSCOPE_GUI_SUBJECT(window, foxscope::gui::test::WindowTest)
#include "window_test.moc"
