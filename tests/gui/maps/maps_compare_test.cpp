#include <cmath>

#include <QJsonArray>
#include <QMenu>
#include <QPushButton>
#include <QSignalSpy>
#include <QTest>

#include "app/figure/colour_scale.h"
#include "app/gui/document/number_text.h"
#include "app/gui/maps/pane/pane_header.h"
#include "backend/file/run_file.h"
#include "backend/map/map.h"
#include "tests/gui/maps/support.h"
#include "tests/gui/subject.h"

namespace foxscope::gui::test {
namespace {

using foxscope::test::make_trace;
using foxscope::test::SyntheticRun;

std::shared_ptr<const Trace> traceOfSeed(const std::string& name, unsigned seed, bool gated = true) {
  SyntheticRun run;
  run.name = name;
  run.seed = seed;
  run.gated = gated;
  run.length = 150;
  return make_trace(run);
}

/// Two models on one text; the first pane, alone, shows attention.
class TwoModels : public OpenMaps {
 public:
  TwoModels() : OpenMaps({traceOfSeed("fox", 1), traceOfSeed("transformer", 2, false)}) {
    view.setPaneCount(1);
    setQuantity(Quantity::attention);
    settle();
    plot().setFocus();
  }

  void press(Qt::Key key, Qt::KeyboardModifiers modifiers = {}) {
    QTest::keyClick(&plot(), key, modifiers);
    settle();
  }

  float entry(const std::string& run, int layer, int head, std::int64_t row, std::int64_t column) {
    for (const Run& each : document.runs()) {
      if (each.name.toStdString() != run) continue;
      const MapRequest request{{each.trace, layer, head},
                               Quantity::attention,
                               Reduction::max,
                               {row, row + 1},
                               {column, column + 1},
                               1,
                               1,
                               {},
                               0};
      return compute_map(request, {})->value.front();
    }
    return 0;
  }
};

}  // namespace

class MapsCompareTest : public QObject {
  Q_OBJECT

