#pragma once

#include <map>
#include <optional>
#include <vector>

#include <QAbstractTableModel>

#include "app/gui/document/runs/run_list.h"
#include "backend/map/pair_reading.h"
#include "backend/map/statistics/head_labels.h"
#include "backend/map/statistics/head_match.h"
#include "backend/map/statistics/head_statistics.h"

namespace foxscope::gui {

/// The quantities that heads are compared by. The order is that of the table's columns, after layer, head and before
/// the labels.
enum class HeadQuantity {
  rateDecayTime,    ///< -1 / mean(log f), tokens
  backwardHorizon,  ///< median, level 1/e, tokens
  forwardSurvival,  ///< median, level 1/e, tokens
  halfLife,         ///< median backward horizon, level 1/2, tokens
  distance50,       ///< within which half of the attention mass lies
  distance90,
  entropy,                                      ///< of rows of attention, nats
  massOnFirst,                                  ///< share of attention on key 0
  pinnedForget,                                 ///< F of the pinned pair
  pinnedAttention,                              ///< A of the pinned pair
  pinnedSurvival,                               ///< how long the pinned key survives, tokens
  firstScore,                                   ///< of label 0; those of the other labels follow
  saliencyAbsolute = firstScore + kHeadLabels,  ///< the numbers of HeadSaliency
  saliencyScale,                                ///< with its sign
  saliencyPerNat,
  massOnSink,  ///< share of attention on the logit of a head's sink; sessions know quantities by number, so it is last
};
inline constexpr int kQuantitiesBesideScores = static_cast<int>(HeadQuantity::firstScore);
inline constexpr int kHeadQuantities = static_cast<int>(HeadQuantity::massOnSink) + 1;
/// Is a number of saliency, which a run may not have kept.
bool isSaliency(HeadQuantity quantity);
/// Tells what a gate does: of a head without one, whose F is 1, there is nothing to tell.
bool isOfGate(HeadQuantity quantity);
HeadQuantity scoreOf(HeadLabel label);

/// The definition of a label with its threshold, in one sentence.
QString meaningOf(HeadLabel label);
QString nameOf(HeadLabel label);

/// The words for a quantity: its name for menus and legends; its unit ("tokens", "nats", "" for shares); whether it is
/// one of the pinned pair; whether its values spread over decades; what it means, in one sentence; whether 0 is the
/// middle of its colours; whether its colours reach from 0 to 1, whatever the values are.
struct HeadQuantityText {
  QString name;
  QString unit;
  bool ofPin = false;
  bool logarithmic = false;
  QString meaning;
  bool hasSigns = false;
  bool isShare = false;
};
HeadQuantityText textOf(HeadQuantity quantity);
/// The entry of the glossary that explains it.
QString termOf(HeadQuantity quantity);
/// A job channel for each head of each run, from 0 on.
int headChannel(const HeadChoice& head, const TraceInfo& info);

enum class Unit { without, with };
/// "never forgets" for infinite times (shorter without a unit: "∞"), "–" for what is not known, else three digits.
QString valueText(HeadQuantity quantity, double value, Unit unit = Unit::with);

/// Statistics of every head of every run, made in the background as runs come, and the pinned pair in every head; of
/// layers of Mamba of those that are shown (shown_heads.h). One row a head of the shown run; columns: layer, head, then
/// HeadQuantity, then the labels.
class HeadTable : public QAbstractTableModel {
  Q_OBJECT

 public:
  explicit HeadTable(RunList& runs, QObject* parent = nullptr);

  /// double (NaN where not known; labels have none), HeadChoice, bits 1 << HeadLabel, a double to sort by
  enum Role { ValueRole = Qt::UserRole, HeadRole, LabelsRole, OrderRole };
  static constexpr int kLabelsColumn = 2 + kHeadQuantities;

  /// The run whose heads are the rows.
  void setRun(RunId run);
  [[nodiscard]] RunId run() const { return m_run; }
  /// A value of any head of any run; NaN where it is not known (yet) or was not kept, infinite for a head that never
  /// forgets.
  [[nodiscard]] double value(const HeadChoice& head, HeadQuantity quantity) const;
  /// The strongest first; empty without any, or until they are known.
  [[nodiscard]] std::vector<HeadLabel> labels(const HeadChoice& head) const;
  /// Scores of all labels with what they mean, for a tooltip.
  [[nodiscard]] QString labelsTold(const HeadChoice& head) const;
  /// Null until they are there.
  [[nodiscard]] const HeadStatistics* statistics(const HeadChoice& head) const;
  /// The head of another run whose attention reaches as far: nearest by distance profile. Nothing until both are known.
  [[nodiscard]] std::optional<HeadChoice> nearestHead(const HeadChoice& head, RunId other) const;
  /// value() minus value() of the nearest head in `other`; NaN if either is not known.
  [[nodiscard]] double difference(const HeadChoice& head, RunId other, HeadQuantity quantity) const;
  /// Heads whose statistics are there, and all heads of all runs.
  [[nodiscard]] int known() const { return static_cast<int>(m_known.size()); }
  [[nodiscard]] int total() const;

  [[nodiscard]] int rowCount(const QModelIndex& parent = {}) const override;
  [[nodiscard]] int columnCount(const QModelIndex& parent = {}) const override;
  [[nodiscard]] QVariant data(const QModelIndex& index, int role) const override;
  [[nodiscard]] QVariant headerData(int section, Qt::Orientation orientation, int role) const override;

 signals:
  /// Values came or changed: repaint.
  void valuesChanged();

 private:
  struct Known {
    HeadStatistics statistics;  ///< without the profiles, which are as long as the text
    ProfileSketch sketch;
  };
  struct Order {
    bool operator()(const HeadChoice& a, const HeadChoice& b) const {
      return std::tie(a.run, a.layer, a.head) < std::tie(b.run, b.layer, b.head);
    }
  };
  void followRuns();
  void requestStatistics(const Run& run);
  void request(const HeadChoice& choice, const StatisticsOptions& options, JobRunner& runner);
  void followPin();
  [[nodiscard]] bool pinnedPairOf(RunId run) const;
  void takePinned(RunId run, std::vector<std::optional<PairReading>> readings);
  void listRows();
  [[nodiscard]] int rowOf(const HeadChoice& head) const;
  [[nodiscard]] QVariant labelsData(const HeadChoice& head, int role) const;

  RunList& m_runs;
  RunId m_run = kNoRun;
  std::vector<HeadChoice> m_rows;
  std::map<HeadChoice, Known, Order> m_known;
  std::map<RunId, std::vector<std::optional<PairReading>>> m_pinned;  ///< by layer * heads + head
  std::vector<RunId> m_requested;
};

}  // namespace foxscope::gui
