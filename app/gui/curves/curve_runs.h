#pragma once

#include <memory>
#include <span>
#include <vector>

#include <QString>

#include "app/gui/curves/series.h"
#include "app/gui/document/document.h"

namespace foxscope::gui::curves {

/// A run as jobs and legends of curves need it.
struct CurveRun {
  RunId id = kNoRun;
  int index = 0;  ///< its place in the document, for its colour
  QString name;
  std::shared_ptr<const Trace> trace;
  QString base = {};  ///< name of the run that it is a changed copy of; empty: none
};

/// All runs of a document, the reference first.
std::vector<CurveRun> curveRuns(const Document& document);

/// Where the tokens that a run predicts stand among those that the reference predicts: positions of the reference, with
/// a fraction where a token begins inside one of the reference. Empty where the tokens agree; [L] of the run else.
/// Without a text to go by, positions stay as they are.
std::vector<double> placesPredicted(const TokenTable& run, const TokenTable& reference);
/// Likewise of the tokens that they read: position p reads what p - 1 predicts.
std::vector<double> placesRead(const TokenTable& run, const TokenTable& reference);

/// Loss of every token of a run, and means over it, by position of the reference. Null where it was not kept.
struct RunLoss {
  CurveRun run;
  std::shared_ptr<const Series> raw;
  std::shared_ptr<const Series> mean;
};

/// Loss of one run less that of another, at the positions of the one, and the same smoothed.
struct LossDifference {
  CurveRun run;
  CurveRun minus;
  CurveRun of;  ///< of the two, the one that it tells about: that which is not the reference, or was changed
  std::shared_ptr<const Series> raw;
  std::shared_ptr<const Series> mean;
};

struct LossCurves {
  std::vector<RunLoss> runs;
  /// Of each run after the first, where both losses are known: of the first less this one's; of a changed copy its own
  /// less that of what it was copied from.
  std::vector<LossDifference> differences;
  bool tokensDiffer = false;
};

/// Losses, smoothed by a centred running mean over `window` tokens of each run.
LossCurves lossCurves(std::span<const CurveRun> runs, int window);

/// Mean loss over the first l tokens of each run at position l - 1, and P(l), its exponential (model.md): `mean` and
/// `perplexity`, null where losses were not kept.
struct RunContext {
  CurveRun run;
  std::shared_ptr<const Series> mean;
  std::shared_ptr<const Series> perplexity;
};
std::vector<RunContext> contextCurves(std::span<const CurveRun> runs);

/// f_t = exp(c_t - c_(t-1)), c_(-1) = 0, of one head by position of the reference.
/// @throws Error for gates that were not kept
Series gateSeries(const HeadOf& head, const TokenTable& reference);

}  // namespace foxscope::gui::curves
