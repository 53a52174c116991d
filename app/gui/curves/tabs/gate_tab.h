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

/// The forget gate of the chosen head along the text, and where it forgets most.
class GateTab : public CurveTab {
  Q_OBJECT

 public:
  GateTab(RunList& runs, const ModelRuns& modelRuns, QWidget* parent);

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
  struct Gate {
    HeadChoice head;
    QString run;
    int colour = 0;
    std::shared_ptr<const Trace> trace;
    std::shared_ptr<const Series> series;
    std::vector<ListedToken> events;
  };
  static Gate read(Gate gate, const HeadOf& head, const TokenTable& reference, const Job& job);
  void take(Gate gate);
  [[nodiscard]] PositionAxis axis() const;
  [[nodiscard]] PlotContent content(const QPalette& palette) const;
  [[nodiscard]] QString headName() const;
  [[nodiscard]] QString xLabel() const;

  PositionPlot* m_plot;
  TokenList* m_list;
  QAction* m_logarithmic;
  Gate m_gate;
};

}  // namespace foxscope::gui::curves
