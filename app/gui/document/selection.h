#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <QObject>

#include "backend/map/map.h"

namespace foxscope::gui {

/// Number of a run in the window; never used twice.
using RunId = int;
inline constexpr RunId kNoRun = -1;

/// One head of one run.
struct HeadChoice {
  RunId run = kNoRun;
  int layer = 0;
  int head = 0;
  bool operator==(const HeadChoice&) const = default;
};

/// A query and a key, as positions of the reference run (RunList::reference). Either may be missing.
struct Cursor {
  std::optional<std::int64_t> query;
  std::optional<std::int64_t> key;
  bool operator==(const Cursor&) const = default;
};

/// The part of the text that maps and curves show: queries [rows), keys [columns), positions of the reference run; and
/// of maps by distance the distances i - j + 1, 0:0: all of the text.
struct View {
  Range rows;
  Range columns;
  Range distances = {};
  bool operator==(const View&) const = default;
};

/// The selection that all views share: one head, one pinned and one hovered pair, pairs that are locked, one range.
/// Setting what is already set is no change, so views may follow each other in a circle.
class Selection : public QObject {
  Q_OBJECT

 public:
  using QObject::QObject;

  [[nodiscard]] const HeadChoice& head() const { return m_head; }
  [[nodiscard]] const Cursor& pin() const { return m_pin; }
  [[nodiscard]] const Cursor& hover() const { return m_hover; }
  /// Pairs that stay marked while others are pinned, numbered from 1 on. RunList::lockPair is what can be undone.
  [[nodiscard]] const std::vector<Cursor>& locks() const { return m_locks; }
  /// Heads that were chosen together, in an atlas, beside the one that is shown.
  [[nodiscard]] const std::vector<HeadChoice>& marked() const { return m_marked; }
  [[nodiscard]] const View& view() const { return m_view; }
  /// The hovered position where there is one, else the pinned one.
  [[nodiscard]] Cursor cursor() const;
  [[nodiscard]] bool canGoBack() const { return !m_history.empty(); }

 public slots:
  void setHead(const foxscope::gui::HeadChoice& head);
  /// A pinned key after the pinned query is let go: no such pair exists.
  void setPin(const foxscope::gui::Cursor& pin);
  void pinQuery(std::int64_t query);
  void pinKey(std::int64_t key);
  void setHover(const foxscope::gui::Cursor& hover);
  void setLocks(const std::vector<foxscope::gui::Cursor>& locks);
  void setMarked(const std::vector<foxscope::gui::HeadChoice>& heads);
  /// Shows another part of the text. A step that belongs to the same movement as the one before (a drag, one turn of
  /// the wheel) does not make another entry of the history.
  void setView(const foxscope::gui::View& view);
  /// Pins a query, and shows the part of the text around it where it is not shown.
  void goTo(std::int64_t query, std::int64_t length);
  /// The next setView begins a new entry of the history.
  void endMovement();
  /// Back to the view before the last movement.
  void goBack();
  /// Shows all of a text of this length, without a history.
  void resetView(std::int64_t length);

 signals:
  void headChanged();
  void pinChanged();
  void hoverChanged();
  void locksChanged();
  void markedChanged();
  void viewChanged();

 private:
  HeadChoice m_head;
  Cursor m_pin;
  Cursor m_hover;
  std::vector<Cursor> m_locks;
  std::vector<HeadChoice> m_marked;
  View m_view;
  std::vector<View> m_history;
  bool m_moving = false;
};

}  // namespace foxscope::gui

Q_DECLARE_METATYPE(foxscope::gui::HeadChoice)
