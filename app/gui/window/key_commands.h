#pragma once

#include <functional>
#include <vector>

#include <QAction>
#include <QList>
#include <QObject>

class QKeySequence;

namespace foxscope::gui {

class MainWindow;

/// Commands that move about by keys alone: from part to part of the window, from head to head, from pane to pane, from
/// tab to tab of the curves, and the pinned key along the text.
class KeyCommands : public QObject {
  Q_OBJECT

 public:
  explicit KeyCommands(MainWindow& window);

  // For the menus, owned by the window.
  [[nodiscard]] const QList<QAction*>& ofView() const { return m_ofView; }
  [[nodiscard]] const QList<QAction*>& ofHeads() const { return m_ofHeads; }
  [[nodiscard]] const QList<QAction*>& ofMaps() const { return m_ofMaps; }
  [[nodiscard]] const QList<QAction*>& ofText() const { return m_ofText; }
  [[nodiscard]] const QList<QAction*>& ofCurves() const { return m_ofCurves; }

 private:
  QAction* add(QList<QAction*>& to, const QString& words, const QKeySequence& keys, const QString& tip,
               const std::function<void()>& act);
  /// Parts that are in sight, in their order: heads, maps, text, what stands below.
  [[nodiscard]] std::vector<QWidget*> parts() const;
  void goToPart(int by);
  void stepHead(int by);
  void stepLayer(int by);
  void goToPane(int pane);
  void stepTab(int by);
  void moveKey(int by);

  MainWindow& m_window;
  QList<QAction*> m_ofView;
  QList<QAction*> m_ofHeads;
  QList<QAction*> m_ofMaps;
  QList<QAction*> m_ofText;
  QList<QAction*> m_ofCurves;
};

}  // namespace foxscope::gui
