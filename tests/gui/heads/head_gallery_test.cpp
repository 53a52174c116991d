// Small pictures of every head.
#include <QComboBox>
#include <QTableView>
#include <QTest>

#include "app/figure/colour_map.h"
#include "app/gui/heads/heads_view.h"
#include "tests/gui/heads/heads_shown.h"
#include "tests/gui/subject.h"

namespace foxscope::gui::test {

class HeadGalleryTest : public QObject {
  Q_OBJECT

 private slots:
  void smallPicturesOfForgetMatrices();
  void smallPicturesOfAttention();
  void theGalleryShowsSortsAndFilters();
  void hiddenRunsAreNeitherListedNorPictured();
};

void HeadGalleryTest::smallPicturesOfAttention() {
  Heads heads;
  QVERIFY(heads.run(64));
  heads.view.setColouring({HeadColouring::Kind::attentionPicture, HeadQuantity::rateDecayTime, kNoRun});
  QVERIFY(waitUntilIdle(heads.document));
  HeadGrid& grid = heads.view.grid();
  // The first query has one key, at the least distance: all of its attention is there, in the brightest colour.
  const QRect cell = grid.cell({heads.document.runs()[1].id, 2, 2});
  // A pixel may hold a second query too.
  const figure::Rgb bright = figure::colourAt(figure::viridis(), 0.8);
  const QColor first = colourAt(grid, cell.bottomLeft() + QPoint(2, -2));
  QVERIFY2(first.red() > bright.red && first.green() > bright.green, qPrintable(first.name()));
  // Back to F and again: pictures are kept.
  heads.view.setColouring({HeadColouring::Kind::forgetPicture, HeadQuantity::rateDecayTime, kNoRun});
  QVERIFY(waitUntilIdle(heads.document));
  heads.view.setColouring({HeadColouring::Kind::attentionPicture, HeadQuantity::rateDecayTime, kNoRun});
  QVERIFY(!heads.document.busy());
  QCOMPARE(colourAt(grid, cell.bottomLeft() + QPoint(2, -2)), first);
}

void HeadGalleryTest::theGalleryShowsSortsAndFilters() {
  Heads heads;
  QVERIFY(heads.run(300));
  heads.view.setTab(HeadsView::Tab::pictures);
  QVERIFY(waitUntilIdle(heads.document));
  HeadGallery& gallery = heads.view.gallery();
  QCOMPARE(gallery.heads().size(), std::size_t{32});
  QVERIFY(gallery.heads()[5] == (HeadChoice{heads.table.run(), 1, 1}));
  // Layers begin lines of their own.
  QVERIFY(gallery.cell(gallery.heads()[4]).top() > gallery.cell(gallery.heads()[3]).bottom());
  // A head of the model without gates: F is 1; its first query attends to the first key alone.
  heads.table.setRun(heads.document.runs()[1].id);
  const HeadChoice head{heads.document.runs()[1].id, 1, 1};
  const figure::Rgb bright = figure::colourAt(figure::viridis(), 1);
  const QRect place = gallery.cell(head);
  QVERIFY(!place.isEmpty());
  QCOMPARE(colourAt(gallery, place.bottomLeft() + QPoint(4, -4)), QColor(bright.red, bright.green, bright.blue));
  QToolButton* ofAttention = nullptr;
  for (QToolButton* button : heads.view.findChildren<QToolButton*>()) {
    if (button->text() == "A") ofAttention = button;
  }
  QVERIFY(ofAttention != nullptr);
  QTest::mouseClick(ofAttention, Qt::LeftButton);
  QVERIFY(waitUntilIdle(heads.document));
  QVERIFY(gallery.quantity() == Quantity::attention);
  QVERIFY(colourAt(gallery, place.bottomLeft() + QPoint(4, -4)) != QColor(bright.red, bright.green, bright.blue));
  // The order of a number, the largest first.
  gallery.setOrder(HeadQuantity::entropy);
  QCOMPARE(gallery.heads().size(), std::size_t{32});
  for (std::size_t index = 1; index < gallery.heads().size(); ++index) {
    QVERIFY(heads.table.value(gallery.heads()[index - 1], HeadQuantity::entropy) >=
            heads.table.value(gallery.heads()[index], HeadQuantity::entropy));
  }
  // A click and the keys choose.
  QTest::mouseClick(&gallery, Qt::LeftButton, {}, gallery.cell(gallery.heads()[4]).center());
  QVERIFY(heads.document.runs().selection().head() == gallery.heads()[4]);
  QTest::keyClick(&gallery, Qt::Key_Right);
  QVERIFY(heads.document.runs().selection().head() == gallery.heads()[5]);
  QTest::keyClick(&gallery, Qt::Key_Up);
  QVERIFY(gallery.cell(heads.document.runs().selection().head()).top() < gallery.cell(gallery.heads()[5]).top());
  // Only heads of a label.
  const auto label = representativeLabel(heads.table);
  QVERIFY(label);
  heads.view.setLabel(label);
  QVERIFY(gallery.heads().size() < 32 && !gallery.heads().empty());
  for (const HeadChoice& one : gallery.heads()) {
    const auto labels = heads.table.labels(one);
    QVERIFY(std::find(labels.begin(), labels.end(), *label) != labels.end());
  }
  const QJsonObject state = heads.view.saveState();
  QCOMPARE(state["pictures"].toString(), "attention");
  heads.view.restoreState({});
  QVERIFY(gallery.quantity() == Quantity::forget);
  heads.view.restoreState(state);
  QVERIFY(gallery.quantity() == Quantity::attention);
  QVERIFY(heads.view.label() == label);
}

void HeadGalleryTest::smallPicturesOfForgetMatrices() {
  Heads heads;
  QVERIFY(heads.run(64));
  heads.view.setColouring({HeadColouring::Kind::forgetPicture, HeadQuantity::rateDecayTime, kNoRun});
  QVERIFY(waitUntilIdle(heads.document));
  HeadGrid& grid = heads.view.grid();
  // Without a gate F is 1 everywhere below the diagonal: the brightest colour.
  const QRect cell = grid.cell({heads.document.runs()[1].id, 2, 2});
  const figure::Rgb bright = figure::colourAt(figure::viridis(), 1);
  QCOMPARE(colourAt(grid, cell.topLeft() + QPoint(3, cell.height() - 6)),
           QColor(bright.red, bright.green, bright.blue));
}

void HeadGalleryTest::hiddenRunsAreNeitherListedNorPictured() {
  Heads heads;
  QVERIFY(heads.run(64));
  const RunId fox = heads.document.runs()[0].id;
  const RunId transformer = heads.document.runs()[1].id;
  auto* listed = heads.view.findChild<QComboBox*>("", Qt::FindChildrenRecursively);
  for (auto* box : heads.view.findChildren<QComboBox*>()) {
    if (box->accessibleName() == "Run") listed = box;
  }
  const auto hide = [&](std::size_t row, bool hidden) {
    RunLook look = heads.document.runs().lookOf(heads.document.runs().listRows()[row]);
    look.hidden = hidden;
    heads.document.runs().setLook(heads.document.runs().listRows()[row], look);
  };
  // The gallery lists the Transformer while the chosen head is of the other model.
  heads.view.setTab(HeadsView::Tab::pictures);
  listed->setCurrentIndex(1);
  QCOMPARE(heads.table.run(), transformer);
  QVERIFY(heads.document.runs().selection().head().run == fox);
  hide(1, true);
  QCOMPARE(listed->count(), 1);
  QVERIFY(!listed->isVisible());
  QCOMPARE(heads.table.run(), fox);
  QCOMPARE(heads.view.gallery().heads().size(), 32U);
  QVERIFY(heads.view.gallery().heads()[0].run == fox);
  hide(1, false);
  QCOMPARE(listed->count(), 2);
  // All of them: nothing is listed, in no tab.
  hide(0, true);
  hide(1, true);
  QVERIFY(heads.view.gallery().heads().empty());
  QCOMPARE(heads.view.findChild<QTableView*>()->model()->rowCount(), 0);
  QVERIFY(heads.view.grid().cell({fox, 0, 0}).isEmpty());
  hide(0, false);
  QCOMPARE(heads.view.gallery().heads().size(), 32U);
  QCOMPARE(heads.view.findChild<QTableView*>()->model()->rowCount(), 32);
}

}  // namespace foxscope::gui::test

FOXSCOPE_GUI_SUBJECT(head_gallery, foxscope::gui::test::HeadGalleryTest)
#include "head_gallery_test.moc"
