#include "app/gui/maps/pane/pane_state.h"

#include <algorithm>
#include <array>
#include <utility>

#include <QCoreApplication>
#include <QJsonValue>

namespace foxscope::gui {
namespace {

using figure::ColourMapName;
using figure::ColourScale;

constexpr std::array<std::pair<Sides, const char*>, 5> kSides{{{Sides::left, "left"},
                                                               {Sides::right, "right"},
                                                               {Sides::splitVertically, "split_vertically"},
                                                               {Sides::splitHorizontally, "split_horizontally"},
                                                               {Sides::difference, "difference"}}};
constexpr std::array<std::pair<ColourMapName, const char*>, 5> kMaps{{{ColourMapName::viridis, "viridis"},
                                                                      {ColourMapName::cividis, "cividis"},
                                                                      {ColourMapName::magma, "magma"},
                                                                      {ColourMapName::grey, "grey"},
                                                                      {ColourMapName::diverging, "diverging"}}};
constexpr std::array<std::pair<ColourScale, const char*>, 2> kScales{
    {{ColourScale::linear, "linear"}, {ColourScale::logarithmic, "logarithmic"}}};
constexpr std::array kQuantities{Quantity::forget,
                                 Quantity::log_forget,
                                 Quantity::logits,
                                 Quantity::attention,
                                 Quantity::attention_without_gate,
                                 Quantity::gate_effect,
                                 Quantity::mixing};
constexpr std::array kReductions{Reduction::max, Reduction::mean, Reduction::min, Reduction::absmax};

template <typename Table, typename Value>
QString wordOf(const Table& table, Value value) {
  for (const auto& [entry, word] : table) {
    if (entry == value) return QString::fromLatin1(word);
  }
  return {};
}

template <typename Value, typename Table>
std::optional<Value> valueOf(const Table& table, const QJsonValue& json) {
  for (const auto& [entry, word] : table) {
    if (json.toString() == QLatin1String(word)) return entry;
  }
  return std::nullopt;
}

template <typename Value, typename List>
std::optional<Value> valueByBackendName(const List& list, const QJsonValue& json) {
  for (const Value value : list) {
    if (json.toString() == QLatin1String(to_string(value))) return value;
  }
  return std::nullopt;
}

std::optional<double> numberIn(const QJsonValue& json) {
  return json.isDouble() ? std::optional(json.toDouble()) : std::nullopt;
}

QJsonObject jsonOf(const NamedHead& head) { return {{"run", head.run}, {"layer", head.layer}, {"head", head.head}}; }

std::optional<NamedHead> headOf(const QJsonValue& json) {
  if (!json.isObject()) return std::nullopt;
  const QJsonObject object = json.toObject();
  const NamedHead head{object["run"].toString(), object["layer"].toInt(-1), object["head"].toInt(-1)};
  if (head.run.isEmpty() || head.layer < 0 || head.head < 0) return std::nullopt;
  return head;
}

QString translated(const char* text) { return QCoreApplication::translate("foxscope::gui::PaneState", text); }

}  // namespace

figure::ColourChoice ColourState::choice() const {
  return {map ? &figure::colourMapOf(*map) : nullptr, lower, upper, blankBelow};
}

Reduction PaneState::effectiveReduction() const {
  return reduction.value_or(default_reduction(quantity, sides == Sides::difference));
}

FirstKey PaneState::effectiveFirstKey() const { return is_of_attention(quantity) ? firstKey : FirstKey::counted; }

bool PaneState::hasSigns() const {
  return sides == Sides::difference || quantity == Quantity::gate_effect || quantity == Quantity::mixing;
}

bool PaneState::allowsLogarithm() const {
  return !hasSigns() && quantity != Quantity::log_forget && quantity != Quantity::logits;
}

ColourScale PaneState::effectiveScale() const {
  if (!allowsLogarithm()) return ColourScale::linear;
  MapRequest request;
  request.quantity = quantity;
  return colours.scale.value_or(figure::defaultScale(request));
}

void PaneState::setQuantity(Quantity wanted) {
  if (wanted == quantity) return;
  const bool hadSigns = hasSigns();
  quantity = wanted;
  ColourState fresh;
  if (hadSigns == hasSigns()) fresh.map = colours.map;
  colours = fresh;
}

void PaneState::setSides(Sides wanted) {
  if (wanted == sides) return;
  const bool hadSigns = hasSigns();
  sides = wanted;
  if (hadSigns != hasSigns()) colours = {};
}

void PaneState::setFirstKey(FirstKey wanted) {
  if (wanted == firstKey) return;
  firstKey = wanted;
  colours.lower.reset();
  colours.upper.reset();
}

QJsonObject PaneState::toJson() const {
  QJsonObject json{{"quantity", to_string(quantity)}, {"sides", wordOf(kSides, sides)}, {"split", split}};
  if (own) json["head"] = jsonOf(*own);
  if (other) json["other"] = jsonOf(*other);
  if (reduction) json["reduction"] = to_string(*reduction);
  if (firstKey == FirstKey::left_out) json["without_first"] = true;
  if (axes) json["axes"] = to_string(*axes);
  QJsonObject shades;
  if (colours.map) shades["map"] = wordOf(kMaps, *colours.map);
  if (colours.scale) shades["scale"] = wordOf(kScales, *colours.scale);
  if (colours.lower) shades["lower"] = *colours.lower;
  if (colours.upper) shades["upper"] = *colours.upper;
  if (colours.blankBelow) shades["blank_below"] = *colours.blankBelow;
  if (!shades.isEmpty()) json["colours"] = shades;
  return json;
}

PaneState PaneState::fromJson(const QJsonObject& json) {
  PaneState state;
  state.own = headOf(json["head"]);
  state.quantity = valueByBackendName<Quantity>(kQuantities, json["quantity"]).value_or(state.quantity);
  state.reduction = valueByBackendName<Reduction>(kReductions, json["reduction"]);
  state.firstKey = json["without_first"].toBool() ? FirstKey::left_out : FirstKey::counted;
  state.axes = valueByBackendName<MapAxes>(std::array{MapAxes::key, MapAxes::distance}, json["axes"]);
  state.sides = valueOf<Sides>(kSides, json["sides"]).value_or(Sides::left);
  state.other = headOf(json["other"]);
  state.split = std::clamp(json["split"].toDouble(state.split), 0.0, 1.0);
  const QJsonObject shades = json["colours"].toObject();
  state.colours.map = valueOf<ColourMapName>(kMaps, shades["map"]);
  if (state.colours.map == ColourMapName::diverging && !state.hasSigns()) state.colours.map.reset();
  state.colours.scale = valueOf<ColourScale>(kScales, shades["scale"]);
  state.colours.lower = numberIn(shades["lower"]);
  state.colours.upper = numberIn(shades["upper"]);
  state.colours.blankBelow = numberIn(shades["blank_below"]);
  return state;
}

QString nameOf(Quantity quantity) {
  switch (quantity) {
    case Quantity::forget:
      return translated(QT_TRANSLATE_NOOP("foxscope::gui::PaneState", "forget F"));
    case Quantity::log_forget:
      return translated(QT_TRANSLATE_NOOP("foxscope::gui::PaneState", "log F"));
    case Quantity::logits:
      return translated(QT_TRANSLATE_NOOP("foxscope::gui::PaneState", "logits S"));
    case Quantity::attention:
      return translated(QT_TRANSLATE_NOOP("foxscope::gui::PaneState", "attention A"));
    case Quantity::attention_without_gate:
      return translated(QT_TRANSLATE_NOOP("foxscope::gui::PaneState", "A without gate"));
    case Quantity::gate_effect:
      return translated(QT_TRANSLATE_NOOP("foxscope::gui::PaneState", "gate effect"));
    case Quantity::mixing:
      return translated(QT_TRANSLATE_NOOP("foxscope::gui::PaneState", "mixing M"));
  }
  return {};
}

QString shortNameOf(Quantity quantity) {
  switch (quantity) {
    case Quantity::forget:
      return QStringLiteral("F");
    case Quantity::log_forget:
      return QStringLiteral("log F");
    case Quantity::logits:
      return QStringLiteral("S");
    case Quantity::attention:
      return QStringLiteral("A");
    case Quantity::attention_without_gate:
      return translated(QT_TRANSLATE_NOOP("foxscope::gui::PaneState", "A without gate"));
    case Quantity::gate_effect:
      return translated(QT_TRANSLATE_NOOP("foxscope::gui::PaneState", "gate effect"));
    case Quantity::mixing:
      return QStringLiteral("M");
  }
  return {};
}

QString nameOf(Reduction reduction) { return QString::fromLatin1(to_string(reduction)); }

QString nameOf(ColourMapName map) { return wordOf(kMaps, map); }

}  // namespace foxscope::gui
