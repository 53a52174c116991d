#include "app/gui/maps/pane_heads.h"

#include <algorithm>

#include <QCoreApplication>

namespace foxscope::gui {
namespace {

QString tr(const char* text) { return QCoreApplication::translate("foxscope::gui::PaneHeads", text); }

bool needsQueryKey(Quantity quantity) { return quantity != Quantity::forget && quantity != Quantity::log_forget; }

}  // namespace

std::optional<PaneHead> PaneHeads::found(const HeadChoice& choice) const {
  const auto head = m_document.headOf(choice);
  if (!head) return std::nullopt;
  return PaneHead{choice, {m_document.run(choice.run)->name, choice.layer, choice.head}, *head};
}

std::optional<PaneHead> PaneHeads::found(const NamedHead& name) const {
  for (const Run& run : m_document.runs()) {
    if (run.name == name.run) return found(HeadChoice{run.id, name.layer, name.head});
  }
  return std::nullopt;
}

std::optional<PaneHead> PaneHeads::left(const PaneState& state) const {
  return state.own ? found(*state.own) : found(m_document.selection().head());
}

const Run* PaneHeads::otherRun(RunId id) const {
  const auto& runs = m_document.runs();
  const auto other = std::find_if(runs.begin(), runs.end(), [&](const Run& run) { return run.id != id; });
  return other == runs.end() ? nullptr : &*other;
}

std::optional<PaneHead> PaneHeads::right(const PaneState& state) const {
  if (state.other) return found(*state.other);
  const auto from = left(state);
  if (!from) return std::nullopt;
  if (const auto near = nearest(state)) return found(*near);
  if (const Run* other = otherRun(from->choice.run)) {
    const TraceInfo& info = other->trace->info();
    return found(HeadChoice{other->id, std::min(from->choice.layer, info.layers - 1),
                            std::min(from->choice.head, info.heads - 1)});
  }
  const int heads = from->head.trace->info().heads;
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

PictureSide PaneHeads::sideOf(const PaneHead& head) {
  const Run* reference = m_document.reference();
  if (head.choice.run == reference->id) return {head.head, nullptr};
  auto& places = m_places[head.choice.run];
  if (!places) places = std::make_shared<const PlaceMap>(reference->trace->tokens(), head.head.trace->tokens());
  return {head.head, places};
}

QString PaneHeads::refusal(const PaneState& state, const std::vector<PaneHead>& heads) {
  for (const PaneHead& head : heads) {
    if (needsQueryKey(state.quantity) && head.head.trace->query_key() == nullptr) {
      return tr("%1 kept no queries and keys, so there is no attention to show: show F or log F, or run it again with "
                "attention maps")
          .arg(head.name.run);
    }
  }
  if (state.sides != Sides::difference) return {};
  const bool same = sideOf(heads[0]).samePositions() && sideOf(heads[1]).samePositions();
  if (same) return {};
  return tr("%1 and %2 cut the text into different tokens: no difference. Compare by place in the text with A, B, V or "
            "H")
      .arg(heads[0].name.run, heads[1].name.run);
}

WantedContent PaneHeads::content(const PaneState& state) {
  std::vector<PaneHead> heads;
  const bool wantsLeft = state.sides != Sides::right;
  const bool wantsRight = state.sides != Sides::left;
  if (wantsLeft) {
    const auto head = left(state);
    if (!head) {
      return {{},
              state.own ? tr("%1 has no layer %2, head %3 here: choose another head")
                              .arg(state.own->run)
                              .arg(state.own->layer)
                              .arg(state.own->head)
                        : tr("Choose a head")};
    }
    heads.push_back(*head);
  }
  if (wantsRight) {
    const auto head = right(state);
    if (!head) return {{}, tr("There is no other head to compare with: choose one under “%1”").arg(tr("Compare"))};
    heads.push_back(*head);
  }
  const QString refused = refusal(state, heads);
  if (!refused.isEmpty()) return {{}, refused};
  PictureContent content;
  content.quantity = state.quantity;
  content.reduction = state.effectiveReduction();
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
  for (const Run& run : m_document.runs()) {
    result.push_back({run.name, run.trace->info().layers, run.trace->info().heads});
  }
  return result;
}

QString PaneHeads::textOf(const HeadOf& head) const {
  for (const Run& run : m_document.runs()) {
    if (run.trace == head.trace) return QStringLiteral("%1 L%2 H%3").arg(run.name).arg(head.layer).arg(head.head);
  }
  return {};
}

bool PaneHeads::holds(const PictureContent& content) const {
  const auto there = [&](const HeadOf& head) {
    return std::any_of(m_document.runs().begin(), m_document.runs().end(),
                       [&](const Run& run) { return run.trace == head.trace; });
  };
  return (!content.minus || there(*content.minus)) &&
         std::all_of(content.sides.begin(), content.sides.end(),
                     [&](const PictureSide& side) { return there(side.head); });
}

std::shared_ptr<const TokenTable> PaneHeads::tokens() const {
  const Run* reference = m_document.reference();
  return reference == nullptr ? nullptr : reference->trace->tokens();
}

}  // namespace foxscope::gui
