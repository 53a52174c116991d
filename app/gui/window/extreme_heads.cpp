#include "app/gui/window/extreme_heads.h"

#include <cmath>
#include <utility>

#include "app/gui/document/head_table.h"
#include "app/gui/document/runs/run_list.h"
#include "app/gui/document/shown_choices.h"
#include "app/gui/maps/maps_view.h"

namespace foxscope::gui {

ExtremeHeads::ExtremeHeads(MapsView& maps, RunList& runs, const HeadTable& table, QObject* parent)
    : QObject(parent), m_maps(maps), m_runs(runs), m_table(table) {}

ExtremeHeads::Arrangement ExtremeHeads::shown() const { return {m_maps.saveState(), m_runs.selection().head()}; }

// The head first: where every pane keeps one, the chosen head would take the active pane.
void ExtremeHeads::show(const Arrangement& wanted) {
  if (m_runs.run(wanted.head.run) != nullptr) m_runs.selection().setHead(wanted.head);
  m_maps.restoreState(wanted.maps);
}

std::optional<std::pair<HeadChoice, HeadChoice>> ExtremeHeads::heads(RunId id) const {
  const Run& run = *m_runs.run(id);
  std::optional<std::pair<HeadChoice, HeadChoice>> found;
  double least = 0;
  double most = 0;
  forShownHeads(run, [&](const HeadChoice& head) {
    const double time = m_table.value(head, HeadQuantity::rateDecayTime);
    if (!forgets(run.trace->info(), head.layer) || std::isnan(time)) return;
    if (!found) {
      found.emplace(head, head);
      least = most = time;
    }
    if (time < least) {
      least = time;
      found->first = head;
    }
    if (time > most) {
      most = time;
      found->second = head;
    }
  });
  return found;
}

QString ExtremeHeads::toggle() {
  if (m_before && m_maps.saveState().value("panes") == m_made.value("panes")) {
    show(*std::exchange(m_before, std::nullopt));
    return {};
  }
  const Run* run = m_runs.run(m_runs.selection().head().run);
  if (run == nullptr) return {};
  const auto extremes = heads(run->id);
  if (!extremes) {
    const bool gated = forgets(run->trace->info());
    return (gated ? tr("Decay times of %1 are not known yet") : tr("%1 has no forget gate")).arg(run->name);
  }
  const auto& [fastest, slowest] = *extremes;
  m_before = shown();
  m_runs.selection().setHead(fastest);
  int pane = 0;
  for (const bool kept : {false, true}) {
    for (const Quantity quantity : {Quantity::forget, Quantity::attention}) {
      PaneState state;
      if (kept) state.own = NamedHead{run->name, slowest.layer, slowest.head};
      state.setQuantity(quantity);
      m_maps.setPaneState(pane++, state);
    }
  }
  m_maps.setPaneCount(pane);
  m_maps.setActivePane(0);
  m_made = m_maps.saveState();
  return {};
}

}  // namespace foxscope::gui
