#include "app/gui/curves/curve_export.h"

#include <cmath>

#include <fmt/format.h>

#include "app/gui/curves/curve_tab.h"
#include "app/gui/curves/position_plot.h"
#include "app/gui/document/places.h"

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
    for (const auto& [name, values] : table.texts) csv += ',' + csvField(values[static_cast<std::size_t>(position)]);
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

figure::CurveFigure figureOf(const PositionAxis& axis, const QString& xLabel, const PositionPlot& plot) {
  figure::CurveFigure shown;
  shown.xLabel = xLabel.toStdString();
  shown.xScale = axis.scale;
  shown.xLimits = plot.horizontalLimits();
  if (plot.isSettled() && !plot.content().lines.empty()) shown.yLimits = plot.verticalLimits(0, Side::left);
  return shown;
}

figure::Curve curveOf(const Series& series, const PositionAxis& axis, const QString& name) {
  figure::Curve curve;
  curve.name = name.toStdString();
  curve.y = series.value;
  curve.x.reserve(series.size());
  for (std::size_t index = 0; index < series.size(); ++index) {
    curve.x.push_back(axis.coordinate(series.positionAt(index)));
  }
  return curve;
}

std::optional<std::int64_t> cursorPosition(const Selection& selection) {
  if (selection.hover().query) return selection.hover().query;
  return selection.hover().key ? selection.hover().key : selection.pin().query;
}

}  // namespace foxscope::gui::curves
