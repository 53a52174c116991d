#pragma once

#include <optional>
#include <vector>

#include "app/gui/document/head_table.h"
#include "app/gui/heads/head_cells.h"
#include "app/gui/heads/head_pictures.h"

namespace foxscope::gui {

/// Pictures of F or A of the listed run's heads, large enough to tell them apart: by layer, a heading each, or in the
/// order of a number, the largest first. Click or arrow keys choose a head.
class HeadGallery : public HeadCells {
  Q_OBJECT

 public:
  HeadGallery(RunList& runs, HeadTable& table, HeadPictures& pictures, QWidget* parent = nullptr);

  void setQuantity(Quantity quantity);
  [[nodiscard]] Quantity quantity() const { return m_quantity; }
  /// Orders heads by a quantity; nothing: by layer.
  void setOrder(std::optional<HeadQuantity> order);
  /// Shows heads with this label alone; nothing: all.
  void setLabel(std::optional<HeadLabel> label);
  /// The heads in the order in which they are shown.
  [[nodiscard]] const std::vector<HeadChoice>& heads() const { return m_heads; }
  /// Where a head's picture is drawn.
  [[nodiscard]] QRect cell(const HeadChoice& head) const override;
  /// The labels of a head.
  [[nodiscard]] QString description(const HeadChoice& head) const override;
  [[nodiscard]] std::optional<HeadChoice> headAt(const QPoint& place) const override;

  [[nodiscard]] int heightForWidth(int width) const override;
  [[nodiscard]] QSize sizeHint() const override { return {240, heightForWidth(240)}; }

 protected:
  void paintEvent(QPaintEvent* event) override;
  [[nodiscard]] std::optional<HeadChoice> beside(const HeadChoice& head, Qt::Key arrow) const override;

 private:
  struct Layout {
    std::vector<QRect> cells;                         ///< by m_heads; picture and caption
    std::vector<std::pair<QRect, QString>> headings;  ///< of layers
    int height = 0;
  };
  [[nodiscard]] Layout layOut(int width) const;
  [[nodiscard]] QRect pictureIn(const QRect& cell) const;
  [[nodiscard]] int columns(int width) const;
  void arrange();
  [[nodiscard]] QString nothingText() const;
  void paintCell(QPainter& painter, const QRect& cell, const HeadChoice& head) const;

  RunList& m_runs;
  HeadTable& m_table;
  HeadPictures& m_pictures;
  Quantity m_quantity = Quantity::forget;
  std::optional<HeadQuantity> m_order;
  std::optional<HeadLabel> m_label;
  std::vector<HeadChoice> m_heads;
};

}  // namespace foxscope::gui
