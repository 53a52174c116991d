#include "app/gui/document/evaluation_list.h"

#include <algorithm>
#include <utility>

#include "app/gui/document/remote/remote_place.h"

namespace foxscope::gui {

/// An evaluation that was closed, and where it stood.
class EvaluationList::Closing : public QUndoCommand {
 public:
  Closing(EvaluationList& list, std::size_t place)
      : QUndoCommand(EvaluationList::tr("close %1").arg(fileNameOf(list[place].path))),
        m_list(list),
        m_place(place),
        m_closed(list[place]) {}
  void redo() override {
    std::erase_if(m_list.m_evaluations, [this](const Evaluation& open) { return open.path == m_closed.path; });
    emit m_list.evaluationsChanged();
  }
  // It may have been opened again meanwhile.
  void undo() override {
    auto& open = m_list.m_evaluations;
    if (std::ranges::find(open, m_closed.path, &Evaluation::path) != open.end()) return;
    open.insert(open.begin() + static_cast<std::ptrdiff_t>(std::min(m_place, open.size())), m_closed);
    emit m_list.evaluationsChanged();
  }

 private:
  EvaluationList& m_list;
  std::size_t m_place;
  Evaluation m_closed;
};

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
  const auto open = std::ranges::find(m_evaluations, path, &Evaluation::path);
  if (open != m_evaluations.end())
    m_history.push(new Closing(*this, static_cast<std::size_t>(open - m_evaluations.begin())));
}

void EvaluationList::clear() {
  m_evaluations.clear();
  emit evaluationsChanged();
}

}  // namespace foxscope::gui
