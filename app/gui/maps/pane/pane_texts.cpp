#include "app/gui/maps/pane/pane_texts.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include <QCoreApplication>
#include <QStringList>

#include "app/gui/document/number_text.h"
#include "app/gui/maps/map_plot.h"

namespace foxscope::gui {
namespace {

constexpr double kContrastDecades = 6;

QString tr(const char* text) { return QCoreApplication::translate("foxscope::gui::PaneTexts", text); }

QString number(double value) { return numberOf(value, 3); }

QString binText(const MapPicture& picture) {
  const Image& image = *picture.values.front();
  const View& view = picture.request.view;
  if (picture.request.content.axes == MapAxes::distance) {
    return tr("%1 × a bin of distances").arg(number(picture.tokensPerPixel()));
  }
  return QStringLiteral("%1 × %2").arg(
      number(static_cast<double>(view.rows.size()) / static_cast<double>(image.rows)),
      number(static_cast<double>(view.columns.size()) / static_cast<double>(image.columns)));
}

bool isGated(const HeadOf& head) { return forgets(head.trace->info(), head.layer); }

bool forgetsNothing(const PictureContent& content) {
  const bool gated = std::any_of(content.sides.begin(), content.sides.end(),
                                 [](const PictureSide& side) { return isGated(side.head); });
  return !gated && content.hasClosedForm() && !content.minus;
}

/// The one of two heads, A and B, that has no gate while the other has one: its F is 1.
struct Ungated {
  QString letter;
  HeadOf head;
};
std::optional<Ungated> ungatedBesideGated(const PictureContent& content) {
  if (content.quantity != Quantity::forget && content.quantity != Quantity::log_forget) return std::nullopt;
  if (!content.minus && content.sides.size() < 2) return std::nullopt;
  const HeadOf& first = content.sides[0].head;
  const HeadOf& second = content.minus ? *content.minus : content.sides[1].head;
  if (isGated(first) == isGated(second)) return std::nullopt;
  return isGated(first) ? Ungated{QStringLiteral("B"), second} : Ungated{QStringLiteral("A"), first};
}

bool isPlaced(const PictureContent& content) {
  return std::any_of(content.sides.begin(), content.sides.end(),
                     [](const PictureSide& side) { return !side.samePositions(); });
}

/// The sides whose runs end before the reference does: blank from there on. Where tokens differ, the last one may be
/// read by one run alone.
std::vector<const PictureSide*> endedSides(const PictureContent& content, std::int64_t length) {
  std::vector<const PictureSide*> ended;
  for (const PictureSide& side : content.sides) {
    if (side.covered() + (side.samePositions() ? 0 : 1) < length) ended.push_back(&side);
  }
  return ended;
}

QString tokenOf(const Trace& trace, std::int64_t position) {
  const auto& tokens = trace.tokens();
  if (!tokens || position >= static_cast<std::int64_t>(tokens->input_id.size())) return {};
  return readText(*tokens, position, Whitespace::visible);
}

QString quoted(const Trace& trace, std::int64_t position) {
  const QString token = tokenOf(trace, position);
  return token.isEmpty() ? token : QStringLiteral(" “%1”").arg(token);
}

}  // namespace

std::vector<TitlePart> headsOf(const PictureContent& content, const PaneHeads& heads) {
  std::vector<TitlePart> title;
  const auto add = [&](const HeadOf& head) {
    for (TitlePart& part : heads.titleOf(head)) title.push_back(std::move(part));
  };
  const bool two = content.sides.size() > 1;
  if (two) title.push_back({QStringLiteral("A: "), TitlePart::Kind::hint});
  add(content.sides.front().head);
  if (content.minus) {
    title.push_back({QStringLiteral(" − ")});
    add(*content.minus);
  }
  if (two) {
    title.push_back({QStringLiteral(" | ")});
    title.push_back({QStringLiteral("B: "), TitlePart::Kind::hint});
    add(content.sides[1].head);
  }
  return title;
}

QString titleOf(const PictureContent& content, const PaneHeads& heads) {
  const QString title = QStringLiteral("%1 · %2").arg(textOf(headsOf(content, heads)), nameOf(content.quantity));
  return content.firstKey == FirstKey::left_out ? title + tr(" without key 0") : title;
}

QString detailOf(const MapPicture& picture, Finality finality, const PaneHeads& heads, std::int64_t length) {
  QStringList parts;
  const PictureContent& content = picture.request.content;
  if (picture.showsEntries() || (picture.tokensPerPixel() == 1 && finality == Finality::coarse)) {
    parts += tr("one entry a pixel");
  } else {
    parts += tr("%1 of %2 tokens a pixel").arg(nameOf(content.reduction), binText(picture));
  }
  parts += finality == Finality::exact ? tr("exact") : tr("coarse");
  if (content.firstKey == FirstKey::left_out) parts += tr("key 0 left out, each row divided by the rest");
  if (forgetsNothing(content)) parts += tr("no gates: nothing is forgotten");
  if (const auto ungated = ungatedBesideGated(content)) {
    parts += tr("%1 has no gates: its F is 1").arg(heads.axisRunOf(ungated->head).name);
  }
  if (isPlaced(content)) parts += tr("other tokens: shown by place in the text");
  for (const PictureSide* side : endedSides(content, length)) {
    parts += tr("%1 was run over %2 tokens").arg(heads.axisRunOf(side->head).name).arg(side->head.trace->info().length);
  }
  if (length > 0 && picture.summary->empty) parts += tr("no key here is before its query");
  return parts.join(QStringLiteral(" · "));
}

QString meaningOf(const PictureContent& content) {
  const auto isLinear = [](const PictureSide& side) {
    return !side.head.trace->info().mixer(side.head.layer).has_softmax();
  };
  if (std::none_of(content.sides.begin(), content.sides.end(), isLinear)) return {};
  const auto byChannel = [](const PictureSide& side) {
    return side.head.trace->info().mixer(side.head.layer).decays_by_channel();
  };
  switch (content.quantity) {
    case Quantity::mixing:
      return tr("M: y = M v, signed; F: its decay");
    case Quantity::forget:
    case Quantity::log_forget:
      return std::any_of(content.sides.begin(), content.sides.end(), byChannel)
                 ? tr("F: the decay of M, mean of its channels; M: y = M v, signed")
                 : tr("F: the decay of M; M: y = M v, signed");
    case Quantity::attention:
      return tr("A: |M| of a row, divided by its sum; M: y = M v, signed");
    default:
      return {};
  }
}

QString termOf(Quantity quantity) {
  switch (quantity) {
    case Quantity::forget:
      return QStringLiteral("forget");
    case Quantity::log_forget:
      return QStringLiteral("decay-bias");
    case Quantity::logits:
      return QStringLiteral("logits");
    case Quantity::mixing:
      return QStringLiteral("mixing");
    default:
      return QStringLiteral("attention");
  }
}

QString noteOf(const MapPicture& picture, const PaneHeads& heads, std::int64_t length) {
  QStringList parts;
  const PictureContent& content = picture.request.content;
  if (forgetsNothing(content)) parts += tr("no gates");
  if (const auto ungated = ungatedBesideGated(content)) parts += tr("%1: no gates").arg(ungated->letter);
  if (isPlaced(content)) parts += tr("other tokens");
  for (const PictureSide* side : endedSides(content, length)) {
    parts += tr("%1: %2 tokens").arg(heads.axisRunOf(side->head).name).arg(side->head.trace->info().length);
  }
  return parts.join(QStringLiteral(" · "));
}

Cursor readPlace(const Selection& selection) {
  return selection.hover().query || selection.hover().key ? selection.cursor() : selection.pin();
}

std::size_t sideShowing(const PictureContent& content, const MapPlot& plot, std::int64_t row, std::int64_t column) {
  if (content.sides.size() < 2) return 0;
  const PlotGeometry& geometry = plot.geometryOfView();
  return plot.divider().sideAt(geometry.rect, geometry.cell(row, column).center());
}

QString placeText(const PictureContent& content, std::size_t side, std::int64_t position) {
  const PictureSide& of = content.sides[side];
  const auto own = of.position(position);
  return own ? QStringLiteral("%1 %2").arg(*own).arg(tokenOf(*of.head.trace, *own)) : QString::number(position);
}

PaneReading readingOf(const PictureContent& content, const MapPicture* picture, const EntryReading* entry,
                      const RunList& runs, const MapPlot& plot) {
  const Selection& selection = runs.selection();
  const Cursor cursor = readPlace(selection);
  const std::int64_t length = runs.length();
  const auto inside = [&](const std::optional<std::int64_t>& position) { return position && *position < length; };
  const bool pair = inside(cursor.query) && inside(cursor.key);
  const std::size_t side = pair ? sideShowing(content, plot, *cursor.query, *cursor.key) : 0;
  PaneReading reading;
  QStringList parts;
  if (entry != nullptr) {
    const QString name = shortNameOf(content.quantity);
    if (!entry->failure.isEmpty()) {
      reading.value = QStringLiteral("?");
      parts += QStringLiteral("%1: %2").arg(name, entry->failure);
    } else if (!entry->value) {
      reading.value = QStringLiteral("…");
      parts += tr("%1: computing …").arg(name);
    } else if (!std::isnan(*entry->value)) {
      reading.value = number(*entry->value);
      parts += QStringLiteral("%1 = %2").arg(name, number(*entry->value));
    }
  }
  const PictureSide& of = content.sides[side];
  const auto place = [&](const QString& name, std::int64_t position) {
    const auto own = of.position(position);
    parts += own ? QStringLiteral("%1 %2%3").arg(name).arg(*own).arg(quoted(*of.head.trace, *own))
                 : tr("%1 %2: not read in this run").arg(name).arg(position);
    return QStringLiteral("%1 %2").arg(name, placeText(content, side, position));
  };
  if (inside(cursor.query)) reading.query = place(QStringLiteral("i"), *cursor.query);
  if (inside(cursor.key)) reading.key = place(QStringLiteral("j"), *cursor.key);
  if (pair) {
    const auto query = of.position(*cursor.query);
    const auto key = of.position(*cursor.key);
    if (query && key) {
      reading.distance = QStringLiteral("i−j %1").arg(*query - *key);
      parts += tr("distance i − j %1").arg(*query - *key);
    }
  }
  if (pair && picture != nullptr && !picture->showsEntries()) {
    const float value = picture->value(side, *cursor.query, *cursor.key);
    const QString made =
        picture->exact ? tr("%1 of %2").arg(nameOf(content.reduction), binText(*picture)) : tr("coarse");
    if (std::isfinite(value)) parts += tr("its pixel, %1: %2").arg(made, number(value));
  }
  if (inside(cursor.query) && !inside(cursor.key) && selection.hover().key) {
    parts +=
        tr("j %1 comes after it: no entry").arg(of.position(*selection.hover().key).value_or(*selection.hover().key));
    reading.value = QStringLiteral("–");
  }
  reading.whole = parts.join(QStringLiteral(" · "));
  return reading;
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
