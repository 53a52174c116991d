#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include <QString>

#include "app/figure/curves/curve_figure.h"
#include "app/gui/curves/position_axis.h"
#include "app/gui/curves/series.h"
#include "app/gui/document/selection.h"
#include "backend/trace/trace.h"

namespace foxscope::gui::curves {

class PositionPlot;
struct PlotContent;

/// Numbers as they leave the window: one row a position, its tokens, and a column a series.
struct CurveTable {
  struct Column {
    QString name;  ///< with its unit
    std::shared_ptr<const Series> series;
  };
  QString positionName;
  std::int64_t positions = 0;
  std::int64_t firstNumber = 0;                                 ///< what position 0 is called
  std::vector<std::pair<QString, std::vector<QString>>> texts;  ///< name, [positions]
  std::vector<Column> columns;
};

enum class TokenColumns { read, readAndPredicted };
/// Every position with what it reads, and what it predicts if asked for.
CurveTable tableOfPositions(const TokenTable& tokens, TokenColumns wanted);

/// CSV with a line of names; numbers with nine significant digits, an empty field where there is none.
QString csvOf(const CurveTable& table);

/// A figure of a plot: its lines, strips, limits and scales, a plot for each vertical axis, one below the other.
/// @param content  the plot's own, in colours for white paper
/// @returns nothing where no line is drawn
std::optional<figure::CurveFigure> figureOf(const PositionPlot& plot, const PlotContent& content);

/// The position that a read-out is about: of the hovered pair its query, else its key, else the pinned query.
std::optional<std::int64_t> cursorPosition(const Selection& selection);

}  // namespace foxscope::gui::curves
