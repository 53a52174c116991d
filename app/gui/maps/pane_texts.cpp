#include "app/gui/maps/pane_texts.h"

#include <algorithm>
#include <cmath>

#include <QCoreApplication>
#include <QStringList>

#include "app/gui/maps/map_plot.h"

namespace foxscope::gui {
namespace {

constexpr double kContrastDecades = 6;

QString tr(const char* text) { return QCoreApplication::translate("foxscope::gui::PaneTexts", text); }

QString number(double value) { return QString::number(value, 'g', 3); }

QString binText(const MapPicture& picture) {
  const Image& image = *picture.values.front();
  const View& view = picture.request.view;
  return QStringLiteral("%1 × %2").arg(
      number(static_cast<double>(view.rows.size()) / static_cast<double>(image.rows)),
      number(static_cast<double>(view.columns.size()) / static_cast<double>(image.columns)));
}

QString quoted(const Document& document, std::int64_t position) {
  const auto& tokens = document.reference()->trace->tokens();
  if (!tokens || position >= static_cast<std::int64_t>(tokens->input_id.size())) return {};
  return QStringLiteral(" “%1”").arg(readText(*tokens, position, Whitespace::visible));
}

}  // namespace

QString titleOf(const PictureContent& content, const PaneHeads& heads) {
  QString who = heads.textOf(content.sides.front().head);
  if (content.minus) who += QStringLiteral(" − ") + heads.textOf(*content.minus);
  if (content.sides.size() > 1) {
    who = QStringLiteral("A: %1 | B: %2").arg(who, heads.textOf(content.sides[1].head));
  }
  return QStringLiteral("%1 · %2").arg(who, nameOf(content.quantity));
}

QString detailOf(const MapPicture& picture, Finality finality, std::int64_t length) {
  QStringList parts;
  const PictureContent& content = picture.request.content;
  if (picture.showsEntries() || (picture.tokensPerPixel() == 1 && finality == Finality::coarse)) {
    parts += tr("one entry a pixel");
  } else {
    parts += tr("%1 of %2 tokens a pixel").arg(nameOf(content.reduction), binText(picture));
  }
  parts += finality == Finality::exact ? tr("exact") : tr("coarse");
  const bool gated = std::any_of(content.sides.begin(), content.sides.end(),
                                 [](const PictureSide& side) { return side.head.trace->info().gated; });
  if (!gated && content.hasClosedForm() && !content.minus) parts += tr("no gates: nothing is forgotten");
  const bool placed = std::any_of(content.sides.begin(), content.sides.end(),
                                  [](const PictureSide& side) { return !side.samePositions(); });
  if (placed) parts += tr("other tokens: shown by place in the text");
  if (length > 0 && picture.summary->empty) parts += tr("no key here is before its query");
  return parts.join(QStringLiteral(" · "));
}

QString readoutOf(const MapPicture& picture, const Document& document, const MapPlot& plot) {
  const Selection& selection = document.selection();
  const Cursor cursor = selection.hover().query || selection.hover().key ? selection.cursor() : selection.pin();
  const std::int64_t length = document.length();
  if (length < 1) return {};
  QStringList parts;
  const auto inside = [&](const std::optional<std::int64_t>& position) { return position && *position < length; };
  if (inside(cursor.query)) parts += tr("i %1%2").arg(*cursor.query).arg(quoted(document, *cursor.query));
  if (inside(cursor.key)) parts += tr("j %1%2").arg(*cursor.key).arg(quoted(document, *cursor.key));
  if (!inside(cursor.query)) return parts.join(QStringLiteral(" · "));
  if (!inside(cursor.key)) {
    if (selection.hover().key) parts += tr("j %1 comes after it: no entry").arg(*selection.hover().key);
    return parts.join(QStringLiteral(" · "));
  }
  const PlotGeometry& geometry = plot.geometryOfView();
  const QPointF middle =
      geometry.corner(*cursor.query, *cursor.key) + QPointF(geometry.cellWidth() / 2, geometry.cellHeight() / 2);
  const std::size_t side = picture.values.size() > 1 ? plot.divider().sideAt(geometry.rect, middle) : 0;
  const float value = picture.value(side, *cursor.query, *cursor.key);
  if (std::isfinite(value)) {
    QString text = QStringLiteral("%1 = %2").arg(shortNameOf(picture.request.content.quantity)).arg(number(value));
    if (!picture.showsEntries()) {
      text += picture.exact ? tr(" (%1 of %2)").arg(nameOf(picture.request.content.reduction), binText(picture))
                            : tr(" (coarse)");
    }
    parts.prepend(text);
  }
  return parts.join(QStringLiteral(" · "));
}

QString commandOf(const MapRequest& request, const Document& document) {
  const auto runOf = [&](const HeadOf& head) {
    return std::find_if(document.runs().begin(), document.runs().end(),
                        [&](const Run& run) { return run.trace == head.trace; });
  };
  const auto run = runOf(request.head);
  if (run == document.runs().end() || run->file.isEmpty()) return {};
  const auto option = [](const char* name, const QString& value) {
    return QStringLiteral(" --%1 %2").arg(name, value);
  };
  const auto range = [](const Range& positions) {
    return QStringLiteral("%1:%2").arg(positions.begin).arg(positions.end);
  };
  QString command = QStringLiteral("foxscope map '%1'").arg(run->file);
  command += option("model", QString::fromStdString(request.head.trace->info().name));
  command += option("layer", QString::number(request.head.layer));
  command += option("head", QString::number(request.head.head));
  command += option("quantity", to_string(request.quantity));
  if (request.minus) {
    const auto other = runOf(*request.minus);
    if (other == document.runs().end() || other->file != run->file) return {};
    command += option("minus", QStringLiteral("%1:%2:%3")
                                   .arg(QString::fromStdString(request.minus->trace->info().name))
                                   .arg(request.minus->layer)
                                   .arg(request.minus->head));
  }
  command += option("rows", range(request.rows)) + option("cols", range(request.columns));
  command += option("size", QStringLiteral("%1x%2").arg(request.pixel_rows).arg(request.pixel_columns));
  command += option("reduce", to_string(request.reduction));
  return command;
}

std::pair<double, double> contrastLimits(const MapPicture& picture) {
  const ValueSummary& summary = *picture.summary;
  if (picture.colours.hasSigns) {
    const double size = std::max(std::abs(summary.percentile0_1), std::abs(summary.percentile99_9));
    return {-size, size};
  }
  if (picture.colours.scale == figure::ColourScale::logarithmic) {
    return {std::max(summary.percentile0_1, summary.percentile99_9 * std::pow(10, -kContrastDecades)),
            summary.percentile99_9};
  }
  return {summary.percentile0_1, summary.percentile99_9};
}

}  // namespace foxscope::gui
