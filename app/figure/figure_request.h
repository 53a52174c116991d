#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "app/figure/figure_spec.h"
#include "app/figure/figure_style.h"
#include "app/figure/kinds/loss_source.h"
#include "backend/base/job.h"
#include "backend/eval/atlas/atlas_file.h"
#include "backend/eval/heads/heads_evaluation.h"
#include "backend/file/run_file.h"

namespace foxscope::figure {

/// A run in memory that a figure shows.
struct FigureRun {
  std::shared_ptr<const Trace> trace;
  std::string name;                    ///< as the window calls it, which differs between its runs
  std::string file;                    ///< run file that holds it; empty: none yet
  std::optional<CurveLook> look = {};  ///< of its curves; nothing: by its place in the figure
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

/// The sources that a figure is drawn from.
struct FigureSources {
  std::vector<std::string> files = {};
  std::vector<std::string> names = {};  ///< of files that may be named, one each; empty: the file's own
  std::vector<FigureRun> runs = {};     ///< those that are drawn, in their order, in the place of files
  EvaluatedRuns* evaluated = nullptr;   ///< of runs; not null where there are some
};

/// A figure that is to be drawn. It draws the runs and models of its files that the options name.
struct FigureRequest {
  using Runs = std::vector<RunOnDevice>;

  const FigureSpec& spec;
  const FigureSources& sources;
  const FigureStyle& style;
  const Job& job;
  std::vector<std::string> notes = {};  ///< what was chosen where nothing was asked for, before the figure's own

  /// Every run, in their order, on the device that was asked for. Row normalisers that a file lacks are computed.
  /// @returns nothing if the job was stopped, as all that reads runs
  /// @throws Error, UsageError as RunFile::open, DeviceChoice::parse and gpu_chosen; UsageError for two runs of one
  /// name, and for labels of models that there are none of
  [[nodiscard]] std::optional<Runs> runs() const;
  /// @throws UsageError naming the option, with the names that exist
  [[nodiscard]] RunOnDevice named(const Runs& runs, const char* option, const std::string& name) const;
  /// The run that --model names; without it the first that has a gate, else the first of all, with a note if there was
  /// a choice.
  /// @throws UsageError with the names that exist
  RunOnDevice run(const Runs& runs);
  std::optional<RunOnDevice> run();  ///< of all runs
  /// The same of models.
  const EvaluatedHeads& model(const std::vector<EvaluatedHeads>& models);
  const AtlasModel& model(const std::vector<AtlasModel>& models);
  /// The two runs that --models names, or the first two, of files one with a gate before one without, with a note if
  /// there was a choice.
  /// @throws UsageError with the names that exist
  std::optional<std::pair<RunOnDevice, RunOnDevice>> twoRuns();

  /// Whether the only file is an atlas of heads.
  [[nodiscard]] bool ofAtlas() const;
  /// Whether runs are among what it is drawn from. The window draws one of them by itself, where a file may have more.
  [[nodiscard]] bool ofRuns() const;
  /// The atlas of the only file.
  /// @throws UsageError for several files, Error as Atlas::open, also for a file that is none
  [[nodiscard]] Atlas atlas() const;

  /// Statistics of the heads of every model, told apart as in losses(): files hold them, or runs; of an atlas headsOf.
  /// @returns nothing if the job was stopped
  [[nodiscard]] std::optional<std::vector<EvaluatedHeads>> heads() const;
  /// The same of the models that --models names.
  [[nodiscard]] std::optional<std::vector<EvaluatedHeads>> chosenHeads() const;
  /// The losses of evaluations, or of the only text of runs: those that --models names. Models of one name are told
  /// apart by their files (namesToldApart), or as these were named.
  [[nodiscard]] std::vector<LossSource> losses() const;
};

}  // namespace foxscope::figure
