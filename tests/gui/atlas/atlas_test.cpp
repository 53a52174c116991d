#include "backend/eval/atlas/atlas.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>

#include <QCheckBox>
#include <QComboBox>
#include <QDir>
#include <QFile>
#include <QHelpEvent>
#include <QJsonDocument>
#include <QJsonObject>
#include <QLabel>
#include <QLineEdit>
#include <QListWidget>
#include <QSignalSpy>
#include <QTabWidget>
#include <QTest>
#include <QToolTip>
#include <qcustomplot.h>

#include "app/figure/figure_kind.h"
#include "app/figure/figure_request.h"
#include "app/gui/atlas/atlas_view.h"
#include "app/gui/atlas/passage_list.h"
#include "app/gui/atlas/reset_bars.h"
#include "app/gui/atlas/similarity_map.h"
#include "app/gui/document/runs/run_arrangement.h"
#include "app/gui/evaluations/evaluations_view.h"
#include "app/gui/views/theme.h"
#include "backend/eval/atlas/atlas_file.h"
#include "tests/gui/subject.h"
#include "tests/gui/support.h"

namespace foxscope::gui::test {

using atlas::GateBars;
using atlas::HeadPage;
using atlas::ModelPane;

class AtlasTest : public QObject {
  Q_OBJECT

 private slots:
  void initTestCase();
  void aFileOpensAsAScatterOfItsHeads();
  void aLineAroundHeadsChoosesThem();
  void numbersAndScalesAreChosen();
  void similarHeadsAreNamed();
  void namesStandAlongTheMap();
  void headsAreComparedWithTheFirstModel();
  void whatIsSeenIsExported();
  void tokensAreThoseOfTheFile();
  void aNarrowListKeepsItsCounts();
  void discoveriesAreOfLogGatesAlone();
  void rareTokensAreAskedFor();
  void resetsStandAgainstChance();
  void histogramsHoldEveryPosition();
  void ticksFitAPlotThatWasHidden();
  void passagesHoldTheirPlace();
  void aLastTokenWithoutTextIsLeftOut();
  void tokensThatNoTokenizerMakesAreCut();
  void aPhraseIsFoundInPassages();
  void whatWasFoundStandsInTheMiddle();
  void anOutlineLeavesRoomForItsToken();
  void aModelWithoutGatesSaysSo();
  void twoModelsShareTheirAxes();
  void aPassageAsksForItsModel();
  void aPassageIsNotOpenedWithOtherWeights();
  void aPassageOpensItsTrace();
  void aSessionKeepsTheView();
  void aDamagedAtlasIsOneLine();

 private:
  Folder m_folder;
  QString m_file;
  std::optional<Atlas> m_atlas;  ///< what the file was written from
};

namespace {

struct ShownAtlas {
  Document document;
  EvaluationsView view{document.evaluations(), document.runs(), document.modelRuns(), document.files()};

