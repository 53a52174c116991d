// The table of experts: its numbers against the backend's, sorted by clicks, copied and written.
#include <cmath>

#include <QApplication>
#include <QClipboard>
#include <QFile>
#include <QHeaderView>
#include <QMimeData>
#include <QSignalSpy>
#include <QTest>

#include "app/gui/experts/experts_view.h"
#include "app/gui/views/expert_colours.h"
#include "app/gui/views/theme.h"
#include "backend/base/index.h"
#include "tests/gui/subject.h"
#include "tests/gui/text/text_run.h"

namespace foxscope::gui::test {

class ExpertsTest : public QObject {
  Q_OBJECT

 private slots:
  void eachExpertIsARow();
  void aColumnIsSortedByAClick();
  void coloursAreThoseOfTheText();
  void rowsAreCopied();
  void allLayersAreWritten();
  void theHeadsRunIsFollowed();
  void withoutExpertsItSaysWhatToDo();
};

namespace {

struct Experts {
  Folder folder;
  Document document;
  ExpertsView view{document.runs(), document.modelRuns(), document.files()};
  QSignalSpy available{&view, &ExpertsView::available};
  bool opened = false;

  explicit Experts(const std::vector<TextRun>& runs) {
    view.resize(800, 300);
    view.show();
    std::vector<std::shared_ptr<const Trace>> traces;
    for (const TextRun& run : runs) traces.push_back(makeTextRun(run));
    opened = (traces.empty() || openRuns(document, folder, traces)) && settle();
  }
  bool settle() {
    return QTest::qWaitFor([this] { return view.isSettled() && !document.busy(); }, 60'000);
  }
  [[nodiscard]] ExpertTable table(int run = 0) const { return expert_table(document.runs()[index_of(run)].trace, 0); }
  [[nodiscard]] QString text(int row, ExpertList::Column column) { return view.list().item(row, column)->text(); }
  [[nodiscard]] double number(int row, ExpertList::Column column) {
    return view.list().item(row, column)->data(Qt::UserRole).toDouble();
  }
  void clickTitle(int column) {
    QHeaderView& header = *view.list().horizontalHeader();
    const int x = header.sectionViewportPosition(column) + header.sectionSize(column) / 2;
    QTest::mouseClick(header.viewport(), Qt::LeftButton, {}, {x, header.height() / 2});
  }
};

TextRun mixtureOf(int experts, const std::string& name = "fox") {
  TextRun run = words(200);
  run.name = name;
  run.experts = experts;
  run.keep = {Keep::loss, Keep::experts};
  return run;
}

}  // namespace

void ExpertsTest::eachExpertIsARow() {
  Experts shown({mixtureOf(7)});
  QVERIFY(shown.opened);
  QCOMPARE(shown.available.size(), 1);
  QCOMPARE(shown.view.message(), QString());
  QCOMPARE(shown.view.caption(), "Experts of fox, layer 0: 2 of 7 a token, 200 tokens");
  const ExpertTable table = shown.table();
  QCOMPARE(shown.view.list().rowCount(), 7);
  for (int row = 0; row < 7; ++row) {
    const ExpertUse& use = table.experts[index_of(row)];
    QCOMPARE(shown.text(row, ExpertList::kExpert), QString::number(use.expert));
    QCOMPARE(shown.number(row, ExpertList::kShare), 100 * table.share(use));
    QCOMPARE(shown.number(row, ExpertList::kHeaviest), 100 * table.heaviest_share(use));
    QCOMPARE(shown.number(row, ExpertList::kWeight), use.mean_weight);
    const QString most = shown.text(row, ExpertList::kMostRead);
    QVERIFY2(most.contains(QString::number(static_cast<qlonglong>(use.tokens.front().count))), qPrintable(most));
    QCOMPARE(most.count(",  "), static_cast<qsizetype>(use.tokens.size()) - 1);
  }
}

void ExpertsTest::aColumnIsSortedByAClick() {
  Experts shown({mixtureOf(7)});
  QVERIFY(shown.opened);
  for (const auto column : {ExpertList::kShare, ExpertList::kHeaviest, ExpertList::kWeight}) {
    shown.clickTitle(column);
    const bool rising = shown.view.list().horizontalHeader()->sortIndicatorOrder() == Qt::AscendingOrder;
    for (int row = 1; row < 7; ++row) {
      const double before = shown.number(row - 1, column);
      const double after = shown.number(row, column);
      QVERIFY(rising ? before <= after : before >= after);
    }
  }
}

void ExpertsTest::coloursAreThoseOfTheText() {
  const ExpertColours light(lightPalette());
  const ExpertColours dark(darkPalette());
  for (int hue = 0; hue <= ExpertColours::kHues; ++hue) {
    for (const auto& [colours, palette] : {std::pair(&light, lightPalette()), {&dark, darkPalette()}}) {
      QVERIFY(colours->at(hue, 0) != palette.color(QPalette::Base));
      // As WCAG 2 computes contrast.
      const auto luminance = [](const QColor& colour) {
        const auto linear = [](double part) {
          return part <= 0.04045 ? part / 12.92 : std::pow((part + 0.055) / 1.055, 2.4);
        };
        return 0.2126 * linear(colour.redF()) + 0.7152 * linear(colour.greenF()) + 0.0722 * linear(colour.blueF());
      };
      const double a = luminance(colours->at(hue, 1)) + 0.05;
      const double b = luminance(palette.color(QPalette::Text)) + 0.05;
      QVERIFY2(std::max(a, b) / std::min(a, b) >= 4.5, qPrintable(QString::number(hue)));
    }
  }
  // Experts that are the heaviest most often have colours, by number.
  const std::vector<int> coloured =
      ExpertColours::coloured({{0, 5}, {1, 0}, {2, 9}, {3, 1}, {4, 5}, {5, 5}, {6, 5}, {7, 5}, {8, 1}});
  QCOMPARE(coloured, (std::vector<int>{0, 2, 4, 5, 6, 7}));
  QCOMPARE(ExpertColours::hueOf(4, coloured), 2);
  QCOMPARE(ExpertColours::hueOf(3, coloured), ExpertColours::kHues);
  Experts shown({mixtureOf(3)});
  QVERIFY(shown.opened);
  const ExpertColours own(shown.view.list().palette());
  for (int row = 0; row < 3; ++row) {
    const auto mark = shown.view.list().item(row, ExpertList::kExpert)->data(Qt::DecorationRole).value<QPixmap>();
    QCOMPARE(mark.toImage().pixelColor(mark.width() / 2, mark.height() / 2), own.at(row, 1));
  }
}

void ExpertsTest::rowsAreCopied() {
  Experts shown({mixtureOf(4)});
  QVERIFY(shown.opened);
  shown.view.list().selectRow(2);
  for (QAction* action : shown.view.list().actions()) {
    if (action->text() == "Copy Rows") action->trigger();
  }
  const QStringList lines = QApplication::clipboard()->mimeData()->text().split('\n', Qt::SkipEmptyParts);
  QCOMPARE(lines.size(), 2);
  QCOMPARE(lines[0], "expert\ttokens (%)\theaviest (%)\tmean weight\ttokens that read it most, with their number");
  QVERIFY2(lines[1].startsWith("2\t"), qPrintable(lines[1]));
}

void ExpertsTest::allLayersAreWritten() {
  Experts shown({mixtureOf(4)});
  QVERIFY(shown.opened);
  const QString path = shown.folder.path("experts.csv");
  shown.view.exportTo(path);
  QVERIFY(QTest::qWaitFor([&] { return QFile::exists(path) && !shown.document.busy(); }, 20'000));
  QFile file(path);
  QVERIFY(file.open(QIODevice::ReadOnly));
  const std::vector<ExpertTable> tables = expert_tables(shown.document.runs()[0].trace);
  QCOMPARE(file.readAll().toStdString(), csv_of(tables));
}

void ExpertsTest::theHeadsRunIsFollowed() {
  TextRun other = mixtureOf(5, "other");
  other.seed = 2;
  Experts shown({mixtureOf(4), other});
  QVERIFY(shown.opened);
  shown.document.runs().selection().setHead({shown.document.runs()[1].id, 0, 0});
  QVERIFY(shown.settle());
  QCOMPARE(shown.view.caption(), "Experts of other, layer 0: 2 of 5 a token, 200 tokens");
  QCOMPARE(shown.view.list().rowCount(), 5);
}

void ExpertsTest::withoutExpertsItSaysWhatToDo() {
  Experts shown({words(50)});
  QVERIFY(shown.opened);
  QCOMPARE(shown.available.size(), 0);
  QCOMPARE(shown.view.message(), "the file of fox holds no experts: write it with foxscope run --keep experts.");
  QSignalSpy raised(&shown.document.runs(), &RunList::messageRaised);
  for (QAction* command : shown.view.commands()) command->trigger();
  QCOMPARE(raised.size(), 1);
  Experts layer({mixtureOf(-1)});
  QVERIFY(layer.opened);
  QCOMPARE(layer.view.message(), "model 'fox': layer 0 has no experts.");
  Experts none({});
  QVERIFY(none.view.message().endsWith('.'));
}

}  // namespace foxscope::gui::test

FOXSCOPE_GUI_SUBJECT(experts, foxscope::gui::test::ExpertsTest)
#include "experts_test.moc"
