#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "app/figure/figure_origin.h"
#include "app/figure/figure_style.h"
#include "app/figure/page/number_table.h"
#include "app/figure/page/page.h"
#include "app/figure/page/panel.h"

namespace foxscope::figure {

/// Cells of the page's grid, from 0.
struct PanelPlace {
  int row = 0;
  int column = 0;
  int rows = 1;
  int columns = 1;
};

/// A page that is drawn as a part of another: its picture, or its numbers.
struct PagePart {
  std::string letter;  ///< "(a)", before the titles of its panels in a table of numbers; may be empty
  QSizeF size;         ///< points
  FigureOrigin origin;
  std::function<void(Canvas&)> draw;  ///< from the upper left corner on; owns what it draws
  NumberTable numbers;
};

/// A page of panels in a grid: inner rectangles of a column have one left and right edge, those of a row one top and
/// bottom, and between them is the room that their labels measure, so that nothing overlaps or is cut off.
class PanelPage {
 public:
  /// @throws UsageError for a format that is not valid or a font that is not installed
  explicit PanelPage(const FigureStyle& style);

  /// The panel, now the page's; later ones are drawn later and have later letters.
  template <typename PanelType>
  PanelType& add(std::unique_ptr<PanelType> panel, const PanelPlace& place) {
    PanelType& added = *panel;
    m_items.push_back({std::move(panel), place, {}});
    return added;
  }

  /// Works out where every panel goes; `inner` and `paint` are for afterwards.
  /// @throws UsageError where the page has no room for them
  void arrange();
  [[nodiscard]] QRectF inner(const Panel& panel) const;
  /// The bytes of the file: a picture, or the numbers that it would show, by the format. What is a part of another page
  /// goes there (FigureStyle::part), with all its panels; then there are no bytes. To be called once.
  [[nodiscard]] std::string paint(const FigureOrigin& origin);

 private:
  struct Item {
    std::unique_ptr<Panel> panel;
    PanelPlace place;
    QRectF inner;
  };
  /// A row or column of the grid.
  struct Line {
    double before = 0;  ///< room for labels
    double size = 0;
    double after = 0;
    bool fixed = false;
    double start = 0;  ///< of the inner part on the page
  };

  /// The name of an axis that neighbouring panels have.
  struct SharedName {
    std::size_t line = 0;   ///< row that it stands below, or column that it stands left of
    std::size_t first = 0;  ///< columns or rows that it is for
    std::size_t last = 0;
    QString name;
  };

  void giveLetters();
  void shareAcrossNames();
  void shareUpNames();
  void countLines();
  enum class Rooms { anew, grow };
  void measureMargins(Rooms rooms);
  void shareWidth();
  void shareHeight();
  void keepProportions(double factor);
  void useWholeDots();
  void place();
  [[nodiscard]] QSizeF sizeOf(const Item& item) const;
  [[nodiscard]] double titleHeight() const;
  [[nodiscard]] double nameHeight() const;
  void drawNames(Canvas& canvas) const;
  void draw(Canvas& canvas) const;
  [[nodiscard]] NumberTable numbers() const;
  [[noreturn]] void refuse(const char* side, double millimetres, double missing) const;

  FigureStyle m_style;
  std::shared_ptr<OffscreenApplication> m_application;
  double m_font;
  std::vector<Item> m_items;
  std::vector<QString> m_title;
  std::vector<SharedName> m_acrossNames;
  std::vector<SharedName> m_upNames;
  std::vector<Line> m_rows;
  std::vector<Line> m_columns;
  QSizeF m_page;
};

}  // namespace foxscope::figure
