#pragma once

#include <string>
#include <vector>

#include "app/figure/colour_scale.h"
#include "app/figure/heads/head_axes.h"
#include "app/figure/page/panel.h"

namespace foxscope::figure {

/// Small maps of every layer and head in a grid, as one raster with white between them: layers downwards, heads across.
class HeadGridPanel final : public Panel {
 public:
  HeadGridPanel(const FigureFormat& format, int layers, int heads);

  /// Dots on a side of each small map.
  [[nodiscard]] int cellDots(const QRectF& inner) const;
  /// @param images   of layer 0 head 0, layer 0 head 1, ...
  /// @param request  rows and columns that each of them shows
  void setImages(std::vector<Image> images, const ScaledColours& colours, const MapRequest& request);
  /// A strip at the right of the maps whose colour says of which kind each layer is; before the page is arranged.
  void setKinds(std::vector<Rgb> ofLayers) { m_kinds = std::move(ofLayers); }

  [[nodiscard]] Margins margins(const QSizeF& inner) const override;
  [[nodiscard]] std::optional<double> heightFor(double width) const override;
  [[nodiscard]] Proportions proportions() const override { return Proportions::kept; }
  [[nodiscard]] QSizeF sizeIn(const QSizeF& room) const override;
  void draw(Canvas& canvas, const QRectF& inner) const override;
  void addNumbers(NumberTable& numbers) const override;

 private:
  [[nodiscard]] int cellOf(double width, double height) const;

  FigureFormat m_format;
  HeadAxes m_axes;
  int m_layers;
  int m_heads;
  std::vector<Image> m_images;
  Range m_rows;
  Range m_columns;
  ScaledColours m_colours;
  std::vector<Rgb> m_kinds;
};

}  // namespace foxscope::figure
