#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <QAction>
#include <QComboBox>
#include <QTest>

#include "app/gui/text/text_page.h"
#include "app/gui/text/text_tool_row.h"
#include "app/gui/text/text_view.h"
#include "backend/base/index.h"
#include "backend/map/map.h"
#include "tests/gui/text/text_run.h"

namespace foxscope::gui::test {

inline constexpr int kPatienceMs = 20'000;

/// A document with runs and the view on them.
class Shown {
 public:
  explicit Shown(const std::vector<TextRun>& runs) {
    view.resize(640, 420);
    view.show();
    std::vector<std::shared_ptr<const Trace>> traces;
    for (const TextRun& run : runs) traces.push_back(makeTextRun(run));
    m_came = traces.empty() || (openRuns(document, m_folder, traces) && settle());
    page = view.findChild<TextPage*>();
    tools = view.findChild<TextToolRow*>();
  }

  [[nodiscard]] bool came() const { return m_came; }
  [[nodiscard]] bool settle() {
    return QTest::qWaitFor([&] { return view.isSettled() && !document.busy(); }, kPatienceMs);
  }
  [[nodiscard]] Selection& selection() { return document.runs().selection(); }
  [[nodiscard]] const Trace& trace() const { return *document.runs().reference()->trace; }
  [[nodiscard]] float valueAt(std::int64_t cell) const { return page->tint()->value[index_of(cell)]; }
  [[nodiscard]] QPoint pointOf(std::int64_t cell) const { return page->cellRect(cell).center().toPoint(); }
  void hover(std::int64_t cell) const { QTest::mouseMove(page->viewport(), pointOf(cell)); }
  void click(std::int64_t cell, Qt::KeyboardModifiers modifiers = Qt::NoModifier) const {
    QTest::mouseClick(page->viewport(), Qt::LeftButton, modifiers, pointOf(cell));
  }
  void press(Qt::Key key, Qt::KeyboardModifiers modifiers = Qt::NoModifier) const {
    QTest::keyClick(page, key, modifiers);
  }
  /// Chooses by the combo box, as a user does.
  [[nodiscard]] bool choose(TintKind kind) {
    auto* combo = tools->findChild<QComboBox*>();
    for (QComboBox* each : tools->findChildren<QComboBox*>()) {
      if (each->accessibleName() == "Tint") combo = each;
    }
    const int index = combo->findData(toString(kind));
    combo->setCurrentIndex(index);
    emit combo->activated(index);
    return settle();
  }
  [[nodiscard]] QAction* command(const QString& text) const {
    for (QAction* action : view.commands()) {
      if (action->text() == text) return action;
    }
    return nullptr;
  }

  Document document;
  TextView view{document.runs(), document.modelRuns()};
  TextPage* page = nullptr;
  TextToolRow* tools = nullptr;

 private:
  Folder m_folder;
  bool m_came = false;
};

/// The same text read by another model.
TextRun second(TextRun run);
/// One entry of a map of the first head.
float entry(const Trace& trace, Quantity quantity, std::int64_t query, std::int64_t key);

}  // namespace foxscope::gui::test
