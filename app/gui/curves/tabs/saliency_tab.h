#pragma once

#include <memory>
#include <vector>

#include "app/gui/curves/series.h"
#include "app/gui/curves/tabs/position_tab.h"
#include "app/gui/curves/token_list.h"

namespace foxscope::gui::curves {

/// Saliency of the gates, or the keys, of the chosen head along the text, its gate below it, and the positions of all
/// heads that matter most.
class SaliencyTab : public PositionTab {
  Q_OBJECT

 public:
  SaliencyTab(RunList& runs, ModelRuns& modelRuns, QWidget* parent);

  [[nodiscard]] QString data() const override;

 protected:
  void refresh() override;
  void showReading() override;
  [[nodiscard]] bool hasCurves() const override { return m_owed.changes != nullptr; }
  [[nodiscard]] PlotContent content(const QPalette& palette) const override;
  [[nodiscard]] std::vector<std::shared_ptr<const Trace>> traces() const override { return {m_owed.trace}; }

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

  TokenList* m_list;
  QAction* m_keys;
  QAction* m_compute;  ///< the run that is missing
  Owed m_owed;
};

}  // namespace foxscope::gui::curves
