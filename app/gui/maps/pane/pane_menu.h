#pragma once

#include <functional>
#include <optional>

#include <QMenu>

#include "app/gui/document/runs/run_list.h"
#include "app/gui/maps/entry_lines.h"

namespace foxscope::gui {

/// The commands at a place of a map: copying what stands there, curves along it, pins and locked pairs, export. It says
/// what is wanted; the pane does it.
class PaneMenu : public QMenu {
  Q_OBJECT

 public:
  /// @param at     place under the pointer, of the reference run; without a key where there is no entry
  /// @param names  i and j as the pane's own run counts them: "i 2012 ␣the"
  struct Names {
    QString query;
    QString key;
  };
  /// @param firstKey  of the pane; absent: its quantity has it like others
  PaneMenu(RunList& runs, const Cursor& at, const Names& names, std::optional<FirstKey> firstKey, QWidget* parent);

 signals:
  void pictureWanted();
  /// @param along  nothing: the entry alone
  void entriesWanted(std::optional<foxscope::MapLine::Along> along);
  void profileWanted(foxscope::MapLine::Along along);
  void zoomWanted(const foxscope::gui::Cursor& to);
  void coloursWanted();
  void exportWanted();
  void firstKeyWanted(foxscope::FirstKey firstKey);

 private:
  void addCopying(bool exists, const Names& names);
  void addProfiles(const Cursor& at, bool exists, const Names& names);
  void addPins(const Cursor& at, bool exists);
  void addLocks();

  RunList& m_runs;
};

/// Lists the locked pairs in a menu, each with what can be done with it.
/// @param zoom  shows a pair
void listLocks(QMenu& menu, RunList& runs, const std::function<void(const Cursor&)>& zoom);

}  // namespace foxscope::gui
