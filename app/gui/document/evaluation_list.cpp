#include "app/gui/document/evaluation_list.h"

#include <algorithm>
#include <utility>

namespace foxscope::gui {

void EvaluationList::take(Evaluation evaluation) {
  evaluation.ofSession = m_ofSession.removeAll(evaluation.path) > 0;
  const auto same = std::find_if(m_evaluations.begin(), m_evaluations.end(),
                                 [&](const Evaluation& open) { return open.path == evaluation.path; });
  if (same == m_evaluations.end()) {
    m_evaluations.push_back(std::move(evaluation));
  } else {
    *same = std::move(evaluation);
  }
  emit evaluationsChanged();
}

void EvaluationList::close(const QString& path) {
  if (std::erase_if(m_evaluations, [&](const Evaluation& open) { return open.path == path; }) == 0) return;
  emit evaluationsChanged();
}

void EvaluationList::clear() {
  m_evaluations.clear();
  emit evaluationsChanged();
}

}  // namespace foxscope::gui
