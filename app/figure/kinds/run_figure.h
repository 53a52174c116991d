#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "app/figure/figure_spec.h"
#include "app/figure/kinds/compare.h"
#include "app/figure/kinds/distance.h"
#include "app/figure/kinds/grid.h"
#include "app/figure/kinds/loss.h"
#include "app/figure/kinds/maps.h"
#include "app/figure/kinds/passage.h"
#include "app/figure/kinds/saliency.h"
#include "backend/base/job.h"

namespace foxscope::figure {

/// A run that a figure shows.
struct FigureRun {
  std::shared_ptr<const Trace> trace;
  std::string name;                    ///< as the window calls it, which differs between its runs
  std::string file;                    ///< run file that holds it; empty: none yet
  std::optional<CurveLook> look = {};  ///< of its curves; nothing: by its place in the figure
};

/// Which parts of a style and of the options a kind of figure knows, for whoever offers them.
struct KindTraits {
  bool maps = false;     ///< colours and their limits
  bool curves = false;   ///< a legend
  bool axes = false;     ///< limits of axes, the training length
  bool smooth = false;   ///< a moving average
  bool labels = false;   ///< names of models are written
  bool letters = false;  ///< (a), (b)
};
KindTraits traitsOf(const std::string& kind);

/// A figure of any kind that runs alone can make, with what was chosen of it: what `foxscope figure KIND RUN.h5...`
/// draws. Of the options those of its kind count.
struct RunFigure {
  std::string kind;             ///< of the command
  std::vector<FigureRun> runs;  ///< in the figure's order; one, of kinds that show one
  MapsOptions maps = {};
  GridOptions grid = {};
  CompareOptions compare = {};
  PassageOptions passage = {};
  DistanceOptions distance = {};
  SaliencyOptions saliency = {};
  LossOptions loss = {};  ///< of loss, perplexity and ablation

  /// The quantities whose colour bars can have limits.
  [[nodiscard]] std::vector<Quantity> quantities() const;
  /// What its run is called in the figure unless a label says otherwise: as in its file, where no other is called so.
  [[nodiscard]] std::string nameOf(const FigureRun& run) const;
};

/// Statistics of heads of runs, each computed once. Safe to use from several threads.
class EvaluatedRuns {
 public:
  /// @returns nothing if the job was stopped
  /// @throws Error as evaluate_run
  std::shared_ptr<const EvaluatedHeads> of(const std::shared_ptr<const Trace>& trace, const Job& job);

 private:
  std::mutex m_mutex;
  std::map<std::shared_ptr<const Trace>, std::shared_ptr<const EvaluatedHeads>> m_known;
};

/// @returns nothing if the job was stopped
/// @throws as the kind's own function
std::optional<DrawnFigure> drawRunFigure(const RunFigure& figure, const FigureStyle& style, EvaluatedRuns& evaluated,
                                         const Job& job);

/// The figure as `foxscope figure spec` reads it, with everything that differs from what the command does by itself.
FigureSpec specOf(const RunFigure& figure, const FigureStyle& style);

/// Why the command line cannot draw the figure, in one sentence; empty where it can.
std::string commandObstacle(const RunFigure& figure);

enum class Folders { kept, leftOut };
/// The command that draws the figure into this file, as a shell takes it.
/// @param folders  left out of what stands in the metadata of a figure
std::string commandOf(const RunFigure& figure, const FigureStyle& style, const std::string& output, Folders folders);

}  // namespace foxscope::figure