  explicit ShownAtlas(const QStringList& files) {
    view.resize(1200, 700);
    view.show();
    document.open(files);
  }
  bool settle() {
    return waitUntilIdle(document) && QTest::qWaitFor([&] { return view.isSettled() && !document.busy(); }, 60'000);
  }
  ModelPane& pane(int number = 0) { return view.atlas().pane(number); }
  HeadPage& page() { return pane().page(); }
  bool showAllPassages() {
    page().tabs().setCurrentIndex(HeadPage::kPassages);
    page().scope().setCurrentIndex(page().scope().count() - 1);
    return settle();
  }
};

QWidget* plotOf(ModelPane& pane) { return pane.scatter().findChild<QCustomPlot*>(); }

/// Draws a line around a rectangle with the left button.
void drawAround(QWidget* plot, const QRectF& around) {
  const std::vector<QPointF> corners = {around.topLeft(), around.topRight(), around.bottomRight(), around.bottomLeft()};
  QTest::mousePress(plot, Qt::LeftButton, {}, corners[0].toPoint());
  for (const QPointF& corner : corners) {
    QMouseEvent move(QEvent::MouseMove, corner, plot->mapToGlobal(corner), Qt::NoButton, Qt::LeftButton, {});
    QApplication::sendEvent(plot, &move);
  }
  QTest::mouseRelease(plot, Qt::LeftButton, {}, corners.back().toPoint());
}

/// Evaluates models, which are called fox and transformer, on ten windows of the sample text, or of another.
std::optional<Atlas> makeAtlas(const QString& file, const QStringList& models, std::int64_t length,
                               const QString& corpus = sampleText()) {
  const Engine engine;
  AtlasRequest request;
  for (const QString& model : models) {
    ModelRequest wanted;
    wanted.name = request.models.empty() ? "fox" : "transformer";
    wanted.model = model.toStdString();
    request.models.push_back(engine.open(wanted));
  }
  EvaluationInput input;
  input.corpus = corpus.toStdString();
  input.windows.length = length;
  input.windows.windows = 10;
  request.inputs = {input};
  request.passages = 6;
  request.output = file.toStdString();
  std::optional<Atlas> made = evaluate_atlas(request, {}, {});
  if (made) write_atlas_file(request.output, *made, {"foxscope", ""}, Overwrite::force);
  return made;
}

}  // namespace

void AtlasTest::initTestCase() {
  QApplication::setPalette(lightPalette());
  m_file = m_folder.path("atlas.h5");
  m_atlas = makeAtlas(m_file, {foxModel(), transformerModel()}, 256);
  QVERIFY(m_atlas);
}

void AtlasTest::aFileOpensAsAScatterOfItsHeads() {
  ShownAtlas shown({m_file});
  QVERIFY(shown.settle());
  QCOMPARE(shown.view.atlas().shown(), 1);
  const atlas::ScatterContent& content = shown.pane().scatter().content();
  QCOMPARE(content.names.size(), 32U);
  QCOMPARE(content.names[13], "L3 H1");
  const std::vector<HeadArray> numbers = atlas_head_numbers(m_atlas->models[0]);
  const HeadArray* times = find_array(numbers, "rate_decay_time");
  QVERIFY(times != nullptr && content.x.values == times->value);
  QVERIFY(content.x.logarithmic && content.x.title.contains("tokens"));
  // Colours are layers.
  QCOMPARE(content.colour[13], 3.0);
  QVERIFY(shown.page().heading().contains(shown.pane().scatter().content().names[*shown.pane().head()]));
  // Hovering names a head with its numbers.
  QSignalSpy told(&shown.view.atlas(), &AtlasView::told);
  const QPointF place = *shown.pane().scatter().placeOf(13);
  QMouseEvent move(QEvent::MouseMove, place, plotOf(shown.pane())->mapToGlobal(place), Qt::NoButton, Qt::NoButton, {});
  QApplication::sendEvent(plotOf(shown.pane()), &move);
  QCOMPARE(told.size(), 1);
  QCOMPARE(told[0][0].toString(), shown.pane().scatter().description(13));
  QCOMPARE(shown.view.reading(), shown.pane().scatter().description(13));
}

void AtlasTest::aLineAroundHeadsChoosesThem() {
  ShownAtlas shown({m_file});
  QVERIFY(shown.settle());
  ModelPane& pane = shown.pane();
  const QPointF first = *pane.scatter().placeOf(5);
  QTest::mouseClick(plotOf(pane), Qt::LeftButton, {}, first.toPoint());
  QVERIFY(pane.head().has_value());
  const QPointF clicked = *pane.scatter().placeOf(*pane.head());
  QVERIFY(std::hypot(clicked.x() - first.x(), clicked.y() - first.y()) < 12);
  // One head.
  drawAround(plotOf(pane), QRectF(first.x() - 3, first.y() - 3, 6, 6));
  QVERIFY(pane.chosen().contains(5));
  // All heads whose points lie inside, and no others.
  const QRectF around(QRect(first.toPoint() - QPoint(120, 80), QSize(240, 160)));
  drawAround(plotOf(pane), around);
  for (std::size_t head = 0; head < 32; ++head) {
    const auto place = pane.scatter().placeOf(head);
    QCOMPARE(pane.chosen().contains(head), place && around.contains(*place));
  }
  QCOMPARE(static_cast<std::size_t>(pane.list().count()), pane.chosen().size());
  QVERIFY(!pane.list().isHidden());
  QCOMPARE(pane.page().scope().findText("of the", Qt::MatchStartsWith) >= 0, true);
  QTest::keyClick(plotOf(pane), Qt::Key_Escape);
  QVERIFY(pane.chosen().empty() && pane.list().isHidden());
}

void AtlasTest::numbersAndScalesAreChosen() {
  ShownAtlas shown({m_file});
  QVERIFY(shown.settle());
  AtlasView& view = shown.view.atlas();
  view.setNumber(AtlasView::kX, "resets");
  view.setNumber(AtlasView::kY, "head");
  view.setNumber(AtlasView::kColour, "mean_log_gate");
  const atlas::ScatterContent& content = shown.pane().scatter().content();
  const AtlasResets resets = atlas_resets(m_atlas->models[0]);
  for (std::size_t head = 0; head < 32; ++head) {
    QCOMPARE(content.x.values[head], static_cast<double>(resets.count[head]));
    QCOMPARE(content.y.values[head], static_cast<double>(head % 4));
    // No logarithm of 0.
    QCOMPARE(shown.pane().scatter().placeOf(head).has_value(), resets.count[head] > 0);
  }
  QVERIFY(content.x.logarithmic && !content.y.logarithmic);
  view.setLogarithmic(AtlasView::kX, false);
  for (std::size_t head = 0; head < 32; ++head) QVERIFY(shown.pane().scatter().placeOf(head).has_value());
}

void AtlasTest::similarHeadsAreNamed() {
  ShownAtlas shown({m_file});
  QVERIFY(shown.settle());
  shown.pane().maps().setCurrentIndex(1);
  QTRY_VERIFY(shown.pane().similarity().isVisible());
  atlas::SimilarityMap& map = shown.pane().similarity();
  const std::vector<float> similarity = atlas_similarity(m_atlas->models[0]);
  QCOMPARE(map.description(2, 7), QStringLiteral("L0 H2 and L1 H3: r %1")
                                      .arg(QString::number(static_cast<double>(similarity[2 * 32 + 7]), 'g', 3))
                                      .replace('-', QChar(0x2212)));
  QTest::mouseClick(&map, Qt::LeftButton, {}, map.cell(2, 7).center().toPoint());
  QCOMPARE(shown.pane().head(), std::optional<std::size_t>(7));
  QVERIFY(shown.page().heading().startsWith("L1 H3"));
}

void AtlasTest::namesStandAlongTheMap() {
  ShownAtlas shown({m_file});
  QVERIFY(shown.settle());
  shown.pane().maps().setCurrentIndex(1);
  atlas::SimilarityMap& map = shown.pane().similarity();
  QTRY_VERIFY(map.isVisible());
  for (const int size : {220, 400, 900}) {
    map.resize(size, size);
    for (const auto& [ranks, name] :
         {std::pair(map.namedRows(), map.fontMetrics().height()),
          std::pair(map.namedColumns(), map.fontMetrics().horizontalAdvance(QStringLiteral("L7 H3")))}) {
      QVERIFY(!ranks.empty() && ranks.front() == 0 && ranks.back() < 32);
      // Names do not touch, and there are as many as go beside one another.
      const double cell = map.cell(0, 0).width();
      const double apart = ranks.size() > 1 ? static_cast<double>(ranks[1] - ranks[0]) * cell : size;
      QVERIFY2(apart >= name, qPrintable(QStringLiteral("%1 of %2").arg(apart).arg(name)));
      QVERIFY(ranks.size() > 1);
    }
  }
  QVERIFY(map.namedRows().size() == 32);
  map.resize(120, 120);
  QVERIFY(map.namedRows().empty() && map.namedColumns().empty());
}

void AtlasTest::headsAreComparedWithTheFirstModel() {
  ShownAtlas shown({m_file});
  QVERIFY(shown.settle());
  QCOMPARE(shown.pane().compared().findData("first_attention"), -1);
  QComboBox& models = shown.view.atlas().model(0);
  models.setCurrentIndex(models.findText("transformer"));
  emit models.activated(models.currentIndex());
  shown.pane().maps().setCurrentIndex(1);
  QVERIFY(shown.settle());
  QComboBox& compared = shown.pane().compared();
  const int with = compared.findData("first_attention");
  QVERIFY(with >= 0);
  QVERIFY(compared.itemText(with).endsWith("with fox"));
  compared.setCurrentIndex(with);
  QVERIFY(shown.settle());
  const std::vector<float> expected = attention_similarity_with_first(m_atlas->models[1], m_atlas->models[0]);
  atlas::SimilarityMap& map = shown.pane().similarity();
  QCOMPARE(map.description(2, 7), QStringLiteral("L0 H2 and L1 H3: r %1")
                                      .arg(QString::number(static_cast<double>(expected[2 * 32 + 7]), 'g', 3))
                                      .replace('-', QChar(0x2212)));
  // A click chooses the head of this model, which is the row.
  QTest::mouseClick(&map, Qt::LeftButton, {}, map.cell(2, 7).center().toPoint());
  QCOMPARE(shown.pane().head(), std::optional<std::size_t>(2));
}

void AtlasTest::whatIsSeenIsExported() {
  ShownAtlas shown({m_file});
  QVERIFY(shown.settle());
  shown.pane().setHead(9);
  const auto panel = [&](std::size_t row) { return shown.view.shownPanels()[row][0].spec; };
  const auto draw = [&](std::size_t row) {
    figure::FigureSpec spec = panel(row);
    const figure::FigureSources sources{.files = shown.view.shownPanels()[row][0].files};
    figure::FigureStyle style;
    style.format.kind = figure::FigureFormat::Kind::csv;
    const Job job;
    figure::FigureRequest request{spec, sources, style, job};
    return QByteArray::fromStdString(figure::findFigureKind(spec.kind)->draw(request)->file);
  };
  // The scatter with its numbers, scales and ends, and the heads that stand out in it.
  shown.pane().setChosen({3, 17});
  shown.view.atlas().setNumber(AtlasView::kColour, "gate_median");
  shown.view.atlas().setLogarithmic(AtlasView::kX, false);
  QVERIFY(shown.settle());
  QCOMPARE(shown.view.shownPanels().size(), 2U);
  QCOMPARE(panel(0).kind, std::string("scatter"));
  QCOMPARE(panel(0).text("x"), std::string("rate_decay_time"));
  QCOMPARE(panel(0).text("x-scale"), std::string("linear"));
  QCOMPARE(panel(0).text("colour-by"), std::string("gate_median"));
  QCOMPARE(panel(0).list("heads"), (std::vector<std::string>{"0:3", "2:1", "4:1"}));
  QVERIFY(!panel(0).text("colour-limits").empty());
  QCOMPARE(draw(0).count("chosen"), 3);
  // However many rows are in sight, a page has room for what is drawn.
  const QSize before = shown.view.size();
  shown.view.resize(before.width(), 3000);
  shown.page().rareTokens().setChecked(true);
  QVERIFY(shown.settle());
  const auto [first, last] = shown.page().forgets().rowsInSight();
  QVERIFY(last - first > 20);
  QCOMPARE(panel(1).text("count"), std::string("15"));
  shown.view.resize(before);
  shown.page().rareTokens().setChecked(false);
  QVERIFY(shown.settle());
  // Tokens as they are looked for.
  QCOMPARE(panel(1).kind, std::string("tokens"));
  shown.page().tokenFilter().setText("he");
  shown.page().rareTokens().setChecked(true);
  QVERIFY(shown.settle());
  QCOMPARE(panel(1).text("head"), std::string("2:1"));
  QCOMPARE(panel(1).text("holding"), std::string("he"));
  QCOMPARE(panel(1).text("fewest"), std::string("1"));
  const QByteArray tokens = draw(1);
  const atlas::TokenList& list = shown.page().forgets().list();
  QCOMPARE(tokens.count(",forgets most,"),
           std::min<qsizetype>(std::ssize(list.bars), std::stoi(panel(1).text("count"))));
  QVERIFY2(tokens.contains(QByteArray::number(list.bars.front().value, 'g', 5).left(6)), tokens.constData());
  // So are passages, of the heads that are listed.
  shown.pane().maps().setCurrentIndex(1);
  shown.page().search("the");
  shown.page().scope().setCurrentIndex(1);
  QVERIFY(shown.settle());
  QCOMPARE(panel(0).kind, std::string("similarity"));
  QCOMPARE(panel(1).kind, std::string("passages"));
  QCOMPARE(panel(1).list("head"), (std::vector<std::string>{"0:3", "4:1"}));
  QCOMPARE(panel(1).text("holding"), std::string("the"));
  QCOMPARE(panel(1).text("kind"), std::string("resets"));
  const atlas::PassageAnswer& answer = shown.page().passages().answer();
  QVERIFY(answer.found > 0);
  const QList<QByteArray> lines = draw(1).trimmed().split('\n');
  QCOMPARE(lines.size() - 1, std::min<qsizetype>(std::ssize(answer.rows), std::stoi(panel(1).text("count"))));
  for (qsizetype n = 1; n < lines.size(); ++n) {
    const atlas::PassageRow& row = answer.rows[static_cast<std::size_t>(n - 1)];
    const QString position = QString(",%1,").arg(row.place.position);
    const QString where = QString(",%1:%2,%3,").arg(row.head / 4).arg(row.head % 4).arg(row.place.window);
    for (const QString& part : {position, where}) {
      QVERIFY2(lines[n].contains(part.toUtf8()), (lines[n] + " without " + part.toUtf8()).constData());
    }
  }
  // Resets by class have the bars of the window.
  const auto rowsOf = [&](const QByteArray& series) {
    QList<QList<QByteArray>> rows;
    for (const QByteArray& line : draw(1).trimmed().split('\n')) {
      // The panel's title, which comes first, may hold commas.
      if (const QList<QByteArray> fields = line.split(',').last(6); fields[0] == series) rows.append(fields);
    }
    return rows;
  };
  shown.page().tabs().setCurrentIndex(HeadPage::kResets);
  QVERIFY(shown.settle());
  QCOMPARE(shown.view.shownPanels().size(), 2U);
  QCOMPARE(panel(1).kind, std::string("resets"));
  QCOMPARE(panel(1).text("head"), std::string("2:1"));
  const AtlasHeadResets& resets = shown.page().resets().resets();
  const auto classes = rowsOf("resets");
  QCOMPARE(classes.size(), std::ranges::count_if(resets.share, [](double share) { return std::isfinite(share); }));
  QVERIFY(classes.size() > 4);
  for (qsizetype n = 0, drawn = 0; n < std::ssize(resets.share); ++n) {
    const double share = resets.share[static_cast<std::size_t>(n)];
    if (std::isfinite(share)) QVERIFY(std::abs(classes[drawn++][3].toDouble() - share) < 1e-6);
  }
  // So have gates, in other bins: as many gates lie above 1 nat or token.
  shown.page().tabs().setCurrentIndex(HeadPage::kGates);
  QVERIFY(shown.settle());
  const auto sharesFrom = [](const QVector<double>& ends, const QVector<double>& shares, double from) {
    double sum = 0;
    for (qsizetype n = 0; n < ends.size(); ++n) sum += ends[n] > from * (1 - 1e-6) ? shares[n] : 0;
    return sum;
  };
  GateBars& bars = shown.page().gates();
  for (const auto kind : {GateBars::Shown::logGate, GateBars::Shown::decayTime, GateBars::Shown::gaps}) {
    bars.show(kind);
    const bool gaps = kind == GateBars::Shown::gaps;
    QCOMPARE(panel(1).kind, std::string(gaps ? "resets" : "gates"));
    QCOMPARE(panel(1).text("head"), std::string("2:1"));
    QVector<double> ends;
    QVector<double> shares;
    for (const QList<QByteArray>& row : rowsOf(gaps ? "distances" : "gates")) {
      ends.append(row[2].split(':')[0].toDouble());
      shares.append(row[3].toDouble());
    }
    for (const double from : {0.0, gaps ? 4.0 : 1.0}) {
      const double expected = sharesFrom(bars.ends(), bars.shares(), from);
      QVERIFY2(std::abs(sharesFrom(ends, shares, from) - expected) < 1e-5,
               qPrintable(QStringLiteral("%1 of %2").arg(sharesFrom(ends, shares, from)).arg(expected)));
      QVERIFY(expected > 0.01 && (from == 0 || expected < 0.999));
    }
  }
}

void AtlasTest::tokensAreThoseOfTheFile() {
  ShownAtlas shown({m_file});
  QVERIFY(shown.settle());
  shown.pane().setHead(9);
  QVERIFY(shown.settle());
  const std::vector<std::int32_t> ids = atlas_tokens(m_atlas->models[0].sums);
  const HeadTokens tokens = tokens_of_head(m_atlas->models[0], 9, ids);
  const auto counts = m_atlas->models[0].sums.at(AtlasSum::token_count);
  double strongest = 0;
  std::size_t often = 0;
  for (std::size_t n = 0; n < ids.size(); ++n) {
    if (counts[static_cast<std::size_t>(ids[n])] < kFewestReadings) continue;
    ++often;
    strongest = std::max(strongest, -static_cast<double>(tokens.mean_log_gate[n]));
  }
  const atlas::TokenList& list = shown.page().forgets().list();
  QCOMPARE(list.bars.size(), often);
  QVERIFY(often > 5);
  QCOMPARE(list.bars.front().value, strongest);
  const atlas::TokenList& kept = shown.page().keeps().list();
  QCOMPARE(kept.bars.back().id, list.bars.front().id);
  QCOMPARE(kept.most, list.most);
  for (std::size_t n = 1; n < often; ++n) QVERIFY(list.bars[n - 1].value >= list.bars[n].value);
  for (const atlas::TokenBar& bar : list.bars) QVERIFY(!bar.isRare());
  // The smallest values have the most digits, and room for them.
  atlas::TokenList small = list;
  for (atlas::TokenBar& bar : small.bars) bar.value *= 1e-3;
  atlas::TokenBars digits;
  digits.setList(small);
  for (const atlas::TokenBar& bar : small.bars) {
    QVERIFY(digits.fontMetrics().horizontalAdvance(atlas::TokenBars::valueOf(bar)) <= digits.valueRoom());
  }
  // However narrow the list, its heading leaves room for bars, and is there to its end in a tooltip.
  for (const int width : {140, 300, 700}) {
    atlas::TokenBars bars;
    bars.setList(list);
    bars.resize(width, bars.minimumSizeHint().height());
    bars.show();
    QVERIFY(bars.headingHeight() <= 2 * bars.fontMetrics().height() + 4);
    QVERIFY(bars.viewport()->height() - bars.headingHeight() >= 3 * bars.fontMetrics().height());
    const QPoint place(5, 5);
    QHelpEvent help(QEvent::ToolTip, place, bars.viewport()->mapToGlobal(place));
    QApplication::sendEvent(bars.viewport(), &help);
    QCOMPARE(QToolTip::text(), list.title);
    QToolTip::hideText();
  }
}

// A list as narrow as its page may make it still shows how often tokens were read, and its whole title.
void AtlasTest::aNarrowListKeepsItsCounts() {
  ShownAtlas shown({m_file});
  QVERIFY(shown.settle());
  const atlas::TokenList& list = shown.page().forgets().list();
  const auto picture = [&](std::int64_t count) {
    atlas::TokenList counted = list;
    for (atlas::TokenBar& bar : counted.bars) bar.count = count;
    atlas::TokenBars bars;
    bars.setList(counted);
    bars.resize(bars.minimumSizeHint());
    return bars.grab().toImage();
  };
  QVERIFY(picture(4126) == picture(4126));
  QVERIFY(picture(4126) != picture(4127));
  for (const char* measure : {"by mean log f", "by share of resets"}) {
    shown.page().measure().setCurrentText(measure);
    QVERIFY(shown.settle());
    for (const atlas::TokenBars* bars : {&shown.page().forgets(), &shown.page().keeps()}) {
      atlas::TokenBars narrow;
      narrow.setList(bars->list());
      narrow.resize(narrow.minimumSizeHint());
      narrow.show();
      QCOMPARE(narrow.titleLines().join(QString()), bars->list().title);
    }
  }
  // Both lists leave out the same tokens, which one line above them says.
  const auto labels = shown.page().findChildren<QLabel*>();
  QCOMPARE(std::ranges::count_if(labels, [](const QLabel* label) { return label->text().contains("more were read"); }),
           1);
}

// `discovered` is of a token's mean log f, in the file: another order has no dots, and no legend of them.
void AtlasTest::discoveriesAreOfLogGatesAlone() {
  // Chance is known over several documents.
  QFile sample(sampleText());
  QVERIFY(sample.open(QIODevice::ReadOnly));
  const QString text = QString::fromUtf8(sample.readAll());
  QByteArray documents;
  constexpr qsizetype kDocument = 1500;
  for (qsizetype begin = 0; begin + kDocument <= std::min<qsizetype>(text.size(), 20 * kDocument); begin += kDocument) {
    documents += QJsonDocument(QJsonObject{{"text", text.mid(begin, kDocument)}}).toJson(QJsonDocument::Compact) + '\n';
  }
  const QString file = m_folder.path("documents.h5");
  const auto made = makeAtlas(file, {foxModel()}, 256, m_folder.write("documents.jsonl", documents));
  QVERIFY(made);
  ShownAtlas shown({file});
  QVERIFY(shown.settle());
  const auto hasLegend = [&] {
    const auto labels = shown.page().findChildren<QLabel*>();
    return std::ranges::any_of(labels, [](const QLabel* label) { return label->text().contains("•"); });
  };
  const auto dots = [&] {
    return std::ranges::count_if(shown.page().forgets().list().bars, [](const atlas::TokenBar& bar) {
      return atlas::TokenBars::valueOf(bar).contains("•");
    });
  };
  const std::vector<std::int32_t> ids = atlas_tokens(made->models[0].sums);
  const std::vector<std::int32_t> found = atlas_token_discoveries(tokens_of_heads(made->models[0], ids).p_value);
  const auto counts = made->models[0].sums.at(AtlasSum::token_count);
  const auto discoveries = [&](std::size_t head) {
    std::ptrdiff_t number = 0;
    for (std::size_t n = 0; n < ids.size(); ++n) {
      const bool often = counts[static_cast<std::size_t>(ids[n])] >= kFewestReadings;
      number += often && found[head * ids.size() + n] != 0 ? 1 : 0;
    }
    return number;
  };
  std::size_t head = 0;
  while (head < 32 && discoveries(head) == 0) ++head;
  QVERIFY(head < 32);
  shown.pane().setHead(head);
  QVERIFY(shown.settle());
  QCOMPARE(dots(), discoveries(head));
  QVERIFY(hasLegend());
  QVERIFY(shown.page().forgets().description(0).contains("log f beyond chance") ||
          shown.page().forgets().description(0).contains("log f not beyond chance"));
  shown.page().measure().setCurrentIndex(1);
  QVERIFY(shown.settle());
  QCOMPARE(dots(), 0);
  QVERIFY(!hasLegend());
  QVERIFY(!shown.page().forgets().description(0).contains("chance"));
}

void AtlasTest::rareTokensAreAskedFor() {
  ShownAtlas shown({m_file});
  QVERIFY(shown.settle());
  shown.page().rareTokens().setChecked(true);
  QVERIFY(shown.settle());
  const atlas::TokenList& list = shown.page().forgets().list();
  QVERIFY(std::ranges::any_of(list.bars, &atlas::TokenBar::isRare));
  shown.page().tokenFilter().setText("horse");
  QVERIFY(shown.settle());
  QVERIFY(!list.bars.empty());
  for (const atlas::TokenBar& bar : list.bars) QVERIFY(bar.text.contains("horse", Qt::CaseInsensitive));
  // A click looks for the token in passages.
  emit shown.page().forgets().tokenChosen(list.bars.front().text);
  QCOMPARE(shown.page().tabs().currentIndex(), static_cast<int>(HeadPage::kPassages));
  QCOMPARE(shown.page().phrase().text(), QString(list.bars.front().text).replace(QChar(0x2423), ' '));
}

void AtlasTest::resetsStandAgainstChance() {
  ShownAtlas shown({m_file});
  QVERIFY(shown.settle());
  const AtlasResets resets = atlas_resets(m_atlas->models[0]);
  std::size_t head = 0;
  while (resets.count[head] == 0) ++head;
  shown.page().tabs().setCurrentIndex(HeadPage::kResets);
  shown.pane().setHead(head);
  QVERIFY(shown.settle());
  QVERIFY(shown.page().message(HeadPage::kResets).isEmpty());
  const AtlasHeadResets& drawn = shown.page().resets().resets();
  QCOMPARE(drawn.count, resets.count[head]);
  // Both lines above the bars fit a narrow dock.
  for (const auto* label : shown.page().resets().window()->findChildren<QLabel*>()) {
    if (label->text().contains("resets (f")) QVERIFY(label->fontMetrics().horizontalAdvance(label->text()) < 290);
  }
  QVERIFY(shown.page().resets().fontMetrics().horizontalAdvance(atlas::ResetBars::caption()) < 300);
  for (std::size_t n = 0; n < kResetClasses; ++n) {
    const std::size_t at = head * kResetClasses + n;
    QVERIFY(drawn.p_value[n] == resets.p_value[at] || std::isnan(resets.p_value[at]));
    QCOMPARE(drawn.discovered[n], resets.discovered[at]);
    QVERIFY(shown.page().resets().description(static_cast<int>(n)).contains("by chance, p"));
  }
}

void AtlasTest::histogramsHoldEveryPosition() {
  ShownAtlas shown({m_file});
  QVERIFY(shown.settle());
  shown.page().tabs().setCurrentIndex(HeadPage::kGates);
  QVERIFY(shown.settle());
  atlas::GateBars& bars = shown.page().gates();
  for (const auto kind : {atlas::GateBars::Shown::logGate, atlas::GateBars::Shown::decayTime}) {
    bars.show(kind);
    const double sum = std::accumulate(bars.shares().begin(), bars.shares().end(), bars.keptShare());
    QVERIFY2(std::abs(sum - 1) < 1e-9, qPrintable(QString::number(sum)));
    QVERIFY(std::ranges::is_sorted(bars.ends()));
  }
}

// A plot that was hidden while its data and the room around it changed has the ticks of its data and of its size.
void AtlasTest::ticksFitAPlotThatWasHidden() {
  ShownAtlas shown({m_file});
  QVERIFY(shown.settle());
  GateBars& gates = shown.page().gates();
  auto* plot = gates.findChild<QCustomPlot*>();
  std::size_t head = 4;
  for (const QSize& size : {QSize(1200, 700), QSize(700, 340), QSize(1600, 1200), QSize(640, 340)}) {
    shown.page().tabs().setCurrentIndex(HeadPage::kTokens);
    shown.view.resize(size);
    shown.pane().setHead(head++);
    QVERIFY(shown.settle());
    shown.page().tabs().setCurrentIndex(HeadPage::kGates);
    QVERIFY(shown.settle());
    QTest::qWait(0);
    QCoreApplication::processEvents();
    QCOMPARE(plot->xAxis->range().lower, gates.ends().front());
    QCOMPARE(plot->xAxis->range().upper, gates.ends().back());
    const QImage seen = gates.grab().toImage();
    plot->replot(QCustomPlot::rpImmediateRefresh);
    QVERIFY2(gates.grab().toImage() == seen, qPrintable(QString::number(size.width())));
  }
  // Also where its size alone changed, out of sight or in sight.
  for (const QSize& size : {QSize(640, 1200), QSize(1600, 340), QSize(500, 1200)}) {
    for (const HeadPage::Tab before : {HeadPage::kTokens, HeadPage::kGates}) {
      shown.page().tabs().setCurrentIndex(before);
      shown.view.resize(before == HeadPage::kTokens ? size : size.transposed());
      shown.page().tabs().setCurrentIndex(HeadPage::kGates);
      QVERIFY(shown.settle());
      QTest::qWait(0);
      QCoreApplication::processEvents();
      const QImage seen = gates.grab().toImage();
      plot->replot(QCustomPlot::rpImmediateRefresh);
      QVERIFY2(gates.grab().toImage() == seen, qPrintable(QStringLiteral("%1 after %2").arg(size.width()).arg(before)));
    }
  }
}

void AtlasTest::passagesHoldTheirPlace() {
  ShownAtlas shown({m_file});
  QVERIFY(shown.settle());
  shown.page().tabs().setCurrentIndex(HeadPage::kPassages);
  shown.pane().setHead(9);
  QVERIFY(shown.settle());
  const std::vector<AtlasPlace> places = strongest_resets(m_atlas->models[0], 9);
  const atlas::PassageAnswer& answer = shown.page().passages().answer();
  QCOMPARE(answer.rows.size(), places.size());
  const EvaluatedWindows& windows = *m_atlas->models[0].windows;
  const std::vector<std::int32_t> ids = atlas_tokens(m_atlas->models[0].sums);
  for (std::size_t n = 0; n < places.size(); ++n) {
    const atlas::PassageRow& row = answer.rows[n];
    QCOMPARE(row.place.window, places[n].window);
    QCOMPARE(row.place.position, places[n].position);
    // What position p reads is token p - 1 of its window.
    const std::int32_t read =
        windows.token_id[static_cast<std::size_t>(places[n].window * windows.length + places[n].position - 1)];
    const auto at = std::ranges::lower_bound(ids, read) - ids.begin();
    QString text = QString::fromStdString(m_atlas->models[0].token_strings[static_cast<std::size_t>(at)]);
    text.replace('\n', QChar(0x23ce));
    const auto marked = std::ranges::find(row.pieces, true, &atlas::PassagePiece::marked);
    QVERIFY(marked != row.pieces.end());
    QVERIFY2(marked->text.contains(text), qPrintable(marked->text));
  }
}

void AtlasTest::aLastTokenWithoutTextIsLeftOut() {
  // Short windows, whose ends are seen, with last tokens that no position reads.
  const QString file = m_folder.path("ends.h5");
  const auto made = makeAtlas(file, {foxModel()}, 24);
  QVERIFY(made);
  ShownAtlas shown({file});
  QVERIFY(shown.settle());
  QVERIFY(shown.showAllPassages());
  const EvaluatedWindows& windows = *made->models[0].windows;
  const std::vector<std::int32_t> ids = atlas_tokens(made->models[0].sums);
  int without = 0;
  for (const atlas::PassageRow& row : shown.page().passages().answer().rows) {
    QVERIFY2(!row.text().contains(QChar(0x27e8)), qPrintable(row.text()));
    const std::int64_t tokens = windows.tokens[static_cast<std::size_t>(row.place.window)];
    const std::int32_t last =
        windows.token_id[static_cast<std::size_t>(row.place.window * windows.length + tokens - 1)];
    without += std::ranges::binary_search(ids, last) ? 0 : 1;
  }
  QVERIFY(without > 0);
}

void AtlasTest::tokensThatNoTokenizerMakesAreCut() {
  const QString file = m_folder.path("long.h5");
  auto made = makeAtlas(file, {foxModel()}, 24);
  QVERIFY(made);
  for (std::string& token : made->models[0].token_strings) token = std::string(10'000, 'A');
  write_atlas_file(file.toStdString(), *made, {"foxscope", ""}, Overwrite::force);
  ShownAtlas shown({file});
  QVERIFY(shown.settle());
  QVERIFY(shown.showAllPassages());
  QVERIFY(!shown.page().passages().answer().rows.empty());
  for (const atlas::PassageRow& row : shown.page().passages().answer().rows) {
    for (const atlas::PassagePiece& piece : row.pieces) {
      QCOMPARE(piece.text, QString(256, 'A') + QChar(0x2026));
    }
  }
}

void AtlasTest::aPhraseIsFoundInPassages() {
  ShownAtlas shown({m_file});
  QVERIFY(shown.settle());
  HeadPage& page = shown.page();
  QVERIFY(shown.showAllPassages());
  const std::vector<atlas::PassageRow> all = page.passages().answer().rows;
  QVERIFY(all.size() > 32 && all.size() < atlas::kMostRows);
  const QString phrase = all[all.size() / 2].text().mid(5, 12);
  page.search(phrase);
  QVERIFY(shown.settle());
  const atlas::PassageAnswer& answer = page.passages().answer();
  QVERIFY(!answer.rows.empty());
  std::size_t expected = 0;
  for (const atlas::PassageRow& row : all) expected += row.text().contains(phrase, Qt::CaseInsensitive) ? 1 : 0;
  QCOMPARE(answer.found, expected);
  for (const atlas::PassageRow& row : answer.rows) QVERIFY(row.text().contains(phrase, Qt::CaseInsensitive));
  page.search("no such words anywhere");
  QVERIFY(shown.settle());
  QVERIFY(answer.rows.empty());
}

void AtlasTest::whatWasFoundStandsInTheMiddle() {
  ShownAtlas shown({m_file});
  QVERIFY(shown.settle());
  HeadPage& page = shown.page();
  QVERIFY(shown.showAllPassages());
  const auto isFound = [](const atlas::PassagePiece& piece) { return piece.found; };
  for (const atlas::PassageRow& row : page.passages().answer().rows) {
    QVERIFY(row.pieces[row.middle].marked && std::ranges::none_of(row.pieces, isFound));
  }
  // Far from the place of some passage.
  const QString phrase = page.passages().answer().rows[7].text().left(9);
  page.search(phrase.toUpper());
  QVERIFY(shown.settle());
  const atlas::PassageList& list = page.passages();
  QVERIFY(!list.answer().rows.empty());
  int elsewhere = 0;
  for (int number = 0; number < static_cast<int>(list.answer().rows.size()); ++number) {
    const atlas::PassageRow& row = list.answer().rows[static_cast<std::size_t>(number)];
    const atlas::PassagePiece& middle = row.pieces[row.middle];
    QVERIFY(middle.found);
    QString found;
    for (const atlas::PassagePiece& piece : row.pieces) found += piece.found ? piece.text : QString(1, QChar());
    QVERIFY(found.contains(phrase, Qt::CaseInsensitive));
    elsewhere += middle.marked ? 0 : 1;
    const QRectF box = list.pieceBox(number, row.middle);
    QVERIFY(box.left() >= 0 && box.right() <= list.viewport()->width());
  }
  QVERIFY(elsewhere > 0);
}

void AtlasTest::anOutlineLeavesRoomForItsToken() {
  ShownAtlas shown({m_file});
  QVERIFY(shown.settle());
  shown.page().tabs().setCurrentIndex(HeadPage::kPassages);
  QVERIFY(shown.settle());
  const atlas::PassageList& list = shown.page().passages();
  const atlas::PassageRow& row = list.answer().rows.front();
  const QFontMetricsF metrics(list.font());
  for (std::size_t n = 0; n < row.pieces.size(); ++n) {
    const double around = list.pieceBox(0, n).width() - metrics.horizontalAdvance(row.pieces[n].text);
    if (row.pieces[n].marked && !row.pieces[n].text.trimmed().isEmpty()) QVERIFY(around >= 6);
    if (!row.pieces[n].marked) QVERIFY(std::abs(around) < 1e-6);
    // Pieces stand beside one another.
    if (n > 0) QVERIFY(std::abs(list.pieceBox(0, n).left() - list.pieceBox(0, n - 1).right()) < 1e-6);
  }
}

void AtlasTest::aModelWithoutGatesSaysSo() {
  ShownAtlas shown({m_file});
  QVERIFY(shown.settle());
  QComboBox& models = shown.view.atlas().model(0);
  models.setCurrentIndex(models.findText("transformer"));
  emit models.activated(models.currentIndex());
  QVERIFY(shown.settle());
  QVERIFY(shown.page().message(HeadPage::kTokens).startsWith("transformer has no gate that forgets"));
  QVERIFY(shown.page().message(HeadPage::kResets).startsWith("transformer has no gate that forgets"));
  // Numbers of attention it has, and its heads are compared by attention.
  QVERIFY(shown.pane().message(0).isEmpty());
  QVERIFY(shown.pane().message(1).isEmpty());
  const std::vector<double>& across = shown.pane().scatter().content().x.values;
  QVERIFY(std::ranges::all_of(across, [](double number) { return std::isfinite(number); }));
  // Back at a model with gates, the numbers are those that were chosen before.
  models.setCurrentIndex(models.findText("fox"));
  emit models.activated(models.currentIndex());
  QVERIFY(shown.settle());
  QVERIFY(shown.pane().message(0).isEmpty());
  QCOMPARE(shown.pane().scatter().content().x.name, "decay time");
}

void AtlasTest::twoModelsShareTheirAxes() {
  ShownAtlas shown({m_file});
  QVERIFY(shown.settle());
  AtlasView& view = shown.view.atlas();
  QComboBox& beside = view.model(1);
  beside.setCurrentIndex(beside.findText("fox"));
  emit beside.activated(beside.currentIndex());
  QVERIFY(shown.settle());
  QCOMPARE(view.shown(), 2);
  const atlas::ScatterContent& left = view.pane(0).scatter().content();
  const atlas::ScatterContent& right = view.pane(1).scatter().content();
  QCOMPARE(left.x.limits.lower, right.x.limits.lower);
  QCOMPARE(left.y.limits.upper, right.y.limits.upper);
  // An export has them beside each other too, each row from left to right.
  const ShownPanels panels = view.shownPanels();
  QCOMPARE(panels.size(), 2U);
  for (const std::vector<figure::FigurePart>& row : panels) {
    QCOMPARE(row.size(), 2U);
    for (const int number : {0, 1}) {
      QCOMPARE(QString::fromStdString(row[static_cast<std::size_t>(number)].spec.text("model")),
               view.pane(number).model().name());
    }
    QCOMPARE(row[0].spec.kind, row[1].spec.kind);
    QCOMPARE(row[0].spec.text("colour-limits"), row[1].spec.text("colour-limits"));
  }
  beside.setCurrentIndex(0);
  emit beside.activated(0);
  QCOMPARE(view.shown(), 1);
}

void AtlasTest::aPassageAsksForItsModel() {
  ShownAtlas shown({m_file});
  QVERIFY(shown.settle());
  shown.page().tabs().setCurrentIndex(HeadPage::kPassages);
  QVERIFY(shown.settle());
  atlas::PassageList& list = shown.page().passages();
  QTest::mouseClick(list.viewport(), Qt::LeftButton, {}, list.place(1).center());
  QTRY_VERIFY(
      shown.view.reading().startsWith("To open this passage, first open the checkpoint folder of fox (Ctrl+O)"));
  QVERIFY(shown.document.runs().empty());
}

// Checkpoints of one training often lie in folders of one name.
void AtlasTest::aPassageIsNotOpenedWithOtherWeights() {
  const Folder folder;
  const QString other = folder.path("fox");
  QVERIFY(QFile::link(transformerModel(), other));
  const QString same = folder.path("deeper/fox");
  QVERIFY(QDir().mkpath(folder.path("deeper")) && QFile::link(foxModel(), same));
  ShownAtlas shown({m_file, other});
  QVERIFY(shown.settle());
  const RunList& runs = shown.document.runs();
  QCOMPARE(runs.models().front().name, "fox");
  shown.page().tabs().setCurrentIndex(HeadPage::kPassages);
  QVERIFY(shown.settle());
  atlas::PassageList& list = shown.page().passages();
  const auto open = [&list] { QTest::mouseClick(list.viewport(), Qt::LeftButton, {}, list.place(1).center()); };
  open();
  QTRY_COMPARE(shown.view.reading(),
               "To open this passage, first open the checkpoint folder of fox (Ctrl+O): no open model has its weights");
  QVERIFY(shown.settle());
  QVERIFY(runs.empty());
  // The other one is found beside it.
  shown.document.open({same});
  QVERIFY(shown.settle());
  open();
  QTRY_COMPARE_WITH_TIMEOUT(runs.size(), 2U, 60'000);
  QVERIFY(shown.settle());
  const Run* run = runs.run(runs.selection().head().run);
  QVERIFY(run != nullptr);
  QCOMPARE(run->trace->info().weights_sha256, m_atlas->models[0].info.weights_sha256);
}

void AtlasTest::aPassageOpensItsTrace() {
  ShownAtlas shown({m_file, foxModel()});
  QVERIFY(shown.settle());
  shown.pane().setHead(9);
  shown.page().tabs().setCurrentIndex(HeadPage::kPassages);
  QVERIFY(shown.settle());
  atlas::PassageList& list = shown.page().passages();
  const AtlasPassage place = list.answer().rows[1].place;
  const RunList& runs = shown.document.runs();
  QTest::mouseClick(list.viewport(), Qt::LeftButton, {}, list.place(1).center());
  QTRY_COMPARE_WITH_TIMEOUT(runs.size(), 1U, 60'000);
  QVERIFY(shown.settle());
  const EvaluatedWindows& windows = *m_atlas->models[0].windows;
  const auto begin = windows.token_id.begin() + place.window * windows.length;
  QVERIFY(std::equal(begin, begin + windows.length, runs.front().trace->tokens()->id.begin()));
  QCOMPARE(runs.selection().head(), (HeadChoice{runs.front().id, 2, 1}));
  QCOMPARE(runs.selection().pin(), (Cursor{place.position, place.position - 1}));
  // It is called by its document and its place there.
  const std::string document = m_atlas->corpus.documents.at(0).name;
  const std::int64_t first = windows.token_start[static_cast<std::size_t>(place.window)];
  QCOMPARE(textNameOf(runs.front()), QStringLiteral("%1, tokens %2 to %3")
                                         .arg(QString::fromStdString(document), QLocale().toString(qlonglong{first}),
                                              QLocale().toString(qlonglong{first + windows.length - 1})));
  // Heads that are chosen in the atlas are marked in the grid of heads.
  drawAround(plotOf(shown.pane()), QRectF(plotOf(shown.pane())->rect()).adjusted(1, 1, -2, -2));
  QVERIFY(!shown.pane().chosen().empty());
  QCOMPARE(runs.selection().marked().size(), shown.pane().chosen().size());
  // A head that is chosen elsewhere is the one of the page.
  shown.document.runs().selection().setHead({runs.front().id, 1, 3});
  QCOMPARE(shown.pane().head(), std::optional<std::size_t>(7));
  // The same window is not run again.
  const RunId id = runs.front().id;
  emit shown.page().passageWanted(list.answer().rows[0]);
  QVERIFY(shown.settle());
  const bool same = list.answer().rows[0].place.window == place.window;
  QVERIFY(same == (runs.front().id == id));
}

void AtlasTest::aSessionKeepsTheView() {
  ShownAtlas shown({m_file});
  QVERIFY(shown.settle());
  shown.view.atlas().setNumber(AtlasView::kY, "resets");
  shown.pane().setHead(11);
  shown.page().tabs().setCurrentIndex(HeadPage::kResets);
  const QJsonObject state = shown.view.saveState();
  ShownAtlas back({});
  back.view.restoreState(state);  // before the file is there
  back.document.open({m_file});
  QVERIFY(back.settle());
  QCOMPARE(back.pane().head(), std::optional<std::size_t>(11));
  QCOMPARE(back.page().tabs().currentIndex(), static_cast<int>(HeadPage::kResets));
  QCOMPARE(back.pane().scatter().content().y.name, "resets");
}

void AtlasTest::aDamagedAtlasIsOneLine() {
  QFile whole(m_file);
  QVERIFY(whole.open(QIODevice::ReadOnly));
  const QByteArray bytes = whole.readAll();
  for (const QByteArray& damaged : {bytes.left(bytes.size() / 2), bytes.left(300)}) {
    const QString path = m_folder.write("damaged.h5", damaged);
    Document document;
    QSignalSpy messages(&document, &Document::messageRaised);
    document.open({path});
    QVERIFY(waitUntilIdle(document));
    QCOMPARE(messages.size(), 1);
    const QString text = messages[0][0].value<Message>().text;
    QVERIFY2(text.contains("damaged.h5") && !text.contains('\n'), qPrintable(text));
    QVERIFY(document.evaluations().empty());
  }
}

}  // namespace foxscope::gui::test

FOXSCOPE_GUI_SUBJECT(atlas, foxscope::gui::test::AtlasTest)
#include "atlas_test.moc"
