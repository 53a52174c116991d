#include "app/figure/kinds/atlas/atlas_heads.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "app/figure/figure_words.h"
#include "app/figure/kinds/evaluated_heads.h"
#include "backend/base/error.h"
#include "backend/base/index.h"

namespace foxscope::figure {
namespace {

constexpr double kNotKnown = std::numeric_limits<double>::quiet_NaN();

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
