#include "app/figure/kinds/atlas/atlas_heads.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "app/figure/figure_words.h"
#include "app/figure/kinds/evaluated_heads.h"
#include "backend/base/error.h"
#include "backend/base/index.h"
#include "backend/text/token_class.h"

namespace foxscope::figure {
namespace {

constexpr double kNotKnown = std::numeric_limits<double>::quiet_NaN();

/// The class of an atlas that is the same as one of eval heads; nothing for the others, which an atlas does not tell.
std::optional<BoundaryClass> sameClass(TokenClass token_class) {
  for (std::size_t n = 0; n < kBoundaryClasses; ++n) {
    const auto boundary = static_cast<BoundaryClass>(n);
    if (std::string_view(to_string(boundary)) == to_string(token_class)) return boundary;
  }
  return std::nullopt;
}

/// Sets what the gates are by class of the token, where the atlas has a text; NaN of classes that it does not tell.
void setClasses(EvaluatedHeads& heads, const AtlasModel& model) {
  const auto counts = model.sums.at(AtlasSum::class_count);
  if (std::ranges::all_of(counts, [](std::int64_t count) { return count == 0; })) return;
  const std::vector<HeadArray> all = atlas_class_numbers(model);
  for (const HeadArray& array : all) heads.by_class.push_back({array.name, array.unit, {}, {}});
  for (std::size_t n = 0; n < kTokenClasses; ++n) {
    const auto boundary = sameClass(static_cast<TokenClass>(n));
    heads.class_tokens.push_back(boundary ? counts[index_of(*boundary)] : 0);
  }
  for (std::size_t place = 0; place < heads.head_count(); ++place) {
    for (std::size_t n = 0; n < kTokenClasses; ++n) {
      const auto boundary = sameClass(static_cast<TokenClass>(n));
      for (std::size_t array = 0; array < all.size(); ++array) {
        const std::size_t at = place * kBoundaryClasses + (boundary ? index_of(*boundary) : 0);
        heads.by_class[array].value.push_back(boundary ? all[array].value[at] : kNotKnown);
        heads.by_class[array].error.push_back(boundary ? all[array].error[at] : kNotKnown);
      }
    }
  }
}

}  // namespace

EvaluatedHeads headsOf(const AtlasModel& model) {
  EvaluatedHeads heads;
  heads.info = model.info;
  heads.windows = model.windows;
  for (HeadArray& number : atlas_head_numbers(model)) {
    const auto known = [](double value) { return !std::isnan(value); };
    if (std::ranges::any_of(number.value, known)) heads.numbers.push_back(std::move(number));
  }
  if (!model.forgets()) return heads;
  const std::vector<std::int64_t> resets = atlas_resets(model).count;
  HeadArray count{"resets", "1", {}, {}};
  HeadArray share{"share_below_half", "1", {}, std::vector<double>(resets.size(), kNotKnown)};
  for (std::size_t place = 0; place < resets.size(); ++place) {
    const double number = model.has_gate(place) ? static_cast<double>(resets[place]) : kNotKnown;
    count.value.push_back(number);
    share.value.push_back(number / static_cast<double>(model.positions()));
  }
  heads.numbers.push_back(std::move(count));
  heads.numbers.push_back(std::move(share));
  setClasses(heads, model);
  set_forgetting(heads);
  return heads;
}

std::size_t chosenHead(FigureRequest& request, const AtlasModel& model) {
  if (!model.forgets()) {
    throw UsageError(
        fmt::format("model '{}' has no gate: it forgets nothing, and there is nothing to draw", model.info.name));
  }
  const EvaluatedHeads heads = headsOf(model);
  if (const auto asked = headOf(request.spec, "head")) {
    const std::size_t place = placeOf(heads, *asked);
    if (model.has_gate(place)) return place;
    throw UsageError(
        fmt::format("--head {}: this head of {} never forgets: choose another", wordOf(*asked), model.info.name));
  }
  const ChosenHeads chosen = representativeHeads(heads);
  const HeadIndex& middle = chosen.heads[chosen.heads.size() / 2];
  request.notes.push_back(fmt::format("{}: {}:{} is drawn, a head of middle memory; --head chooses another",
                                      model.info.name, middle.layer, middle.head));
  return placeOf(heads, middle);
}

std::vector<std::size_t> chosenHeads(FigureRequest& request, const AtlasModel& model) {
  const std::vector<std::string> asked = request.spec.list("head");
  if (asked.empty()) return {chosenHead(request, model)};
  const EvaluatedHeads heads = headsOf(model);
  std::vector<std::size_t> places;
  if (asked == std::vector<std::string>{"all"}) {
    for (std::size_t place = 0; place < heads.head_count(); ++place) places.push_back(place);
    return places;
  }
  for (const std::string& head : asked) {
    const std::size_t place = placeOf(heads, parseHead("--head", head));
    if (std::ranges::find(places, place) == places.end()) places.push_back(place);
  }
  return places;
}

std::string modelBefore(const std::string& words, const Atlas& atlas, const AtlasModel& model,
                        const FigureStyle& style) {
  return atlas.models.size() > 1 ? fmt::format("{} {}", style.label(model.info.name), words) : words;
}

FigureOrigin originOf(const AtlasModel& model, const FigureStyle& style, const char* title) {
  FigureOrigin origin;
  origin.title = style.title.empty() ? title : style.title;
  origin.command = style.command;
  addModel(origin, model.info);
  origin.facts.emplace_back("windows",
                            fmt::format("{} of up to {} tokens", model.windows->tokens.size(), model.info.length));
  return origin;
}

}  // namespace foxscope::figure
