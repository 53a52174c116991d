#pragma once

#include <string>
#include <vector>

#include "app/figure/colour_scale.h"
#include "app/figure/maps/map_layout.h"
#include "app/figure/page/axis_drawing.h"
#include "app/figure/page/panel.h"

namespace foxscope::figure {

/// One side of a map: what its rows or columns are.
struct MapAxis {
  Range range;
  std::string name;                 ///< "query *i*"
  std::vector<std::string> labels;  ///< one for each entry; empty: numbers of positions
  AxisShown shown = AxisShown::ticksAndName;
  /// The labels that are written where not all have room: none, or every second, third ...
  enum class Crowded { none, thinned };
  Crowded crowded = Crowded::none;
  /// The labels are tokens that stand at the positions, or values that the axis has instead of positions.
  enum class Labels { tokens, values };
  Labels are = Labels::tokens;
  /// Whether rows are distances upwards on a logarithmic axis, in the place of positions downwards.
  bool ofDistances = false;
};

/// Layers or heads by their numbers, as many of them written as have room.
MapAxis numberedAxis(const char* name, int count);

/// A map in a frame, queries or whatever its rows are downwards. Its image is given once it is known how many pixels
/// there is room for.
class MapPanel final : public Panel {
 public:
  struct Content {
    MapAxis rows;
    MapAxis columns;
    std::string title;                           ///< above; may be empty
    std::vector<std::string> titlesBeside = {};  ///< of panels of its width whose letters are to be as large
    Proportions proportions = Proportions::kept;
    double heightOfWidth = 1;
  };
  MapPanel(const FigureFormat& format, Content content);

  /// Pixels for a map on this inner rectangle: one for each entry where there is a dot for it, else one for each dot.
  [[nodiscard]] PixelRoom pixelsIn(const QRectF& inner) const;
  /// @param image  as it is drawn, by distance drawn_by_distance's
  void setImage(Image image, const ScaledColours& colours);
  /// Draws numbers or words onto the cells, black or white, perhaps in several lines; [rows x columns].
  void setCellTexts(std::vector<std::string> texts) { m_cellTexts = std::move(texts); }
  /// Whether such texts can be read on the cells of this inner rectangle.
  [[nodiscard]] bool fitsCells(const std::vector<std::string>& texts, const QRectF& inner) const;
  /// Draws a dashed line downwards at a place among the columns, 0.5 for the middle of the first.
  void setColumnMark(double place) { m_columnMark = place; }
  /// Draws a line through the map at one place among the columns for each row: what is left of it is something else.
  /// @param name    in a table of the numbers
  /// @param places  [rows] key positions, at the left edge of the key's entry
  void setBoundary(const std::string& name, std::vector<std::int64_t> places) {
    m_boundaryName = name;
    m_boundary = std::move(places);
  }

  [[nodiscard]] Margins margins(const QSizeF& inner) const override;
  [[nodiscard]] std::optional<double> heightFor(double width) const override { return width * m_content.heightOfWidth; }
  [[nodiscard]] Proportions proportions() const override { return m_content.proportions; }
  [[nodiscard]] std::string acrossName() const override;
  [[nodiscard]] std::string upName() const override;
  [[nodiscard]] QSizeF sizeIn(const QSizeF& room) const override;
  /// A map without a title belongs to the one above it.
  [[nodiscard]] bool hasLetter() const override { return !m_content.title.empty(); }
  void draw(Canvas& canvas, const QRectF& inner) const override;
  void addNumbers(NumberTable& numbers) const override;
  [[nodiscard]] std::string title() const override { return m_content.title; }

 private:
  enum class Side { rows, columns };
  [[nodiscard]] const MapAxis& axis(Side side) const { return side == Side::rows ? m_content.rows : m_content.columns; }
  [[nodiscard]] SideDots dotsOf(Side side, double length) const;
  /// Letters of the labels of entries; nothing where numbers are written.
  [[nodiscard]] std::optional<TextStyle> entryStyle(Side side, double length) const;
  [[nodiscard]] std::string nameOf(Side side) const;
  [[nodiscard]] Ticks ticksOf(Side side, double length) const;
  /// Where a tick stands on a side: the share to its left, or below it.
  [[nodiscard]] double placeOn(Side side, double value) const;
  [[nodiscard]] double labelDepth(Side side, double length) const;
  /// One in so many labels is written.
  [[nodiscard]] std::size_t labelStep(Side side, double length, const TextStyle& style) const;
  /// Labels of columns stand upright where they are wider than their cells.
  [[nodiscard]] bool upright(double length, const TextStyle& style) const;
  [[nodiscard]] double widestEntry(Side side, const TextStyle& style) const;
  [[nodiscard]] double titleWidth(double width) const;
  [[nodiscard]] std::vector<QString> titleLines(double width) const;
  [[nodiscard]] std::vector<std::string> titlesBeside() const;
  /// Size of the letters of such texts, of the figure's.
  [[nodiscard]] double cellTextFactor(const std::vector<std::string>& texts, const QRectF& inner) const;
  void drawSide(Canvas& canvas, Side side, const QRectF& inner) const;
  void drawEntryLabels(Canvas& canvas, Side side, const QRectF& inner, const TextStyle& style) const;
  void drawCellTexts(Canvas& canvas, const QRectF& inner) const;
  void drawColumnMark(Canvas& canvas, const QRectF& inner) const;
  void addNumbersByDistance(NumberTable& numbers) const;
  void drawBoundary(Canvas& canvas, const QRectF& inner) const;

  FigureFormat m_format;
  Content m_content;
  TextStyle m_style;
  Image m_image;
  ScaledColours m_colours;
  std::vector<std::string> m_cellTexts;
  std::optional<double> m_columnMark;
  std::string m_boundaryName;
  std::vector<std::int64_t> m_boundary;
};

/// The colours of a scale: upright beside the maps of a row, or lying under those of a column.
class ColourBarPanel final : public Panel {
 public:
  /// @param labelRoom  width of the tick labels, font sizes: barLabelRoom of what the maps show
  ColourBarPanel(const FigureFormat& format, double labelRoom);
  /// One that lies; it needs no such room.
  explicit ColourBarPanel(const FigureFormat& format);
  void setColours(const ScaledColours& colours, Quantity quantity);
  /// The symbol is written where an upright bar is too short for the label.
  void setColours(const ScaledColours& colours, const std::string& label, const std::string& symbol);
  /// Room for such a label under a bar that lies, before the page is arranged; else there is that for one line. The
  /// labels of the ticks, not known yet, may need a factor behind it.
  void expectLabel(const std::string& label) { m_label = label + " (× 10⁻²)"; }

  [[nodiscard]] Margins margins(const QSizeF& inner) const override;
  [[nodiscard]] std::optional<double> fixedWidth() const override;
  [[nodiscard]] std::optional<double> heightFor(double width) const override;
  [[nodiscard]] bool hasLetter() const override { return false; }
  void draw(Canvas& canvas, const QRectF& inner) const override;

 private:
  FigureFormat m_format;
  TextStyle m_style;
  [[nodiscard]] Ticks ticks(double length) const;

  std::optional<double> m_labelRoom;  ///< absent: it lies
  ScaledColours m_colours;
  std::string m_label;
  std::string m_symbol;
};

}  // namespace foxscope::figure
