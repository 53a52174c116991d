#include "app/gui/document/step_limits.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <QCoreApplication>

#include "app/gui/document/runs/run_list.h"

namespace foxscope::gui {
namespace {

QString keyOf(const ShownSteps& shown, const QString& what) { return shown.of + QLatin1Char('\n') + what; }

}  // namespace

ShownSteps shownSteps(const RunList& runs) {
  ShownSteps shown;
  bool any = false;
  for (const Run& run : runs) {
    if (run.look.hidden) continue;
    const QString training = runs.modelOf(run).training;
    shown.of += QStringLiteral("%1 %2 %3 %4\n").arg(run.text).arg(run.trace->info().length).arg(run.name, training);
    if (training.isEmpty()) continue;
    any = true;
    shown.step += run.model + QLatin1Char('\n');
  }
  return any ? shown : ShownSteps();
}

void StepLimits::take(const ShownSteps& shown, const QString& what, const Limits& limits) {
  const bool known = std::isfinite(limits.first) && std::isfinite(limits.second);
  if (shown.of.isEmpty() || !known) return;
  if (const QString key = keyOf(shown, what); key != m_of) {
    m_of = key;
    m_limits = limits;
    m_steps.clear();
  }
  m_limits = {std::min(m_limits.first, limits.first), std::max(m_limits.second, limits.second)};
  m_steps.insert(shown.step);
}

std::optional<StepLimits::Limits> StepLimits::limits(const ShownSteps& shown, const QString& what) const {
  const bool same = !shown.of.isEmpty() && keyOf(shown, what) == m_of;
  return same ? std::optional(m_limits) : std::nullopt;
}

void StepLimits::widen(const ShownSteps& shown, const QString& what, std::vector<double>& values) {
  Limits own{std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity()};
  for (const double value : values) {
    if (!std::isfinite(value)) continue;
    own = {std::min(own.first, value), std::max(own.second, value)};
  }
  take(shown, what, own);
  if (const auto all = limits(shown, what)) values.insert(values.end(), {all->first, all->second});
  if (shown.of.isEmpty()) m_steps.clear();
}

QString StepLimits::note() const {
  if (m_steps.size() < 2) return {};
  return QCoreApplication::translate("foxscope::gui::StepLimits", " · limits over %1 steps").arg(m_steps.size());
}

}  // namespace foxscope::gui
