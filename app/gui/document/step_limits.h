#pragma once

#include <optional>
#include <set>
#include <utility>
#include <vector>

#include <QString>

namespace foxscope::gui {

class RunList;

/// The steps of trainings that runs are of.
struct ShownSteps {
  QString of;    ///< the runs and their text, whatever step they are of; empty: none is of a training
  QString step;  ///< their checkpoints
};
/// The steps of all runs that are not hidden.
ShownSteps shownSteps(const RunList& runs);

/// The limits of numbers over those steps of a training that have been shown, so that colours mean the same at each of
/// them. They grow, and begin anew when something else is shown.
class StepLimits {
 public:
  using Limits = std::pair<double, double>;  ///< least, largest

  /// Numbers of a step.
  /// @param what  the numbers' meaning; other numbers have limits of their own
  void take(const ShownSteps& shown, const QString& what, const Limits& limits);
  /// Nothing where these numbers were not shown.
  [[nodiscard]] std::optional<Limits> limits(const ShownSteps& shown, const QString& what) const;
  /// Takes the finite values of a step, and adds the limits over all steps to them.
  void widen(const ShownSteps& shown, const QString& what, std::vector<double>& values);
  /// " · limits over 3 steps"; empty where there is one, or none.
  [[nodiscard]] QString note() const;

 private:
  QString m_of;  ///< training and meaning
  Limits m_limits;
  std::set<QString> m_steps;
};

}  // namespace foxscope::gui
