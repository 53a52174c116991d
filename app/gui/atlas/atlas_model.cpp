#include "app/gui/atlas/atlas_model.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>

#include <QCoreApplication>

#include "app/figure/figure_words.h"
#include "app/figure/heads/head_choice.h"
#include "app/figure/token_text.h"
#include "app/gui/document/head_table.h"
#include "app/gui/document/number_text.h"
#include "backend/base/index.h"

namespace foxscope::gui::atlas {
namespace {

QString translated(const char* words) { return QCoreApplication::translate("foxscope::gui::atlas", words); }

QString unitOf(const std::string& unit) { return unit == "1" ? QString() : QString::fromStdString(unit); }

}  // namespace

std::vector<std::string> numberNames(const AtlasFacts& facts) {
  std::vector<std::string> names = {"layer", "head"};
  for (const HeadArray& numbers : facts.numbers) names.push_back(numbers.name);
  return names;
}

QString numberTitle(const std::string& name) {
  if (name == "rate_decay_time") return textOf(HeadQuantity::rateDecayTime).name;
  if (name == "mean_log_gate") return translated("mean log f");
  if (name == "share_below_half") return translated("share of resets");
  return QString::fromStdString(name).replace(QStringLiteral("1_over_e"), QStringLiteral("1/e")).replace('_', ' ');
}

std::optional<HeadNumbers> numbersOf(const AtlasFacts& facts, const std::string& name) {
  HeadNumbers numbers{numberTitle(name), {}, {}, {}};
  const auto heads = index_of(facts.info.heads);
  if (name == "layer" || name == "head") {
    for (std::size_t place = 0; place < facts.head_count(); ++place) {
      numbers.values.push_back(static_cast<double>(name == "layer" ? place / heads : place % heads));
    }
    return numbers;
  }
  const HeadArray* array = find_array(facts.numbers, name);
  if (array == nullptr || std::ranges::all_of(array->value, [](double value) { return std::isnan(value); })) {
    return std::nullopt;
  }
  numbers.unit = unitOf(array->unit);
  numbers.values = array->value;
  numbers.errors = array->error;
  return numbers;
}

QString headName(const AtlasFacts& facts, std::size_t place) {
  const auto heads = index_of(facts.info.heads);
  return QStringLiteral("L%1 H%2").arg(place / heads).arg(place % heads);
}

std::string headWord(const AtlasFacts& facts, std::size_t place) {
  const auto [layer, head] = std::div(static_cast<int>(place), facts.info.heads);
  return figure::wordOf(figure::HeadIndex{layer, head});
}

QString classTitle(const std::string& name) { return QString::fromStdString(name).replace('_', ' '); }

QString kindTitle(const std::string& name) {
  static const std::map<std::string, const char*> titles = {
      {"resets", QT_TRANSLATE_NOOP("foxscope::gui::atlas", "strongest forgetting")},
      {"reach", QT_TRANSLATE_NOOP("foxscope::gui::atlas", "longest reach")},
      {"gain", QT_TRANSLATE_NOOP("foxscope::gui::atlas", "highest gain")},
      {"deciles", QT_TRANSLATE_NOOP("foxscope::gui::atlas", "drawn from deciles of log f")}};
  const auto found = titles.find(name);
  return found != titles.end() ? translated(found->second) : QString::fromStdString(name).replace('_', ' ');
}

bool isOfGate(const AtlasPassageKind& kind) { return kind.name == "resets" || kind.name == "deciles"; }

QString tokenTitle(const AtlasFacts& facts, std::int32_t id) {
  const auto place = facts.place_of(id);
  if (!place || facts.token_string.empty()) return QStringLiteral("⟨%1⟩").arg(id);
  return figure::tokenText(facts.token_string[*place], figure::Whitespace::visible);
}

QString withError(double value, double error) {
  if (!std::isfinite(error)) return numberText(value);
  return QStringLiteral("%1 ± %2").arg(numberText(value), numberOf(error, 2));
}

}  // namespace foxscope::gui::atlas
