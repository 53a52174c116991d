#pragma once

#include <memory>
#include <span>
#include <vector>

#include <QString>

#include "app/gui/curves/series.h"
#include "app/gui/document/runs/run_list.h"

namespace foxscope::gui::curves {

/// A run as jobs and legends of curves need it.
struct CurveRun {
  RunId id = kNoRun;
  int index = 0;  ///< its place in the list
  QString name;
  std::shared_ptr<const Trace> trace;
  QString base = {};  ///< plain name of the run that it is a changed copy of; empty: none
  int text = 0;       ///< runs of an equal number read the same text
  RunLook look = {};
};

/// The runs of a list that are not hidden: the reference first, then those on its text, then those on other texts,
/// each in their order.
std::vector<CurveRun> curveRuns(const RunList& list);

/// Where the tokens that a run predicts stand among those that the reference predicts: positions of the reference, with
/// a fraction where a token begins inside one of the reference. Empty where the tokens agree as far as both runs go;
/// [L] of the run else.
/// Without a text to go by, positions stay as they are.
std::vector<double> placesPredicted(const TokenTable& run, const TokenTable& reference);
/// The same for the tokens that they read: position p reads what p - 1 predicts.
std::vector<double> placesRead(const TokenTable& run, const TokenTable& reference);

/// Loss of every token of a run, and means over it, by position of the first run on its text. Null where it was not
/// kept.
struct RunLoss {
  CurveRun run;
  std::shared_ptr<const Series> raw;
  std::shared_ptr<const Series> mean;
};

/// The loss of one run minus the loss of another that is shown after it, at the positions of the first, and the same
/// smoothed.
struct RunLossDifference {
  CurveRun run;
  CurveRun minus;
  CurveRun of;  ///< the run of the two that is not the reference, or was changed
  std::shared_ptr<const Series> raw;
  std::shared_ptr<const Series> mean;
};

struct LossCurves {
  std::vector<RunLoss> runs;
  /// The differences of each run on the first one's text, where both losses are known: always the loss of the run that
  /// is shown first minus the loss of the later one. A run is compared with the first run, or with the run of which it
  /// is a changed copy.
  std::vector<RunLossDifference> differences;
  bool tokensDiffer = false;  ///< on the first one's text
};

/// Losses, smoothed by a centred running mean over `window` tokens of each run.
LossCurves lossCurves(std::span<const CurveRun> runs, int window);

/// Mean loss over the first l tokens of each run at position l - 1, and P(l), its exponential (docs/models.md, Loss):
/// `mean` and `perplexity`, null where losses were not kept.
struct RunContext {
  CurveRun run;
  std::shared_ptr<const Series> mean;
  std::shared_ptr<const Series> perplexity;
};
std::vector<RunContext> contextCurves(std::span<const CurveRun> runs);

/// Numbers of the texts, the first run's first: each has a strip of its own.
std::vector<int> textsOf(std::span<const CurveRun> runs);
/// Says whose text is another one; empty where there is only one.
QString otherTextsNote(std::span<const CurveRun> runs);
/// Says that losses of these runs were not kept, and what gives them; empty without runs.
QString missingLossesNote(std::span<const CurveRun> without);

/// f_t = exp(c_t - c_(t-1)), c_(-1) = 0, of one head by position of the reference.
/// @throws Error for gates that were not kept
Series gateSeries(const HeadOf& head, const TokenTable& reference);
/// A change of each of these positions, by position of the reference: 0.01 of the gradient by it, nats.
/// @param gradient  [L] of the head's run, nats per nat
Series changeSeries(const HeadOf& head, std::span<const float> gradient, const TokenTable& reference);

}  // namespace foxscope::gui::curves
