#include <QAbstractButton>
#include <QApplication>
#include <QComboBox>
#include <QSignalSpy>
#include <QStyleOptionComboBox>
#include <QTest>

#include "app/gui/text/text_readout.h"
#include "app/gui/text/tint_bar.h"
#include "app/gui/text/tint_legend.h"
#include "app/gui/views/expert_colours.h"
#include "app/gui/views/theme.h"
#include "backend/map/statistics/expert_use.h"
#include "tests/gui/subject.h"
#include "tests/gui/text/text_shown.h"

namespace foxscope::gui::test {

class TextViewTintTest : public QObject {
  Q_OBJECT

 private slots:
  void aRowFollowsThePinOrThePointer();
  void differencesTakeTwoRuns();
  void choicesAreReadInANarrowDock();
  void runsAreChosenByName();
  void hiddenRunsDoNotTint();
  void otherTokensAreMappedAndItIsSaid();
  void aModelWithoutGatesSaysSo();
  void aRunWithoutQueriesAndKeysSaysSo();
  void theScaleIsShownWithItsEndsAndUnit();
  void expertsHaveAColourEach();
  void expertsAreOfferedWhereARunHasThem();
  void theTintIsPainted();
  void coloursFollowThePalette();
  void saliencySaysOfWhichLossItIs();
  void saliencyThatIsMissingIsComputedByAButton();
};

void TextViewTintTest::aRowFollowsThePinOrThePointer() {
  Shown shown({words(120)});
  QVERIFY(shown.came());
  QVERIFY(shown.choose(TintKind::forgetRow));
  QVERIFY(shown.page->tint() == nullptr);
  QCOMPARE(shown.tools->caption(), "click a word to pin it as query");
  shown.hover(40);  // nothing is pinned: the pointer shows its own
  QVERIFY(shown.settle());
  QCOMPARE(shown.page->tint()->lastReadCell, 40);
  shown.click(50);
  shown.hover(60);
  QVERIFY(shown.settle());
  QCOMPARE(shown.page->tint()->lastReadCell, 50);
  QVERIFY(shown.tools->caption().contains("query 50 “"));
  QVERIFY(shown.tools->caption().contains("(pinned)"));
  for (auto* button : shown.tools->findChildren<QAbstractButton*>()) {
    if (button->accessibleName() == "Follow pointer") QTest::mouseClick(button, Qt::LeftButton);
  }
  shown.hover(61);
  QVERIFY(shown.settle());
  QCOMPARE(shown.page->tint()->lastReadCell, 61);
  QVERIFY(shown.tools->caption().contains("(under the pointer)"));
  // Another head, another row.
  const float before = shown.valueAt(30);
  shown.selection().setHead({shown.document.runs().reference()->id, 0, 1});
  QVERIFY(shown.settle());
  QVERIFY(shown.valueAt(30) != before);
}

void TextViewTintTest::differencesTakeTwoRuns() {
  const TextRun run = words(120);
  Shown shown({run, second(run)});
  QVERIFY(shown.came());
  QVERIFY(shown.choose(TintKind::lossDifference));
  const auto& runs = shown.document.runs();
  QCOMPARE(shown.valueAt(7), runs[0].trace->per_token_loss()[6] - runs[1].trace->per_token_loss()[6]);
  QCOMPARE(shown.tools->caption(), "loss of fox minus second, at the word predicted");
}

void TextViewTintTest::saliencySaysOfWhichLossItIs() {
  TextRun run = words(120);
  Shown without({run});
  QVERIFY(without.came());
  QVERIFY(without.choose(TintKind::saliency));
  QVERIFY(without.tools->caption().startsWith("fox comes from a file, and its saliency needs its model"));
  QVERIFY(!without.view.findChild<QToolButton*>("tintRemedy")->isVisible());
  // A run of a file is not made again.
  QSignalSpy messages(&without.document, &Document::messageRaised);
  for (QAction* command : without.view.commands()) {
    if (command->text().startsWith("Compute saliency")) command->trigger();
  }
  QCOMPARE(messages.size(), 2);
  QVERIFY(messages[1][0].value<Message>().text.startsWith("fox comes from a file, and its saliency needs its model"));
  run.keep.insert(Keep::saliency);
  Shown shown({run});
  QVERIFY(shown.came());
  QVERIFY(shown.choose(TintKind::saliency));
  // A number stays in one line with its sign.
  QCOMPARE(shown.tools->caption(),
           "raising f of fox L0 H0 at a word by 1\u00a0% changes the loss of position 7 by this");
  QCOMPARE(shown.valueAt(7), 0.01F * shown.document.runs()[0].trace->log_forget_gradient(0, 0)[7]);
  QVERIFY(shown.choose(TintKind::keyLogit));
  QCOMPARE(shown.tools->caption(),
           "0.01 more in the logits of a word as a key of fox L0 H0 changes the loss of position 7 by this");
}

void TextViewTintTest::saliencyThatIsMissingIsComputedByAButton() {
  Shown shown({});
  QVERIFY(runDemo(shown.document, 48));
  QVERIFY(shown.choose(TintKind::saliency));
  const QString name = shown.document.runs()[0].name;
  shown.selection().setHead({shown.document.runs()[0].id, 0, 0});
  QVERIFY(shown.settle());
  QCOMPARE(shown.tools->caption(), name + " has no saliency yet");
  auto* button = shown.view.findChild<QToolButton*>("tintRemedy");
  QVERIFY(button->isVisible());
  QCOMPARE(button->text(), "Compute Saliency");
  // Not while the text to be read is written.
  const auto edit = [&] {
    for (QAction* command : shown.view.commands()) {
      if (command->text() == "Edit text or show run") command->trigger();
    }
  };
  edit();
  QVERIFY(!button->isVisible());
  edit();
  QVERIFY(button->isVisible());
  QTest::mouseClick(button, Qt::LeftButton);
  QVERIFY(!button->isEnabled());
  QVERIFY(waitUntilIdle(shown.document) && shown.settle());
  QVERIFY2(shown.tools->caption().startsWith("raising f of " + name), qPrintable(shown.tools->caption()));
  QVERIFY(!button->isVisible());
}

// What is chosen is shown whole, in as many rows as it takes; only a long name loses its middle.
void TextViewTintTest::choicesAreReadInANarrowDock() {
  const TextRun run = words(120);
  Shown shown({run, second(run)});
  QVERIFY(shown.came());
  shown.view.resize(250, 420);
  const auto room = [](const QComboBox& combo) {
    QStyleOptionComboBox option;
    option.initFrom(&combo);
    return combo.style()->subControlRect(QStyle::CC_ComboBox, &option, QStyle::SC_ComboBoxEditField, &combo).width();
  };
  for (const TintKind kind : {TintKind::lossDifference, TintKind::loss, TintKind::forgetRow, TintKind::ungatedRow}) {
    QVERIFY(shown.choose(kind));
    QCoreApplication::processEvents();
    QList<QWidget*> choices;
    for (auto* widget : shown.tools->findChildren<QWidget*>()) {
      const bool choice =
          qobject_cast<QComboBox*>(widget) != nullptr || qobject_cast<QAbstractButton*>(widget) != nullptr;
      if (choice && widget->isVisible()) choices += widget;
    }
    QVERIFY(choices.size() >= 4);
    QList<QRect> places;
    for (const QWidget* choice : choices) {
      const QRect place(choice->mapTo(shown.tools, QPoint()), choice->size());
      QVERIFY(shown.tools->rect().contains(place));
      for (const QRect& other : places) QVERIFY(!place.intersects(other));
      places += place;
      if (const auto* combo = qobject_cast<const QComboBox*>(choice)) {
        QVERIFY(room(*combo) > combo->fontMetrics().horizontalAdvance(combo->currentText()));
      } else {
        QVERIFY(place.width() >= choice->minimumSizeHint().width());
      }
    }
  }
  RunLook look;
  look.label = QString(80, 'n');
  shown.document.runs().setLook(shown.document.runs().listRows()[0], look);
  QVERIFY(shown.choose(TintKind::loss));
  QCOMPARE(shown.view.width(), 250);
}

void TextViewTintTest::runsAreChosenByName() {
  const TextRun run = words(120);
  Shown shown({run, second(run)});
  QVERIFY(shown.came());
  for (auto* combo : shown.tools->findChildren<QComboBox*>()) {
    if (combo->accessibleName() != "Run") continue;
    QVERIFY(combo->isVisible());
    combo->setCurrentIndex(1);
    emit combo->textActivated(combo->currentText());
  }
  QVERIFY(shown.settle());
  QCOMPARE(shown.valueAt(7), shown.document.runs()[1].trace->per_token_loss()[6]);
  QVERIFY(shown.tools->caption().startsWith("loss of second"));
}

void TextViewTintTest::hiddenRunsDoNotTint() {
  const TextRun run = words(120);
  Shown shown({run, second(run)});
  QVERIFY(shown.came());
  QVERIFY(shown.choose(TintKind::loss));
  const auto hide = [&](std::size_t row) {
    RunLook look = shown.document.runs().lookOf(shown.document.runs().listRows()[row]);
    look.hidden = true;
    shown.document.runs().setLook(shown.document.runs().listRows()[row], look);
    return shown.settle();
  };
  const QString first = shown.document.runs()[0].name;
  const QString other = shown.document.runs()[1].name;
  QVERIFY(shown.tools->caption().contains("loss of " + first));
  QVERIFY(hide(0));
  QVERIFY2(shown.tools->caption().contains("loss of " + other), qPrintable(shown.tools->caption()));
  // The text stays when the last of its runs is hidden.
  QVERIFY(hide(1));
  QVERIFY(shown.page->tint() != nullptr);
}

void TextViewTintTest::otherTokensAreMappedAndItIsSaid() {
  const TextRun run = words(120);
  TextRun other = second(run);
  other.tokens = cutEvery(other.text, 3);
  Shown shown({run, other});
  QVERIFY(shown.came());
  QVERIFY(!shown.tools->caption().contains("place"));
  shown.view.restoreState({{"tint", "loss"}, {"run", "second"}});
  QVERIFY(shown.settle());
  QVERIFY(shown.tools->caption().endsWith("other tokens, matched by their place in the text"));
  const std::int64_t byte = run.tokens[50].first;
  QCOMPARE(shown.valueAt(51), shown.document.runs()[1].trace->per_token_loss()[index_of(byte / 3)]);
}

void TextViewTintTest::aModelWithoutGatesSaysSo() {
  TextRun run = words(120);
  run.gated = false;
  Shown shown({run});
  QVERIFY(shown.came());
  QVERIFY(shown.choose(TintKind::gate));
  QCOMPARE(shown.tools->caption(), "fox has no forget gate: f = 1, F = 1 everywhere");
  QCOMPARE(shown.valueAt(60), 0.0F);
}

void TextViewTintTest::aRunWithoutQueriesAndKeysSaysSo() {
  TextRun run = words(120);
  run.keep = {Keep::loss, Keep::gates, Keep::rows};
  Shown shown({run});
  QVERIFY(shown.came());
  shown.click(50);
  QVERIFY(shown.choose(TintKind::attentionRow));
  QVERIFY(shown.page->tint() == nullptr);
  QVERIFY2(shown.tools->caption().contains("did not keep"), qPrintable(shown.tools->caption()));
  QVERIFY(shown.choose(TintKind::forgetRow));
  QCOMPARE(shown.valueAt(50), 1.0F);
}

void TextViewTintTest::theScaleIsShownWithItsEndsAndUnit() {
  Shown shown({words(500)});
  QVERIFY(shown.came());
  const auto* bar = shown.tools->findChild<TintBar*>();
  QVERIFY(bar->isVisible());
  QCOMPARE(bar->lowerText(), "0");
  QVERIFY(bar->upperText().startsWith("≥ ") && bar->upperText().endsWith(" nats"));
  QVERIFY(shown.choose(TintKind::gate));
  QVERIFY(bar->lowerText().endsWith("0.0001"));
  QCOMPARE(bar->upperText(), "1");
  for (auto* button : shown.tools->findChildren<QAbstractButton*>()) {
    if (button->accessibleName() == "Log") QTest::mouseClick(button, Qt::LeftButton);
  }
  QVERIFY(shown.settle());
  QCOMPARE(bar->lowerText(), "0");
  QVERIFY(shown.choose(TintKind::none));
  QVERIFY(!bar->isVisible());
}

TextRun mixture(int experts) {
  TextRun run = words(300);
  run.experts = experts;
  run.keep.insert(Keep::experts);
  return run;
}

void TextViewTintTest::expertsHaveAColourEach() {
  QApplication::setPalette(lightPalette());
  Shown shown({mixture(9)});
  QVERIFY(shown.came());
  QVERIFY(shown.choose(TintKind::expert));
  const Tint& tint = *shown.page->tint();
  const auto heaviest = heaviest_experts(shown.trace(), 0);
  std::map<int, std::int64_t> counted;
  for (const ReadExpert& each : heaviest) ++counted[each.expert];
  QCOMPARE(tint.experts.number, ExpertColours::coloured(counted));
  QCOMPARE(tint.experts.number.size(), static_cast<std::size_t>(ExpertColours::kHues));
  double all = tint.experts.others;
  for (const double share : tint.experts.share) all += share;
  QVERIFY(std::abs(all - 1) < 1e-12 && tint.experts.others > 0);
  const ExpertColours colours(shown.page->palette());
  for (const std::int64_t cell : {0, 1, 40, 299}) {
    const ReadExpert& expert = heaviest[index_of(cell)];
    QCOMPARE(shown.valueAt(cell), static_cast<float>(expert.weight));
    const int hue = ExpertColours::hueOf(expert.expert, tint.experts.number);
    QCOMPARE(shown.page->tintColour(cell), colours.at(hue, expert.weight / tint.scale.upper));
  }
  // No position reads the last word.
  QVERIFY(!shown.page->tintColour(300).isValid());
  const auto* legend = shown.tools->findChild<TintLegend*>();
  QVERIFY(legend->isVisible() && !shown.tools->findChild<TintBar*>()->isVisible());
  QCOMPARE(legend->texts().size(), ExpertColours::kHues + 1);
  QCOMPARE(legend->texts().front(), QString::number(tint.experts.number.front()));
  QCOMPARE(legend->texts().back(), "others");
  ReadoutRequest readout;
  readout.reference = shown.document.runs().reference()->trace;
  readout.runs = {{"fox", readout.reference}};
  readout.headRun = 0;
  readout.cell = 40;
  const std::vector<ReadExpert> read = experts_read(shown.trace(), 0, 40);
  const auto words = [](const ReadExpert& each) {
    return QStringLiteral("%1 (%2)").arg(each.expert).arg(QString::number(each.weight, 'g', 2));
  };
  QVERIFY2(readoutOf(readout).contains("experts of fox L0: " + words(read[0]) + ", " + words(read[1])),
           qPrintable(readoutOf(readout)));
  // In a narrow dock it takes more rows.
  QVERIFY(legend->heightForWidth(80) > legend->heightForWidth(2000));
  QVERIFY2(
      shown.tools->caption().startsWith("heaviest expert of fox L0, at the word read; the stronger, the more weight"),
      qPrintable(shown.tools->caption()));
  for (auto* button : shown.tools->findChildren<QAbstractButton*>()) {
    if (button->accessibleName() == "Log") QVERIFY(!button->isVisible());
  }
  QVERIFY(shown.choose(TintKind::loss));
  QVERIFY(!legend->isVisible());
  // Few experts have a colour each, by number.
  Shown few({mixture(3)});
  QVERIFY(few.came());
  QVERIFY(few.choose(TintKind::expert));
  QCOMPARE(few.page->tint()->experts.number, (std::vector<int>{0, 1, 2}));
  QCOMPARE(few.tools->findChild<TintLegend*>()->texts(), (QStringList{"0", "1", "2"}));
}

void TextViewTintTest::expertsAreOfferedWhereARunHasThem() {
  const auto offered = [](const Shown& shown) {
    for (const QComboBox* combo : shown.tools->findChildren<QComboBox*>()) {
      if (combo->accessibleName() == "Tint") return combo->findData(toString(TintKind::expert)) >= 0;
    }
    return false;
  };
  Shown without({words(120)});
  QVERIFY(without.came());
  QVERIFY(!offered(without));
  QVERIFY(!without.command("Tint text: Expert of the layer")->isVisible());
  // A session may ask for it all the same.
  without.view.restoreState({{"tint", "expert"}});
  QVERIFY(without.settle());
  QVERIFY(offered(without) && without.page->tint() == nullptr);
  QCOMPARE(without.tools->caption(), "the file of fox holds no experts: write it with foxscope run --keep experts");
  Shown with({mixture(4)});
  QVERIFY(with.came());
  QVERIFY(offered(with));
  QVERIFY(with.command("Tint text: Expert of the layer")->isVisible());
  Shown layer({mixture(-1)});
  QVERIFY(layer.came());
  QVERIFY(layer.choose(TintKind::expert));
  QVERIFY(layer.page->tint() == nullptr);
  QCOMPARE(layer.tools->caption(), "model 'fox': layer 0 has no experts");
}

void TextViewTintTest::theTintIsPainted() {
  Shown shown({words(120)});
  QVERIFY(shown.came());
  const QImage picture = shown.page->viewport()->grab().toImage();
  for (const std::int64_t cell : {1, 20, 55, 90}) {
    // At the upper edge of the cell no letter reaches.
    const QRectF rect = shown.page->cellRect(cell);
    const QPoint point(static_cast<int>(rect.center().x()), static_cast<int>(rect.top()) + 2);
    QCOMPARE(picture.pixelColor(point), shown.page->tintColour(cell));
  }
}

void TextViewTintTest::coloursFollowThePalette() {
  Shown shown({words(120)});
  QVERIFY(shown.came());
  QApplication::setPalette(lightPalette());
  const QColor light = shown.page->tintColour(30);
  QApplication::setPalette(darkPalette());
  QCoreApplication::processEvents();
  const QColor dark = shown.page->tintColour(30);
  QVERIFY(light != dark);
  const QImage picture = shown.page->viewport()->grab().toImage();
  QCOMPARE(picture.pixelColor(0, 0), darkPalette().color(QPalette::Base));
  QApplication::setPalette(lightPalette());
}

}  // namespace foxscope::gui::test

FOXSCOPE_GUI_SUBJECT(text_view_tint, foxscope::gui::test::TextViewTintTest)
#include "backend/base/index.h"
#include "text_view_tint_test.moc"
