#pragma once

#include <optional>
#include <vector>

#include <QPixmap>

#include "app/figure/layer_kind.h"
#include "app/gui/document/step_limits.h"
#include "app/gui/heads/head_cells.h"
#include "app/gui/heads/head_colours.h"
#include "app/gui/heads/head_pictures.h"
#include "backend/base/index.h"

namespace foxscope::gui {

/// Every head of every run as a cell, layers downwards and heads to the right, runs below each other. Click or arrow
/// keys choose a head; hovering shows its numbers. Heads that are marked (Selection::marked) have outlines. Cells are
/// as large as the width allows, down to 4 pixels, so that 64 heads stand side by side; where they are large enough
/// they hold their numbers.
class HeadGrid : public HeadCells {
  Q_OBJECT

 public:
  HeadGrid(RunList& runs, HeadTable& table, HeadPictures& pictures, QWidget* parent = nullptr);

  void setColouring(const HeadColouring& colouring);
  /// Heads without this label are faded; nothing: all are shown.
  void setLabel(std::optional<HeadLabel> label);
  [[nodiscard]] const HeadColours& colours() const { return m_colours; }
  [[nodiscard]] QRect cell(const HeadChoice& head) const override;
  [[nodiscard]] std::optional<HeadChoice> headAt(const QPoint& place) const override;
  /// Says whether the colours' limits are over several steps of a training; empty: they are not.
  [[nodiscard]] QString limitsNote() const { return m_steps.note(); }
  /// Whether what is shown of every head is there, or will not come. Until then a step of a training leaves the picture
  /// of the one before.
  [[nodiscard]] bool isWhole() const;
  /// The value that a cell's colour stands for.
  [[nodiscard]] double shownValue(const HeadChoice& head) const;
  /// The number in a head's cell: "0.22", "858", "1.2k"; empty where cells hold none, in this width or in these
  /// colours.
  [[nodiscard]] QString cellText(const HeadChoice& head) const;
  /// Whether the numbers are of gates and the head has none: its cell is hatched, not coloured.
  [[nodiscard]] bool hasNothingToShow(const HeadChoice& head) const;
  /// The name of a head and all its numbers.
  [[nodiscard]] QString description(const HeadChoice& head) const override;

  [[nodiscard]] int heightForWidth(int width) const override;
  [[nodiscard]] QSize sizeHint() const override;
  [[nodiscard]] QSize minimumSizeHint() const override;

 signals:
  void coloursChanged();

 protected:
  void paintEvent(QPaintEvent* event) override;
  void changeEvent(QEvent* event) override;
  [[nodiscard]] std::optional<HeadChoice> beside(const HeadChoice& head, Qt::Key arrow) const override;

 private:
  struct Block {
    RunId run = kNoRun;
    QString name;
    int layers = 0;
    int heads = 0;                         ///< across
    std::vector<int> steps;                ///< of each layer: from the head of one column to that of the next
    std::vector<figure::LayerKind> kinds;  ///< named below the title; empty: attention alone
    bool ungated = false;                  ///< a line below the title says that there is nothing to show
    QRect title;
    QPoint corner;  ///< of layer 0, head 0
    [[nodiscard]] int step(int layer) const { return steps[index_of(layer)]; }
  };
  [[nodiscard]] std::vector<Block> layOut(int width) const;
  [[nodiscard]] int mostHeads() const;
  [[nodiscard]] QSize cellSize(int width) const;
  [[nodiscard]] int labelWidth() const;
  void recolour();
  [[nodiscard]] bool isKnown(const HeadChoice& head) const;
  /// Whether the last whole picture stands for that of another step, which is not whole.
  [[nodiscard]] bool isHeld() const;
  /// Keeps the picture of the cells where they are of a step, and whole.
  void keepWhole(const std::vector<Block>& blocks);
  void paintCells(QPainter& painter, const std::vector<Block>& blocks) const;
  /// The font in which all numbers fit into their cells; nothing where none does.
  [[nodiscard]] std::optional<QFont> fontOfNumbers() const;
  [[nodiscard]] bool isFaded(const HeadChoice& head) const;
  void paintLabel(QPainter& painter, const QRect& inner, const HeadChoice& head) const;
  void paintCell(QPainter& painter, const QRect& cell, const HeadChoice& head) const;
  void paintNumbers(QPainter& painter, const std::vector<Block>& blocks) const;
  void paintMarks(QPainter& painter) const;
  void paintKinds(QPainter& painter, const Block& block) const;
  void paintBlock(QPainter& painter, const Block& block) const;

  RunList& m_runs;
  HeadTable& m_table;
  HeadPictures& m_pictures;
  HeadColouring m_colouring;
  HeadColours m_colours;
  StepLimits m_steps;
  QPixmap m_whole;    ///< the last whole picture of a step
  QString m_wholeOf;  ///< ShownSteps::of
  std::optional<HeadLabel> m_label;
};

}  // namespace foxscope::gui
