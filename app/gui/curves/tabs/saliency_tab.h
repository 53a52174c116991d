#pragma once

#include <memory>
#include <vector>

#include "app/gui/curves/plot_content.h"
#include "app/gui/curves/position_axis.h"
#include "app/gui/curves/series.h"
#include "app/gui/curves/tabs/curve_tab.h"
#include "app/gui/curves/token_list.h"

namespace foxscope::gui::curves {

class PositionPlot;

/// Saliency of the gates, or the keys, of the chosen head along the text, its gate below it, and the positions of all
/// heads that matter most.
class SaliencyTab : public CurveTab {
  Q_OBJECT

 public:
  SaliencyTab(RunList& runs, ModelRuns& modelRuns, QWidget* parent);

  [[nodiscard]] QJsonObject saveState() const override;
  void restoreState(const QJsonObject& state) override;
  [[nodiscard]] QString data() const override;
  [[nodiscard]] std::optional<figure::CurveFigure> figure() const override;

 protected:
  void refresh() override;
  void restyle() override;
  void showReading() override;
  [[nodiscard]] bool plotIsSettled() const override;

 private:
  /// The numbers that are shown, those of the chosen head but for the events.
  struct Owed {
    HeadChoice head;
    QString run;
    QString target;  ///< in words
    bool keys = false;
    int colour = 0;
    std::shared_ptr<const Trace> trace;
    std::shared_ptr<const Series> changes;  ///< by 1 % of each gate, or 0.01 in a key's logits, nats
    std::shared_ptr<const Series> gate;     ///< null without a gate
    std::vector<ListedToken> events;        ///< of all heads, the largest first
    std::vector<HeadChoice> heads;          ///< theirs
  };
  /// The change at a position, in words.
  [[nodiscard]] QString cause() const;
  static Owed read(Owed owed, const HeadOf& head, const TokenTable& reference, const Job& job);
  void take(Owed owed);
  void chooseHead(const QModelIndex& event);
  [[nodiscard]] PositionAxis axis() const;
  [[nodiscard]] PlotContent content(const QPalette& palette) const;
  [[nodiscard]] QString headName() const;

  PositionPlot* m_plot;
  TokenList* m_list;
  QAction* m_keys;
  QAction* m_compute;  ///< the run that is missing
  Owed m_owed;
};

}  // namespace foxscope::gui::curves
