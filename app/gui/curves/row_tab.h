#pragma once

#include <array>
#include <memory>
#include <optional>

#include "app/gui/curves/curve_tab.h"
#include "app/gui/curves/plot_content.h"
#include "app/gui/curves/position_axis.h"

namespace foxscope::gui::curves {

class PositionPlot;

/// What the pinned query, or else the one that was hovered last, makes of every key in the chosen head.
class RowTab : public CurveTab {
  Q_OBJECT

 public:
  RowTab(Document& document, QWidget* parent);

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
  enum Kind { attention, withoutGate, forget, logForget, kinds };

  /// One row as series by position of the reference.
  struct Row {
    HeadChoice head;
    QString run;
    int colour = 0;
    std::shared_ptr<const Trace> trace;
    std::int64_t query = 0;                                   ///< of the reference
    std::array<std::shared_ptr<const Series>, kinds> series;  ///< null: not known
    std::vector<Mark> strongest;                              ///< of attention
  };
  static std::optional<Row> read(Row row, const HeadOf& head, std::int64_t queryOfRun, const TokenTable& reference,
                                 const Job& job);
  void follow();
  void take(Row row);
  [[nodiscard]] PositionAxis axis() const;
  [[nodiscard]] PlotContent content(const QPalette& palette) const;
  [[nodiscard]] QString xLabel() const;
  [[nodiscard]] QString nameOf(Kind kind) const;
  [[nodiscard]] QColor colourOf(Kind kind, const QPalette& palette) const;
  [[nodiscard]] bool shows(Kind kind) const;
  [[nodiscard]] Side sideOf(Kind kind) const;

  PositionPlot* m_plot;
  QAction* m_shown[kinds];
  QAction* m_distance;
  QAction* m_logX;
  QAction* m_logY;
  std::optional<std::int64_t> m_query;  ///< whose row is wanted
  HeadChoice m_head;
  Row m_row;
};

}  // namespace foxscope::gui::curves
