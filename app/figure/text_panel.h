#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <QString>
#include <QTextLayout>

#include "app/figure/colour_scale.h"
#include "app/figure/page/panel.h"

namespace foxscope::figure {

/// A piece of a passage and its tint.
struct TintedPiece {
  QString text;
  double value = 0;       ///< NaN: no tint
  bool outlined = false;  ///< a frame around it
  std::int64_t position = 0;
};

/// A passage in lines that are as wide as the panel, each piece on its tint. Scripts from right to left and letters
/// that are joined are shaped over the borders of pieces.
class TextPanel final : public Panel {
 public:
  TextPanel(const FigureFormat& format, std::vector<TintedPiece> pieces, const ScaledColours& colours);

  [[nodiscard]] Margins margins(const QSizeF& inner) const override;
  [[nodiscard]] std::optional<double> heightFor(double width) const override;
  [[nodiscard]] Proportions proportions() const override { return Proportions::kept; }
  void draw(Canvas& canvas, const QRectF& inner) const override;
  void addNumbers(NumberTable& numbers) const override;

 private:
  struct Place {
    qsizetype begin = 0;
    qsizetype end = 0;
    QColor colour;
    bool outlined = false;
  };
  void layOut(double width) const;
  void drawTints(Canvas& canvas, const QTextLine& line, const QPointF& corner, double width) const;
  [[nodiscard]] double scale() const { return kDesignSize / m_style.size; }

  TextStyle m_style;
  std::vector<TintedPiece> m_pieces;
  std::string m_quantity;  ///< of their values
  std::vector<Place> m_places;
  mutable QTextLayout m_layout;
  mutable double m_width = 0;  ///< that the layout is for
};

}  // namespace foxscope::figure
