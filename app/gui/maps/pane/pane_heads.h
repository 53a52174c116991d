#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "app/gui/document/runs/run_list.h"
#include "app/gui/maps/head_form.h"
#include "app/gui/maps/header_button.h"
#include "app/gui/maps/map_picture.h"
#include "app/gui/maps/position_ticker.h"

namespace foxscope::gui {

/// The head of another run whose attention reaches as far; nothing while that is not known.
using NearestHead = std::function<std::optional<HeadChoice>(const HeadChoice& head, RunId other)>;

/// A head of a pane, found in the list of runs.
struct PaneHead {
  HeadChoice choice;
  NamedHead name;
  HeadOf head;
};

/// A picture's content for a pane, or why there is none.
struct WantedContent {
  std::optional<PictureContent> content;
  QString notice;
};

/// Finds the heads that a pane's state speaks of, and what is to be computed from them.
class PaneHeads {
 public:
  PaneHeads(const RunList& runs, const NearestHead& nearest) : m_runs(runs), m_nearest(nearest) {}

  [[nodiscard]] std::optional<PaneHead> left(const PaneState& state) const;
  /// Chosen by hand, or else: nearest to the left one in another run, of equal number there, or in the only run the
  /// next.
  [[nodiscard]] std::optional<PaneHead> right(const PaneState& state) const;
  /// Nearest to the left head, in another run.
  [[nodiscard]] std::optional<NamedHead> nearest(const PaneState& state) const;
  [[nodiscard]] WantedContent content(const PaneState& state) const;
  [[nodiscard]] std::vector<RunHeads> runs() const;
  /// The head by the number of its run; nothing where there is no such run.
  [[nodiscard]] std::optional<HeadChoice> choiceOf(const HeadOf& head) const;
  /// "fox L1 H2", by the run's name in the list; empty where there is no such run.
  [[nodiscard]] std::vector<TitlePart> titleOf(const HeadOf& head) const;
  /// True while all runs of a content are in the list.
  [[nodiscard]] bool holds(const PictureContent& content) const;
  /// The run of a head, as axes show its positions. Nothing but numbers where there is no such run.
  [[nodiscard]] AxisRun axisRunOf(const HeadOf& head) const;
  /// The run whose positions the pane's axes show: the first on the text of the head that is shown. Null where there is
  /// none.
  [[nodiscard]] const Run* reference(const PaneState& state) const;

 private:
  [[nodiscard]] std::optional<PaneHead> found(const HeadChoice& choice) const;
  [[nodiscard]] std::optional<PaneHead> found(const NamedHead& name) const;
  [[nodiscard]] const Run* otherRun(RunId id) const;
  [[nodiscard]] int textReadBy(const PaneHead& head) const;
  [[nodiscard]] PictureSide sideOf(const PaneHead& head) const;
  [[nodiscard]] QString refusal(const PaneState& state, const std::vector<PaneHead>& heads) const;

  const RunList& m_runs;
  const NearestHead& m_nearest;
};

}  // namespace foxscope::gui