 private slots:
  void keysChooseTheSide();
  void titlesKeepTheModelsNames();
  void namesThatBeginAlikeAreToldApart();
  void splitShowsBothSides();
  void dividerIsDragged();
  void differenceIsEntryByEntry();
  void otherHeadIsChosenFreely();
  void nearestHeadIsOffered();
  void twoHeadsOfOneModel();
  void nothingToCompareWith();
  void otherTokensAreComparedByPlace();
  void aRunIsBlankBeyondItsEnd();
  void aSideThatEndsIsBlankBesideTheOther();
  void modelWithoutGates();
  void aModelAloneWithoutGatesOpensOnItsAttention();
  void panesKeepTheirOwnHead();
  void runsGoAndComeBack();
  void stateComesBack();
  void figureHoldsWhatIsShown();
  void exportsAreAsShown();
  void theFirstKeyIsLeftOut();
  void theFirstKeyOfOnePaneIsLeftOutFromItsMenus();
  void runsOnOtherTextsHaveTheirOwnAxes();
  void controlsChooseHeads();
};

void MapsCompareTest::keysChooseTheSide() {
  TwoModels maps;
  QCOMPARE(maps.pane().titleText(), "fox L0 H0 · attention A");
  QCOMPARE(maps.pane().picture()->value(0, 90, 70), maps.entry("fox", 0, 0, 90, 70));
  maps.press(Qt::Key_B);
  QCOMPARE(maps.pane().titleText(), "transformer L0 H0 · attention A");
  QCOMPARE(maps.pane().picture()->value(0, 90, 70), maps.entry("transformer", 0, 0, 90, 70));
  maps.press(Qt::Key_V);
  QCOMPARE(maps.view.paneState(0).sides, Sides::splitVertically);
  maps.press(Qt::Key_H);
  QCOMPARE(maps.view.paneState(0).sides, Sides::splitHorizontally);
  QCOMPARE(maps.pane().titleText(), "A: fox L0 H0 | B: transformer L0 H0 · attention A");
  maps.press(Qt::Key_A);
  QCOMPARE(maps.pane().titleText(), "fox L0 H0 · attention A");
}

// As narrow as two panes are in a small window, whatever is compared.
void MapsCompareTest::titlesKeepTheModelsNames() {
  OpenMaps maps({traceOfSeed("fox-pro-12m", 1), traceOfSeed("transformer-pro-12m", 2, false)});
  maps.view.setPaneCount(2);
  maps.setQuantity(Quantity::attention);
  maps.plot().setFocus();
  const auto* header = maps.pane().findChild<PaneHeader*>();
  const auto titleAt = [&](int width, Qt::Key key) {
    maps.view.resize(width, 400);
    QTest::keyClick(&maps.plot(), key);
    return maps.settle() ? header->title() : QString();
  };
  QCOMPARE(titleAt(1400, Qt::Key_D), "fox-pro-12m L0 H0 − transformer-pro-12m L0 H0");
  for (const int width : {600, 700, 800}) {
    QVERIFY2(titleAt(width, Qt::Key_A).startsWith("fox"), qPrintable(header->title()));
    QVERIFY2(titleAt(width, Qt::Key_B).startsWith("tra"), qPrintable(header->title()));
    QVERIFY2(header->title().endsWith(" L0 H0"), qPrintable(header->title()));
    for (const Qt::Key key : {Qt::Key_D, Qt::Key_V, Qt::Key_H}) {
      const QString title = titleAt(width, key);
      QVERIFY2(title.contains("fox") && title.contains("tra"), qPrintable(QString("%1: %2").arg(width).arg(title)));
      QVERIFY2(title.count("L0 H0") == 2, qPrintable(QString("%1: %2").arg(width).arg(title)));
    }
  }
}

void MapsCompareTest::namesThatBeginAlikeAreToldApart() {
  OpenMaps maps({traceOfSeed("fox-pro-12m", 1), traceOfSeed("fox-pro-12m-cut", 2)});
  maps.view.setPaneCount(1);
  maps.plot().setFocus();
  maps.view.resize(470, 400);
  QTest::keyClick(&maps.plot(), Qt::Key_D);
  QVERIFY(maps.settle());
  const QString title = maps.pane().findChild<PaneHeader*>()->title();
  QVERIFY2(title.size() < QString("fox-pro-12m L0 H0 − fox-pro-12m-cut L0 H0").size(), qPrintable(title));
  QVERIFY2(title.contains("m L0 H0") && title.contains("t L0 H0"), qPrintable(title));
}

void MapsCompareTest::splitShowsBothSides() {
  TwoModels maps;
  maps.press(Qt::Key_V);
  const PicturePointer picture = maps.pane().picture();
  QCOMPARE(picture->images.size(), std::size_t{2});
  const QImage grabbed = maps.grabPlot();
  // Left of the middle the one, right of it the other, in the same colours.
  const auto colourOf = [&](std::size_t side, std::int64_t row, std::int64_t column) {
    const figure::Rgb colour = picture->colours.colour(picture->value(side, row, column));
    return qRgb(colour.red, colour.green, colour.blue);
  };
  QVERIFY(sameColour(grabbed.pixel(maps.cell(120, 30)), colourOf(0, 120, 30)));
  QVERIFY(sameColour(grabbed.pixel(maps.cell(120, 100)), colourOf(1, 120, 100)));
  QCOMPARE(picture->value(1, 120, 100), maps.entry("transformer", 0, 0, 120, 100));
  // The value under the pointer is that of the side.
  maps.moveTo(maps.cell(120, 100));
  QVERIFY(maps.settle());
  QVERIFY(maps.pane().readoutText().startsWith(
      QString("A = %1 ·").arg(numberOf(static_cast<double>(maps.entry("transformer", 0, 0, 120, 100)), 3))));
  maps.moveTo(maps.cell(120, 30));
  QVERIFY(maps.settle());
  QVERIFY(maps.pane().readoutText().startsWith(
      QString("A = %1 ·").arg(numberOf(static_cast<double>(maps.entry("fox", 0, 0, 120, 30)), 3))));
  maps.press(Qt::Key_H);
  const QImage stacked = maps.grabPlot();
  QVERIFY(sameColour(stacked.pixel(maps.cell(60, 40)), colourOf(0, 60, 40)));
  QVERIFY(sameColour(stacked.pixel(maps.cell(120, 30)), colourOf(1, 120, 30)));
}

void MapsCompareTest::dividerIsDragged() {
  TwoModels maps;
  maps.press(Qt::Key_V);
  const PicturePointer before = maps.pane().picture();
  const View view = maps.range();
  const QRect rect = maps.plot().geometryOfView().rect;
  const QPoint line(rect.left() + rect.width() / 2, rect.center().y());
  maps.drag(line, line + QPoint(-rect.width() / 4, 0));
  QVERIFY(maps.settle());
  QVERIFY(std::abs(maps.view.paneState(0).split - 0.25) < 0.02);
  QCOMPARE(maps.range(), view);
  QCOMPARE(maps.pane().picture()->values, before->values);
}

void MapsCompareTest::differenceIsEntryByEntry() {
  TwoModels maps;
  maps.press(Qt::Key_D);
  const PicturePointer picture = maps.pane().picture();
  QCOMPARE(maps.pane().titleText(), "fox L0 H0 − transformer L0 H0 · attention A");
  QCOMPARE(picture->colours.lower, -picture->colours.upper);
  QCOMPARE(picture->colours.map, &figure::diverging());
  for (const auto& [row, column] : {std::pair{90, 70}, {149, 0}, {20, 20}}) {
    const float expected = maps.entry("fox", 0, 0, row, column) - maps.entry("transformer", 0, 0, row, column);
    QVERIFY(std::abs(picture->value(0, row, column) - expected) < 1e-6F);
  }
}

void MapsCompareTest::otherHeadIsChosenFreely() {
  TwoModels maps;
  PaneState state = maps.view.paneState(0);
  state.other = NamedHead{"transformer", 1, 3};
  state.setSides(Sides::right);
  maps.view.setPaneState(0, state);
  QVERIFY(maps.settle());
  QCOMPARE(maps.pane().titleText(), "transformer L1 H3 · attention A");
  state.other = NamedHead{"transformer", 7, 3};
  maps.view.setPaneState(0, state);
  QVERIFY(maps.settle());
  QVERIFY(!maps.pane().picture());
  QVERIFY(maps.pane().messageText().startsWith("There is no other head"));
}

void MapsCompareTest::nearestHeadIsOffered() {
  TwoModels maps;
  auto* header = maps.pane().findChild<PaneHeader*>();
  const auto button = [&]() -> QPushButton* {
    for (auto* each : header->findChildren<QPushButton*>()) {
      if (each->text().startsWith("Nearest")) return each;
    }
    return nullptr;
  };
  QVERIFY(button() && !button()->isEnabled());
  maps.view.setNearestHead([](const HeadChoice&, RunId) { return std::nullopt; });
  QVERIFY(maps.settle());
  QVERIFY(!button()->isEnabled());
  maps.view.setNearestHead([](const HeadChoice& head, RunId other) {
    return std::optional(HeadChoice{other, 1 - head.layer, 2});
  });
  QVERIFY(maps.settle());
  QVERIFY(button()->isEnabled());
  maps.press(Qt::Key_B);
  QCOMPARE(maps.pane().titleText(), "transformer L1 H2 · attention A");
  // It follows the head on this side, until it is kept.
  maps.document.runs().selection().setHead({maps.document.runs()[0].id, 1, 0});
  QVERIFY(maps.settle());
  QCOMPARE(maps.pane().titleText(), "transformer L0 H2 · attention A");
  maps.press(Qt::Key_N);
  QCOMPARE(maps.view.paneState(0).other, (NamedHead{"transformer", 0, 2}));
  // The pane showed the other head alone: beside its own it can be compared.
  QVERIFY(maps.view.paneState(0).sides == Sides::splitVertically);
}

void MapsCompareTest::twoHeadsOfOneModel() {
  OpenMaps maps({traceOfSeed("fox", 1)});
  maps.view.setPaneCount(1);
  PaneState state;
  state.setQuantity(Quantity::attention);
  state.setSides(Sides::difference);
  maps.view.setPaneState(0, state);
  QVERIFY(maps.settle());
  QCOMPARE(maps.pane().titleText(), "fox L0 H0 − fox L0 H1 · attention A");
  state.other = NamedHead{"fox", 1, 2};
  maps.view.setPaneState(0, state);
  QVERIFY(maps.settle());
  QCOMPARE(maps.pane().titleText(), "fox L0 H0 − fox L1 H2 · attention A");
}

void MapsCompareTest::nothingToCompareWith() {
  SyntheticRun run;
  run.heads = 1;
  run.key_heads = 1;
  OpenMaps maps({make_trace(run)});
  PaneState state = maps.view.paneState(0);
  state.setSides(Sides::splitVertically);
  maps.view.setPaneState(0, state);
  QVERIFY(maps.settle());
  QCOMPARE(maps.pane().messageText(), "There is no other head to compare with: choose one under “Compare”");
}

void MapsCompareTest::otherTokensAreComparedByPlace() {
  const auto fox = traceOfSeed("fox", 1);
  const auto pairs = withPairedTokens(*fox, "pairs");
  OpenMaps maps({fox, pairs});
  QCOMPARE(maps.document.runs().size(), std::size_t{2});
  maps.view.setPaneCount(1);
  PaneState state;
  state.setSides(Sides::difference);
  maps.view.setPaneState(0, state);
  QVERIFY(maps.settle());
  QCOMPARE(maps.pane().messageText(),
           "fox and pairs cut the text into different tokens: no difference. Compare by place in the text with A, B, V "
           "or H");
  state.setSides(Sides::right);
  maps.view.setPaneState(0, state);
  QVERIFY(maps.settle());
  QVERIFY2(maps.pane().detailText().endsWith("shown by place in the text"), qPrintable(maps.pane().detailText()));
  QCOMPARE(maps.pane().noteText(), "other tokens");
  const std::span<const double> c = pairs->cumulative_log_gate(0, 0);
  const std::int64_t i = maps.document.runs().positionIn(maps.document.runs()[1].id, 100).value();
  const std::int64_t j = maps.document.runs().positionIn(maps.document.runs()[1].id, 61).value();
  QVERIFY(i < 60 && j < 40);
  QCOMPARE(maps.pane().picture()->value(0, 100, 61), static_cast<float>(std::exp(c[index_of(i)] - c[index_of(j)])));
  // Axes and the read-out speak in the positions of the pane's own run, as export does.
  for (const QString& label : maps.plot().tickLabels(Qt::Vertical)) QVERIFY2(label.toInt() < 75, qPrintable(label));
  maps.document.runs().selection().setPin({100, 61});
  QVERIFY(maps.settle());
  QVERIFY2(maps.pane().readoutText().contains(QString("i %1 “").arg(i)), qPrintable(maps.pane().readoutText()));
  QCOMPARE(maps.view.requestOfActivePane()->rows, (Range{0, 75}));
  QCOMPARE(maps.view.figureOfActivePane()->image.rows, 75);
}

// What a second F5 over more tokens leaves beside its first result: one model's run over 150 tokens, the other's still
// over 60.
void MapsCompareTest::aRunIsBlankBeyondItsEnd() {
  const auto longer = traceOfSeed("fox", 1);
  const auto shorter = withFirstTokens(*longer, 60, "short");
  OpenMaps maps({longer, shorter});
  maps.view.setPaneCount(1);
  maps.document.runs().selection().setHead({maps.document.runs()[1].id, 1, 2});
  maps.document.runs().selection().setPin({140, 100});
  QVERIFY(maps.settle());
  QCOMPARE(maps.pane().titleText(), "short L1 H2 · forget F");
  QCOMPARE(maps.pane().detailText(), "one entry a pixel · exact · short was run over 60 tokens");
  QCOMPARE(maps.pane().noteText(), "short: 60 tokens");
  const PicturePointer picture = maps.pane().picture();
  const std::span<const double> c = shorter->cumulative_log_gate(1, 2);
  QCOMPARE(picture->value(0, 59, 20), static_cast<float>(std::exp(c[59] - c[20])));
  for (const auto& [row, column] : {std::pair{60, 20}, {140, 100}, {140, 59}, {20, 59}}) {
    QVERIFY(std::isnan(picture->value(0, row, column)));
  }
  QVERIFY2(maps.pane().readoutText().contains("i 140: not read in this run"), qPrintable(maps.pane().readoutText()));
  // Neither colours nor the cross of a pin nor ticks stand there.
  QImage plot = maps.plot().grab().toImage();
  for (const auto& [row, column] : {std::pair{140, 20}, {140, 100}, {149, 149}, {20, 100}, {61, 30}}) {
    QVERIFY(sameColour(plot.pixel(maps.cell(row, column)), maps.plot().groundColour().rgb()));
  }
  QVERIFY(!sameColour(plot.pixel(maps.cell(59, 55)), maps.plot().groundColour().rgb()));
  for (const QString& label : maps.plot().tickLabels(Qt::Vertical)) QVERIFY2(label.toInt() < 60, qPrintable(label));
  QVERIFY(maps.plot().tickLabels(Qt::Vertical).size() > 1);
  QCOMPARE(maps.view.requestOfActivePane()->rows, (Range{0, 60}));
  // A part of the text that the run has not read at all.
  maps.document.runs().selection().setView({{100, 140}, {80, 120}});
  QVERIFY(maps.settle());
  QVERIFY(!maps.pane().picture());
  QCOMPARE(maps.pane().messageText(), "short was run over 60 tokens and has read nothing here. Backspace goes back.");
  QVERIFY(!maps.view.requestOfActivePane());
  // Together they have no difference.
  maps.document.runs().selection().goBack();
  PaneState state = maps.view.paneState(0);
  state.setSides(Sides::difference);
  maps.view.setPaneState(0, state);
  QVERIFY(maps.settle());
  QCOMPARE(maps.pane().messageText(),
           "short was run over 60 tokens, fox over 150: no difference until both have read the same. Compare "
           "with A, B, V or H");
}

void MapsCompareTest::aSideThatEndsIsBlankBesideTheOther() {
  const auto longer = traceOfSeed("fox", 1);
  const auto shorter = withFirstTokens(*longer, 60, "short");
  OpenMaps maps({longer, shorter});
  maps.view.setPaneCount(1);
  PaneState state;
  state.setSides(Sides::splitVertically);
  maps.view.setPaneState(0, state);
  QVERIFY(maps.settle());
  const PicturePointer picture = maps.pane().picture();
  QCOMPARE(picture->values.size(), std::size_t{2});
  QCOMPARE(picture->value(1, 59, 20), picture->value(0, 59, 20));
  QVERIFY(!std::isnan(picture->value(0, 140, 100)));
  for (const auto& [row, column] : {std::pair{60, 20}, {140, 100}, {149, 0}}) {
    QVERIFY(std::isnan(picture->value(1, row, column)));
  }
  // Of a part that one side has not read the other is still shown, and the first side is what is exported.
  maps.document.runs().selection().setView({{100, 140}, {80, 120}});
  QVERIFY(maps.settle());
  QVERIFY(!std::isnan(maps.pane().picture()->value(0, 130, 100)));
  QVERIFY(std::isnan(maps.pane().picture()->value(1, 130, 100)));
  QCOMPARE(maps.view.requestOfActivePane()->rows, (Range{100, 140}));
}

void MapsCompareTest::modelWithoutGates() {
  TwoModels maps;
  maps.setQuantity(Quantity::forget);
  maps.press(Qt::Key_B);
  QCOMPARE(maps.pane().detailText(), "one entry a pixel · exact · no gates: nothing is forgotten");
  QCOMPARE(maps.pane().noteText(), "no gates");
  QCOMPARE(maps.pane().picture()->value(0, 149, 0), 1.0F);
  QCOMPARE(maps.pane().messageText(), QString());
  // Beside a model with gates it is said of which of the two.
  for (const Qt::Key key : {Qt::Key_V, Qt::Key_D}) {
    maps.press(key);
    QVERIFY2(maps.pane().detailText().endsWith("transformer has no gates: its F is 1"),
             qPrintable(maps.pane().detailText()));
    QCOMPARE(maps.pane().noteText(), "B: no gates");
  }
  maps.press(Qt::Key_A);
  QCOMPARE(maps.pane().noteText(), QString());
}

void MapsCompareTest::aModelAloneWithoutGatesOpensOnItsAttention() {
  OpenMaps alone({traceOfSeed("transformer", 2, false)});
  QVERIFY(alone.settle());
  QCOMPARE(alone.pane(0).titleText(), "transformer L0 H0 · attention A");
  QVERIFY2(alone.pane(1).titleText().contains("logit"), qPrintable(alone.pane(1).titleText()));
  OpenMaps both({traceOfSeed("transformer", 2, false), traceOfSeed("fox", 1)});
  QVERIFY(both.settle());
  QVERIFY(both.pane(0).titleText().endsWith("forget F"));
}

void MapsCompareTest::panesKeepTheirOwnHead() {
  TwoModels maps;
  maps.press(Qt::Key_2);
  QVERIFY(maps.settle());
  maps.press(Qt::Key_K);
  QCOMPARE(maps.view.paneState(0).own, (NamedHead{"fox", 0, 0}));
  maps.document.runs().selection().setHead({maps.document.runs()[0].id, 1, 1});
  QVERIFY(maps.settle());
  QCOMPARE(maps.pane().titleText(), "fox L0 H0 · attention A");
  maps.press(Qt::Key_K);
  QCOMPARE(maps.pane().titleText(), "fox L1 H1 · attention A");
}

void MapsCompareTest::runsGoAndComeBack() {
  TwoModels maps;
  PaneState state = maps.view.paneState(0);
  state.own = NamedHead{"transformer", 1, 2};
  maps.view.setPaneState(0, state);
  QVERIFY(maps.settle());
  QCOMPARE(maps.pane().titleText(), "transformer L1 H2 · attention A");
  maps.document.runs().removeRun(maps.document.runs()[1].id);
  QVERIFY(maps.settle());
  QVERIFY(!maps.pane().picture());
  QCOMPARE(maps.pane().messageText(), "transformer has no layer 1, head 2 here: choose another head");
  maps.document.clear();
  QVERIFY(maps.settle());
  QVERIFY(!maps.pane().isVisible());
}

void MapsCompareTest::stateComesBack() {
  TwoModels maps;
  PaneState state = maps.view.paneState(0);
  state.own = NamedHead{"fox", 1, 1};
  state.other = NamedHead{"transformer", 0, 3};
  state.setSides(Sides::splitHorizontally);
  state.split = 0.3;
  state.colours.map = figure::ColourMapName::magma;
  maps.view.setPaneState(0, state);
  maps.view.setPaneCount(4);
  maps.view.setActivePane(2);
  QVERIFY(maps.settle());
  const QJsonObject saved = maps.view.saveState();
  // Into a window that has no runs yet.
  Document document;
  MapsView other(document.runs());
  other.restoreState(saved);
  QCOMPARE(other.paneCount(), 4);
  QCOMPARE(other.activePane(), 2);
  for (int pane = 0; pane < MapsView::kMostPanes; ++pane) QCOMPARE(other.paneState(pane), maps.view.paneState(pane));
  QCOMPARE(other.saveState(), saved);
  // What makes no sense changes nothing.
  other.restoreState({{"pane_count", 3}, {"panes", QJsonArray{7, "x"}}, {"active", -5}});
  QCOMPARE(other.paneCount(), 4);
  QCOMPARE(other.paneState(0), state);
}

void MapsCompareTest::figureHoldsWhatIsShown() {
  TwoModels maps;
  maps.document.runs().selection().setView({{20, 120}, {10, 110}});
  maps.press(Qt::Key_D);
  const auto figure = maps.view.figureOfActivePane();
  QVERIFY(figure);
  const Image expected = compute_map(figure->request, {}).value();
  QCOMPARE(figure->request.rows, (Range{20, 120}));
  QCOMPARE(figure->image.rows, expected.rows);
  for (std::size_t n = 0; n < expected.value.size(); ++n) {
    QVERIFY(std::isnan(expected.value[n]) ? std::isnan(figure->image.value[n])
                                          : std::abs(expected.value[n] - figure->image.value[n]) < 1e-6F);
  }
  // The command is the export's, which knows the output's name (tests/gui/window/export_test.cpp).
  QVERIFY(figure->command.empty());
  const QImage picture = maps.view.grabActivePane();
  QVERIFY(picture.width() > 300 && picture.height() > 300);
}

// A file of another size has the values, limits and sides of the screen.
void MapsCompareTest::exportsAreAsShown() {
  TwoModels maps;
  maps.document.runs().selection().setView({{20, 120}, {10, 110}});
  maps.press(Qt::Key_C);
  for (const Qt::Key key : {Qt::Key_A, Qt::Key_D, Qt::Key_V, Qt::Key_H}) {
    maps.press(key);
    const auto shown = maps.view.shownMap();
    QVERIFY(shown);
    const MapPicture& picture = *maps.pane().picture();
    for (const PixelSize& pixels : {PixelSize{100, 100}, PixelSize{23, 31}}) {
      const auto figure = shown->figure(pixels, {});
      QVERIFY(figure);
      const figure::ScaledColours colours = figure::chooseColours(*figure);
      QCOMPARE(colours.lower, picture.colours.lower);
      QCOMPARE(colours.upper, picture.colours.upper);
      QCOMPARE(colours.scale, picture.colours.scale);
      QCOMPARE(colours.map, picture.colours.map);
      QCOMPARE(figure->request.rows, (Range{20, 120}));
      QCOMPARE(figure->request.columns, (Range{10, 110}));
      QCOMPARE(figure->request.quantity, Quantity::attention);
      QCOMPARE(figure->image.rows, pixels.rows);
      QVERIFY(QString::fromStdString(figure->title)
                  .startsWith(key == Qt::Key_A   ? "fox L0 H0"
                              : key == Qt::Key_D ? "fox L0 H0 − transformer L0 H0"
                                                 : "A: fox L0 H0 | B: transformer"));
      if (pixels.rows != 100) continue;
      for (std::int64_t row = 20; row < 120; ++row) {
        for (std::int64_t column = 10; column < 110; ++column) {
          const bool second = (key == Qt::Key_V && column >= 60) || (key == Qt::Key_H && row >= 70);
          const float expected = picture.value(second ? 1 : 0, row, column);
          const float value = figure->image.value[index_of((row - 20) * 100 + column - 10)];
          QVERIFY(std::isnan(expected) ? std::isnan(value) : value == expected);
        }
      }
    }
  }
}

// Key 0, where many heads park: of all panes with the key 0, for what is of attention.
void MapsCompareTest::theFirstKeyIsLeftOut() {
  TwoModels maps;
  maps.view.setPaneCount(2);
  maps.setQuantity(Quantity::forget, 0);
  maps.setQuantity(Quantity::attention, 1);
  maps.document.runs().selection().setView({{0, 150}, {0, 150}});
  QVERIFY(maps.settle());
  const float whole = maps.pane(1).picture()->value(0, 90, 70);
  const float parked = maps.pane(1).picture()->value(0, 90, 0);
  QVERIFY(parked > 0);
  maps.view.setActivePane(0);
  maps.press(Qt::Key_0);
  QVERIFY(maps.settle());
  const MapPicture& left = *maps.pane(1).picture();
  QVERIFY(std::isnan(left.value(0, 90, 0)));
  QVERIFY(std::abs(left.value(0, 90, 70) - whole / (1 - parked)) < 1e-5F);
  QCOMPARE(maps.pane(1).titleText(), "fox L0 H0 · attention A without key 0");
  QVERIFY(maps.pane(1).detailText().contains("key 0 left out"));
  // Of a forget matrix it is a key like others.
  QCOMPARE(maps.pane(0).titleText(), "fox L0 H0 · forget F");
  QVERIFY(maps.pane(0).messageText().isEmpty());
  QVERIFY(!std::isnan(maps.pane(0).picture()->value(0, 90, 0)));
  // What is exported, what is read under the cursor and what is kept say so too.
  maps.view.setActivePane(1);
  QCOMPARE(maps.view.figureOfActivePane()->request.first_key, FirstKey::left_out);
  QVERIFY(figure::chooseColours(*maps.view.figureOfActivePane()).label.ends_with(", key 0 left out"));
  maps.document.runs().selection().setPin({90, 70});
  QVERIFY(maps.settle());
  QVERIFY(std::abs(maps.pane(1).reading().value.toFloat() - whole / (1 - parked)) < 0.01F * whole);
  Document document;
  MapsView other(document.runs());
  other.restoreState(maps.view.saveState());
  QCOMPARE(other.paneState(1).firstKey, FirstKey::left_out);
  maps.press(Qt::Key_0);
  QVERIFY(maps.settle());
  QCOMPARE(maps.pane(1).picture()->value(0, 90, 70), whole);
}

void MapsCompareTest::theFirstKeyOfOnePaneIsLeftOutFromItsMenus() {
  TwoModels maps;
  maps.view.setPaneCount(2);
  maps.setQuantity(Quantity::attention, 1);
  QVERIFY(maps.settle());
  const auto actionOf = [](const QWidget& in, const QString& words) -> QAction* {
    for (const QMenu* menu : in.findChildren<QMenu*>()) {
      for (QAction* action : menu->actions()) {
        if (action->text().startsWith(words)) return action;
      }
    }
    return nullptr;
  };
  QTest::mouseClick(&maps.plot(1), Qt::RightButton, {}, maps.cell(100, 40, 1));
  QAction* out = actionOf(maps.pane(1), "Without key 0");
  QVERIFY(out != nullptr && out->isEnabled());
  out->trigger();
  QVERIFY(maps.settle());
  QCOMPARE(maps.view.paneState(1).firstKey, FirstKey::left_out);
  QCOMPARE(maps.view.paneState(0).firstKey, FirstKey::counted);
  // Logits have it like others: there is nothing to choose.
  maps.setQuantity(Quantity::logits, 1);
  QVERIFY(maps.settle());
  QVERIFY(maps.pane(1).messageText().isEmpty());
  const auto* header = maps.pane(1).findChild<PaneHeader*>();
  QVERIFY(!actionOf(*header, "Without key 0")->isEnabled());
}

void MapsCompareTest::runsOnOtherTextsHaveTheirOwnAxes() {
  TwoModels maps;
  const Folder folder;
  SyntheticRun run;
  run.name = "elsewhere";
  run.length = 60;
  const std::shared_ptr<const Trace> traces[] = {make_trace(run)};
  write_run_file(folder.path("elsewhere.h5").toStdString(), traces, {"test", ""}, Overwrite::force, {});
  maps.document.open({folder.path("elsewhere.h5")});
  QVERIFY(waitUntilIdle(maps.document));
  maps.view.setPaneCount(2);
  maps.document.runs().selection().setView({{100, 140}, {100, 140}});
  PaneState state = maps.view.paneState(1);
  state.setQuantity(Quantity::attention);
  state.own = NamedHead{"elsewhere", 1, 2};
  maps.view.setPaneState(1, state);
  QVERIFY(maps.settle());
  QCOMPARE(maps.pane(1).titleText(), "elsewhere L1 H2 · attention A");
  QVERIFY(maps.plot(1).geometryOfView().view == (View{{0, 60}, {0, 60}}));
  QVERIFY(maps.plot(0).geometryOfView().view == (View{{100, 140}, {100, 140}}));
  // No entry of one belongs to an entry of the other.
  state = maps.view.paneState(0);
  state.other = NamedHead{"elsewhere", 0, 0};
  for (const Sides sides : {Sides::difference, Sides::splitVertically}) {
    state.setSides(sides);
    maps.view.setPaneState(0, state);
    QVERIFY(maps.settle());
    QVERIFY2(maps.pane(0).messageText().contains("fox and elsewhere read different texts"),
             qPrintable(maps.pane(0).messageText()));
  }
  // A click in the pane makes its text the one that is shown.
  QTest::mouseClick(&maps.plot(1), Qt::LeftButton, {}, maps.cell(40, 20, 1));
  QVERIFY(maps.settle());
  QCOMPARE(maps.document.runs().length(), 60);
  QVERIFY(maps.document.runs().selection().pin() == (Cursor{40, 20}));
  QCOMPARE(maps.document.runs().selection().head().layer, 1);
}

void MapsCompareTest::controlsChooseHeads() {
  TwoModels maps;
  auto* header = maps.pane().findChild<PaneHeader*>();
  auto* form = header->findChild<HeadForm*>();
  QVERIFY(form);
  auto* follow = form->findChild<QCheckBox*>();
  QVERIFY(follow->isChecked());
  follow->click();
  QCOMPARE(maps.view.paneState(0).own, (NamedHead{"fox", 0, 0}));
  QVERIFY(maps.settle());
  form->findChild<QComboBox*>()->setCurrentText("transformer");
  QVERIFY(maps.settle());
  form->findChildren<QSpinBox*>()[1]->setValue(3);
  QVERIFY(maps.settle());
  QCOMPARE(maps.pane().titleText(), "transformer L0 H3 · attention A");
}

}  // namespace foxscope::gui::test

FOXSCOPE_GUI_SUBJECT(maps_compare, foxscope::gui::test::MapsCompareTest)
#include "backend/base/index.h"
#include "maps_compare_test.moc"
