#include "app/gui/curves/curve_export.h"

#include <cmath>
#include <iterator>

#include <fmt/format.h>

#include "app/gui/curves/position_plot.h"
#include "app/gui/curves/tabs/curve_tab.h"
#include "app/gui/document/places.h"
#include "backend/base/index.h"

namespace foxscope::gui::curves {

CurveTable tableOfPositions(const TokenTable& tokens, TokenColumns wanted) {
  CurveTable table;
  table.positionName = CurveTab::tr("position");
  table.positions = static_cast<std::int64_t>(tokens.id.size());
  std::vector<QString> read;
  std::vector<QString> predicted;
  for (std::int64_t position = 0; position < table.positions; ++position) {
    read.push_back(readText(tokens, position, Whitespace::visible));
    predicted.push_back(predictedText(tokens, position, Whitespace::visible));
  }
  table.texts.emplace_back(CurveTab::tr("reads"), std::move(read));
  if (wanted == TokenColumns::readAndPredicted)
    table.texts.emplace_back(CurveTab::tr("predicts"), std::move(predicted));
  return table;
}

QString csvOf(const CurveTable& table) {
  QString csv = csvField(table.positionName);
  for (const auto& [name, values] : table.texts) csv += ',' + csvField(name);
  for (const CurveTable::Column& column : table.columns) csv += ',' + csvField(column.name);
  csv += '\n';
  for (std::int64_t position = 0; position < table.positions; ++position) {
    csv += QString::number(position + table.firstNumber);
    for (const auto& [name, values] : table.texts) csv += ',' + csvField(values[index_of(position)]);
    for (const CurveTable::Column& column : table.columns) {
      csv += ',';
      const auto index = column.series->indexAt(static_cast<double>(position));
      if (!index || std::isnan(column.series->value[*index])) continue;
      csv += QString::fromStdString(fmt::format("{:.9g}", column.series->value[*index]));
    }
    csv += '\n';
  }
  return csv;
}

namespace {

figure::Rgb onPaper(const QColor& colour) {
  const auto mixed = [&](float part) {
    return static_cast<std::uint8_t>(std::lround(255 * (1 - colour.alphaF() * (1 - part))));
  };
  return {mixed(colour.redF()), mixed(colour.greenF()), mixed(colour.blueF())};
}

figure::Curve curveOf(const Line& line, const PositionAxis& axis) {
  figure::Curve curve;
  curve.name = line.name.toStdString();
  curve.y = line.series->value;
  curve.x.reserve(line.series->size());
  for (std::size_t index = 0; index < line.series->size(); ++index) {
    curve.x.push_back(axis.coordinate(line.series->positionAt(index)));
  }
  curve.ownColour = onPaper(line.colour);
  if (line.style == Qt::DashLine) curve.line = figure::LineStyle::dashed;
  if (line.style == Qt::DotLine) curve.line = figure::LineStyle::dotted;
  if (line.style == Qt::DashDotLine) curve.line = figure::LineStyle::dashDotted;
  return curve;
}

figure::Curve curveOf(const std::vector<Mark>& marks, Side side, const QColor& colour, const PositionAxis& axis) {
  figure::Curve curve;
  for (const Mark& mark : marks) {
    if (mark.side != side) continue;
    curve.x.push_back(axis.coordinate(mark.point.position));
    curve.y.push_back(mark.point.value);
  }
  curve.line = figure::LineStyle::points;
  curve.ownColour = onPaper(colour);
  return curve;
}

/// Single tokens become the faint background of their mean.
void addLine(figure::CurvePlot& plot, std::vector<figure::Curve>& single, const Line& line, const PositionAxis& axis) {
  figure::Curve curve = curveOf(line, axis);
  if (line.name.isEmpty()) {
    QColor full = line.colour;
    full.setAlphaF(1);
    curve.ownColour = onPaper(full);
    return single.push_back(std::move(curve));
  }
  for (const figure::Curve& raw : single) {
    if (raw.ownColour == curve.ownColour && raw.x == curve.x) curve.rawY = raw.y;
  }
  plot.curves.push_back(std::move(curve));
}

}  // namespace

std::optional<figure::CurveFigure> figureOf(const PositionPlot& plot, const PlotContent& content) {
  std::vector<figure::CurvePlot> plots;
  for (int strip = 0; strip < plot.strips(); ++strip) {
    for (const Side side : {Side::left, Side::right}) {
      const Strip& shown = content.strips[index_of(strip)];
      figure::CurvePlot part;
      std::vector<figure::Curve> single;
      for (std::size_t index = 0; index < content.lines.size(); ++index) {
        const Line& line = content.lines[index];
        if (line.strip == strip && line.side == side && plot.isDrawn(index)) addLine(part, single, line, plot.axis());
      }
      if (part.curves.empty()) continue;
      if (strip == 0) {
        figure::Curve marks = curveOf(content.marks, side, content.markColour, plot.axis());
        if (!marks.x.empty()) part.curves.push_back(std::move(marks));
      }
      part.yLabel = (side == Side::left ? shown.leftLabel : shown.rightLabel).toStdString();
      part.yScale = shown.scale;
      part.yLimits = plot.verticalLimits(strip, side);
      part.xScale = plot.axis().scale;
      part.xLimits = plot.horizontalLimits();
      plots.push_back(std::move(part));
    }
  }
  if (plots.empty()) return std::nullopt;
  plots.back().xLabel = content.xLabel.toStdString();
  figure::CurveFigure figure;
  static_cast<figure::CurvePlot&>(figure) = std::move(plots.front());
  figure.below.assign(std::make_move_iterator(plots.begin() + 1), std::make_move_iterator(plots.end()));
  return figure;
}

std::optional<std::int64_t> cursorPosition(const Selection& selection) {
  if (selection.hover().query) return selection.hover().query;
  return selection.hover().key ? selection.hover().key : selection.pin().query;
}

}  // namespace foxscope::gui::curves
