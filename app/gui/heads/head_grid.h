#pragma once

#include <optional>
#include <vector>

#include <QWidget>

#include "app/gui/heads/head_colours.h"
#include "app/gui/heads/head_pictures.h"

namespace foxscope::gui {

/// Every head of every run as a cell, layers downwards and heads to the right, runs below each other. Click or arrow
/// keys choose a head; hovering tells its numbers.
class HeadGrid : public QWidget {
  Q_OBJECT

 public:
  HeadGrid(Document& document, HeadTable& table, HeadPictures& pictures, QWidget* parent = nullptr);

  void setColouring(const HeadColouring& colouring);
  /// Heads without this label are faded; nothing: all are shown.
  void setLabel(std::optional<HeadLabel> label);
  [[nodiscard]] const HeadColours& colours() const { return m_colours; }
  /// Where a head is drawn; empty where it is not.
  [[nodiscard]] QRect cell(const HeadChoice& head) const;
  [[nodiscard]] std::optional<HeadChoice> headAt(const QPoint& place) const;
  /// The value that a cell's colour stands for.
  [[nodiscard]] double shownValue(const HeadChoice& head) const;
  /// What hovering a head tells: its name and all its numbers.
  [[nodiscard]] QString description(const HeadChoice& head) const;

  [[nodiscard]] bool hasHeightForWidth() const override { return true; }
  [[nodiscard]] int heightForWidth(int width) const override;
  [[nodiscard]] QSize sizeHint() const override;
  [[nodiscard]] QSize minimumSizeHint() const override;

 signals:
  void coloursChanged();

 protected:
  void paintEvent(QPaintEvent* event) override;
  void mousePressEvent(QMouseEvent* event) override;
  void mouseMoveEvent(QMouseEvent* event) override;
  void leaveEvent(QEvent* event) override;
  void keyPressEvent(QKeyEvent* event) override;
  void changeEvent(QEvent* event) override;
  bool event(QEvent* event) override;

 private:
  struct Block {
    RunId run = kNoRun;
    QString name;
    int layers = 0;
    int heads = 0;
    QRect title;
    QPoint corner;  ///< of layer 0, head 0
  };
  [[nodiscard]] std::vector<Block> layOut(int width) const;
  [[nodiscard]] int cellSize(int width) const;
  [[nodiscard]] int labelWidth() const;
  void recolour();
  [[nodiscard]] bool isFaded(const HeadChoice& head) const;
  void paintLabel(QPainter& painter, const QRect& inner, const HeadChoice& head) const;
  void paintCell(QPainter& painter, const QRect& cell, const HeadChoice& head) const;
  void paintBlock(QPainter& painter, const Block& block) const;
  void step(int layers, int heads);

  Document& m_document;
  HeadTable& m_table;
  HeadPictures& m_pictures;
  HeadColouring m_colouring;
  HeadColours m_colours;
  std::optional<HeadChoice> m_hovered;
  std::optional<HeadLabel> m_label;
};

}  // namespace foxscope::gui
