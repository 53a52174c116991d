#include "app/figure/kinds/evaluated_heads.h"

#include <fmt/format.h>

#include "backend/base/error.h"

namespace foxscope::figure {

ChosenHeads representativeHeads(const EvaluatedHeads& model) {
  const bool byDecay = forgets(model.info);
  const HeadArray& tokens = requireArray(model, model.numbers, byDecay ? "rate_decay_time" : "d50");
  std::vector<Reach> reaches;
  for (std::size_t place = 0; place < model.head_count(); ++place) {
    const int index = static_cast<int>(place);
    // Where some layers forget, the choice is among their heads.
    if (byDecay && !forgets(model.info, index / model.info.heads)) continue;
    reaches.push_back({{index / model.info.heads, index % model.info.heads}, tokens.value[place]});
  }
  return chooseByReach(std::move(reaches), model.info.name,
                       byDecay ? "decay time" : "half of the attention's distance");
}

std::size_t placeOf(const EvaluatedHeads& model, const HeadIndex& head) {
  const TraceInfo& info = model.info;
  requireHead(info, head);
  return static_cast<std::size_t>(head.layer) * static_cast<std::size_t>(info.heads) +
         static_cast<std::size_t>(head.head);
}

std::string headWord(const EvaluatedHeads& model, std::size_t place) {
  const auto heads = static_cast<std::size_t>(model.info.heads);
  return fmt::format("{}:{}", place / heads, place % heads);
}

std::string headTitle(const HeadIndex& head) {
  return fmt::format("Layer\u00a0{}, head\u00a0{}", head.layer, head.head);
}

const HeadArray& requireArray(const EvaluatedHeads& model, const std::vector<HeadArray>& arrays, const char* name) {
  const HeadArray* const found = find_array(arrays, name);
  if (found != nullptr) return *found;
  throw Error(
      fmt::format("model '{}': {} is not known: use a file of `foxscope eval heads` or of `foxscope heads "
                  "--split --by-class -o`, or a run that kept gates,rows,qk",
                  model.info.name, name));
}

FigureOrigin originOf(std::span<const EvaluatedHeads> models, const FigureStyle& style, const char* title) {
  FigureOrigin origin;
  origin.title = style.title.empty() ? title : style.title;
  origin.command = style.command;
  for (const EvaluatedHeads& model : models) {
    addModel(origin, model.info);
    if (model.windows) {
      origin.facts.emplace_back("windows",
                                fmt::format("{} of up to {} tokens", model.windows->tokens.size(), model.info.length));
    }
  }
  return origin;
}

}  // namespace foxscope::figure
