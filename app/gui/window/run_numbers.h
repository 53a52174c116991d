#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include <QObject>
#include <QString>

#include "app/gui/document/runs/run_list.h"
#include "backend/eval/estimate.h"

namespace foxscope::gui {

/// The numbers by which runs are compared in a list.
struct RunNumber {
  std::optional<Estimate> loss;  ///< mean, nats a token; the error as loss_change says. Nothing where none was kept
  std::int64_t tokens = 0;
  std::int64_t parameters = 0;  ///< 0: not known
  double seconds = 0;           ///< of the forward pass; 0: not known
  bool best = false;            ///< the lowest mean loss of two runs or more that read as many tokens of one text
};

/// Computes the numbers of all runs of a list, in the background.
class RunNumbers : public QObject {
  Q_OBJECT

 public:
  explicit RunNumbers(RunList& runs, QObject* parent = nullptr);

  /// Null while they are computed, and for a run that there is not.
  [[nodiscard]] const RunNumber* of(RunId run) const;
  /// "mean loss 3.926 ± 0.051 nats/token\n2,048 tokens\n…", line by line; empty while it is not known.
  [[nodiscard]] QString textOf(RunId run) const;

 signals:
  void changed();

 private:
  void follow();
  void findBest();

  RunList& m_runs;
  std::map<RunId, RunNumber> m_numbers;
};

/// "3.926 ± 0.051"; padded where others have an error and this one has none, so that the points stand below one
/// another.
QString lossText(const Estimate& loss);

}  // namespace foxscope::gui
