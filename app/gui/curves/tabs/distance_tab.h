#pragma once

#include <vector>

#include "app/gui/curves/curve_runs.h"
#include "app/gui/curves/distance_plot.h"
#include "app/gui/curves/tabs/curve_tab.h"
#include "backend/eval/heads/head_measures.h"

class QActionGroup;

namespace foxscope::gui::curves {

class DistanceProfiles;

/// Attention of the chosen head against distance, with and without its gate; or the two terms of its logits, content
/// and decay. Instead of the head the mean over its layer or over the whole model, and beside it the other runs.
class DistanceTab : public CurveTab {
  Q_OBJECT

 public:
  enum class Shows { attention, logits };
  DistanceTab(RunList& runs, const ModelRuns& modelRuns, DistanceProfiles& profiles, Shows shows, QWidget* parent);

  [[nodiscard]] QJsonObject saveState() const override;
  void restoreState(const QJsonObject& state) override;
  [[nodiscard]] QString data() const override;
  [[nodiscard]] std::optional<figure::CurveFigure> figure() const override;

 protected:
  void refresh() override;
  void restyle() override;
  void showReading() override;
  [[nodiscard]] bool plotIsSettled() const override { return m_missing == 0; }

 private:
  enum Scope { head, layer, model, scopes };
  /// One of the curves of a run, by the name of its profile (HeadMeasures::profiles).
  struct Kind {
    const char* profile;
    QString name;
    Qt::PenStyle style;
    bool ofGate;  ///< there is none without a gate
  };
  /// The heads of one run whose mean is shown.
  struct Group {
    CurveRun run;
    std::vector<HeadChoice> heads;
    QString name;
  };
  [[nodiscard]] std::vector<Kind> kinds() const;
  [[nodiscard]] Scope scope() const;
  [[nodiscard]] std::optional<Group> groupOf(const CurveRun& run) const;
  [[nodiscard]] std::vector<HeadChoice> headsOf(const CurveRun& run, std::optional<int> only) const;
  void want(const CurveRun& run);
  void regroup();
  [[nodiscard]] std::vector<DistanceLine> linesOf(const QPalette& palette) const;
  /// The mean of each bin that is drawn: attention by the octave, logits as they are.
  [[nodiscard]] std::vector<double> meanOf(const Group& group, const char* profile) const;
  [[nodiscard]] QString told() const;
  [[nodiscard]] QString yLabel() const;

  DistanceProfiles& m_profiles;
  const Shows m_shows;
  DistancePlot* m_plot;
  QActionGroup* m_scope;
  QAction* m_withFirst = nullptr;
  QAction* m_others;
  std::vector<CurveRun> m_runs;
  std::vector<Group> m_groups;  ///< that are shown, the chosen run's first
  std::vector<DistanceLine> m_lines;
  int m_missing = 0;  ///< heads that are not measured yet
};

}  // namespace foxscope::gui::curves
