#pragma once

#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "app/gui/curves/tabs/position_tab.h"
#include "backend/map/map_line.h"

class QComboBox;

namespace foxscope::gui::curves {

/// The values along a line of the chosen head's map: the row of the pinned query, the column of the pinned key, or the
/// diagonal of the pinned pair's distance; without a pin of the token that was hovered last.
class ProfileTab : public PositionTab {
  Q_OBJECT

 public:
  ProfileTab(RunList& runs, const ModelRuns& modelRuns, QWidget* parent);

  void setAlong(MapLine::Along along);
  [[nodiscard]] MapLine::Along along() const;

  [[nodiscard]] QJsonObject saveState() const override;
  void restoreState(const QJsonObject& state) override;
  [[nodiscard]] QString data() const override;
  [[nodiscard]] std::optional<figure::CurveFigure> figure() const override;

 protected:
  void refresh() override;
  void showReading() override;
  [[nodiscard]] bool plotIsSettled() const override;
  [[nodiscard]] bool hasCurves() const override { return m_profile.of.trace != nullptr; }
  [[nodiscard]] PlotContent content(const QPalette& palette) const override;
  [[nodiscard]] std::vector<std::shared_ptr<const Trace>> traces() const override { return {m_profile.of.trace}; }
  [[nodiscard]] PositionAxis axis() const override;
  [[nodiscard]] QString xLabel() const override;

 private:
  enum Kind { attention, withoutGate, forget, logForget, kinds };

  /// One line as series by position of the reference.
  struct Profile {
    HeadChoice head;
    QString run;
    int colour = 0;
    HeadOf of;
    std::shared_ptr<const TokenTable> reference;
    MapLine line;                                             ///< in positions of the reference
    MapLine own;                                              ///< in positions of the run
    std::array<std::shared_ptr<const Series>, kinds> series;  ///< null: not known
    std::vector<Mark> strongest;                              ///< of attention
    std::vector<Quantity> missing;                            ///< LineProfile::missing
  };
  static std::optional<Profile> read(Profile profile, const Job& job);
  static void add(Profile& profile, Kind kind, std::vector<double> values);
  /// The tokens that the line is to go through; nothing while there are none.
  [[nodiscard]] std::optional<Cursor> wantedPair() const;
  [[nodiscard]] MapLine lineThrough(const Cursor& pair) const;
  /// The line in positions of the run; nothing where that has not read so far.
  [[nodiscard]] std::optional<MapLine> ownLineThrough(const Cursor& pair) const;
  [[nodiscard]] QString howToPin() const;
  void follow();
  void forgetProfile();
  void take(Profile profile);
  /// Has what takes a pass over all rows computed, one quantity after the other.
  void addMissing();
  [[nodiscard]] QString notes() const;
  [[nodiscard]] bool isAgainstDistance() const;
  [[nodiscard]] QString nameOf(Kind kind) const;
  [[nodiscard]] QColor colourOf(Kind kind, const QPalette& palette) const;
  [[nodiscard]] bool shows(Kind kind) const;
  [[nodiscard]] Side sideOf(Kind kind) const;

  QComboBox* m_along;  ///< in the order of MapLine::Along
  std::array<QAction*, kinds> m_shown{};
  QAction* m_distance;
  QAction* m_logX;
  QAction* m_logY;
  std::optional<Cursor> m_pair;  ///< whose line is wanted
  HeadChoice m_head;
  Profile m_profile;
};

}  // namespace foxscope::gui::curves
