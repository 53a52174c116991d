#include "app/gui/maps/pane/pane_heads.h"

#include <algorithm>

#include <QCoreApplication>

namespace foxscope::gui {
namespace {

QString wordsOf(const char* text) { return QCoreApplication::translate("foxscope::gui::PaneHeads", text); }

bool needsQueryKey(Quantity quantity) { return quantity != Quantity::forget && quantity != Quantity::log_forget; }

}  // namespace

std::optional<PaneHead> PaneHeads::found(const HeadChoice& choice) const {
  const auto head = m_runs.headOf(choice);
  if (!head) return std::nullopt;
  return PaneHead{choice, {m_runs.run(choice.run)->name, choice.layer, choice.head}, *head};
}

std::optional<PaneHead> PaneHeads::found(const NamedHead& name) const {
  const Run* run = m_runs.runNamed(name.run);
  return run == nullptr ? std::nullopt : found(HeadChoice{run->id, name.layer, name.head});
}

std::optional<PaneHead> PaneHeads::left(const PaneState& state) const {
  return state.own ? found(*state.own) : found(m_runs.selection().head());
}

const Run* PaneHeads::otherRun(RunId id) const {
  // One on the same text, with which it can be compared, comes first.
  const Run* own = m_runs.run(id);
  const Run* any = nullptr;
  for (const Run& run : m_runs) {
    if (run.id == id || run.look.hidden) continue;
    if (own != nullptr && run.text == own->text) return &run;
    if (any == nullptr) any = &run;
  }
  return any;
}

std::optional<PaneHead> PaneHeads::right(const PaneState& state) const {
  if (state.other) return found(*state.other);
  const auto from = left(state);
  if (!from) return std::nullopt;
  if (const auto near = nearest(state)) return found(*near);
  if (const Run* other = otherRun(from->choice.run)) {
    const TraceInfo& info = other->trace->info();
    int layer = std::min(from->choice.layer, info.layers - 1);
    // A layer without heads is replaced by the next one above that has some, or else below.
    while (layer > 0 && info.mixer(layer).heads == 0) --layer;
    while (layer + 1 < info.layers && info.mixer(layer).heads == 0) ++layer;
    return found(HeadChoice{other->id, layer, std::min(from->choice.head, info.mixer(layer).heads - 1)});
  }
  const int heads = from->head.trace->info().mixer(from->choice.layer).heads;
  if (heads < 2) return std::nullopt;
  return found(HeadChoice{from->choice.run, from->choice.layer, (from->choice.head + 1) % heads});
}

std::optional<NamedHead> PaneHeads::nearest(const PaneState& state) const {
  const auto from = left(state);
  const Run* other = from ? otherRun(from->choice.run) : nullptr;
  if (!m_nearest || other == nullptr) return std::nullopt;
  const auto choice = m_nearest(from->choice, other->id);
  const auto head = choice ? found(*choice) : std::nullopt;
  return head ? std::optional(head->name) : std::nullopt;
}

PictureSide PaneHeads::sideOf(const PaneHead& head) const {
  return {head.head, m_runs.placesOf(head.choice.run).fromReference};
}

QString PaneHeads::refusal(const PaneState& state, const std::vector<PaneHead>& heads) const {
  for (const PaneHead& head : heads) {
    if (needsQueryKey(state.quantity) && head.head.trace->query_key() == nullptr) {
      return wordsOf(
                 "%1 kept no queries and keys, so there is no attention to show: show F or log F, or run it again with "
                 "attention maps")
          .arg(head.name.run);
    }
  }
  if (heads.size() > 1 && textReadBy(heads[0]) != textReadBy(heads[1])) {
    return wordsOf(
               "%1 and %2 read different texts, so their entries cannot be matched: show them one at a time with A and "
               "B, or in two panes")
        .arg(heads[0].name.run, heads[1].name.run);
  }
  if (state.sides != Sides::difference) return {};
  const Trace& first = *heads[0].head.trace;
  const Trace& second = *heads[1].head.trace;
  if (beginAlike(*first.tokens(), *second.tokens())) {
    if (first.info().length == second.info().length) return {};
    return wordsOf(
               "%1 was run over %2 tokens, %3 over %4: no difference until both have read the same. Compare with A, B, "
               "V or H")
        .arg(heads[0].name.run)
        .arg(first.info().length)
        .arg(heads[1].name.run)
        .arg(second.info().length);
  }
  return wordsOf(
             "%1 and %2 cut the text into different tokens: no difference. Compare by place in the text with A, B, V "
             "or "
             "H")
      .arg(heads[0].name.run, heads[1].name.run);
}

WantedContent PaneHeads::content(const PaneState& state) const {
  std::vector<PaneHead> heads;
  const bool wantsLeft = state.sides != Sides::right;
  const bool wantsRight = state.sides != Sides::left;
  if (wantsLeft) {
    const auto head = left(state);
    if (!head) {
      return {{},
              state.own ? wordsOf("%1 has no layer %2, head %3 here: choose another head")
                              .arg(state.own->run)
                              .arg(state.own->layer)
                              .arg(state.own->head)
                        : wordsOf("Choose a head")};
    }
    heads.push_back(*head);
  }
  if (wantsRight) {
    const auto head = right(state);
    if (!head)
      return {{}, wordsOf("There is no other head to compare with: choose one under “%1”").arg(wordsOf("Compare"))};
    heads.push_back(*head);
  }
  const QString refused = refusal(state, heads);
  if (!refused.isEmpty()) return {{}, refused};
  PictureContent content;
  content.text = textReadBy(heads[0]);
  content.quantity = state.quantity;
  content.reduction = state.effectiveReduction();
  content.firstKey = state.effectiveFirstKey();
  content.sides.push_back(sideOf(heads[0]));
  if (state.sides == Sides::difference) {
    content.minus = heads[1].head;
  } else if (heads.size() > 1) {
    content.sides.push_back(sideOf(heads[1]));
  }
  return {content, {}};
}

std::vector<RunHeads> PaneHeads::runs() const {
  std::vector<RunHeads> result;
  for (const Run& run : m_runs) {
    result.push_back({run.name, run.trace->info().layers, run.trace->info().heads});
  }
  return result;
}

std::optional<HeadChoice> PaneHeads::choiceOf(const HeadOf& head) const {
  for (const Run& run : m_runs) {
    if (run.trace == head.trace) return HeadChoice{run.id, head.layer, head.head};
  }
  return std::nullopt;
}

std::vector<TitlePart> PaneHeads::titleOf(const HeadOf& head) const {
  for (const Run& run : m_runs) {
    if (run.trace != head.trace) continue;
    return {{run.name, TitlePart::Kind::name}, {QStringLiteral(" L%1 H%2").arg(head.layer).arg(head.head)}};
  }
  return {};
}

bool PaneHeads::holds(const PictureContent& content) const {
  const auto there = [&](const HeadOf& head) {
    return std::any_of(m_runs.begin(), m_runs.end(), [&](const Run& run) { return run.trace == head.trace; });
  };
  return (!content.minus || there(*content.minus)) &&
         std::all_of(content.sides.begin(), content.sides.end(),
                     [&](const PictureSide& side) { return there(side.head); });
}

AxisRun PaneHeads::axisRunOf(const HeadOf& head) const {
  for (const Run& run : m_runs) {
    if (run.trace != head.trace) continue;
    const RunPlaces places = m_runs.placesOf(run.id);
    return {run.name, run.trace->tokens(), places.fromReference, places.toReference};
  }
  return {};
}

int PaneHeads::textReadBy(const PaneHead& head) const { return m_runs.run(head.choice.run)->text; }

const Run* PaneHeads::reference(const PaneState& state) const {
  const auto shown = state.sides == Sides::right ? right(state) : left(state);
  return shown ? m_runs.referenceOf(textReadBy(*shown)) : m_runs.reference();
}

}  // namespace foxscope::gui
