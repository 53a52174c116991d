#pragma once

#include <memory>
#include <vector>

#include "app/gui/curves/series.h"
#include "app/gui/curves/tabs/position_tab.h"
#include "app/gui/curves/token_list.h"

namespace foxscope::gui::curves {

/// The forget gate of the chosen head along the text, and where it forgets most.
class GateTab : public PositionTab {
  Q_OBJECT

 public:
  GateTab(RunList& runs, const ModelRuns& modelRuns, QWidget* parent);

  [[nodiscard]] QString data() const override;

 protected:
  void refresh() override;
  void showReading() override;
  [[nodiscard]] bool hasCurves() const override { return m_gate.series != nullptr; }
  [[nodiscard]] PlotContent content(const QPalette& palette) const override;
  [[nodiscard]] std::vector<std::shared_ptr<const Trace>> traces() const override { return {m_gate.trace}; }

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

  TokenList* m_list;
  Gate m_gate;
};

}  // namespace foxscope::gui::curves
