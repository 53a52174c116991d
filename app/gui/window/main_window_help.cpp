// What explains the window: commands, keys, glossary, tour.
#include <QCursor>
#include <QDockWidget>
#include <QMenuBar>
#include <QStatusBar>
#include <QToolBar>

#include "app/gui/maps/maps_view.h"
#include "app/gui/window/command_palette.h"
#include "app/gui/window/help/glossary.h"
#include "app/gui/window/help/shortcut_sheet.h"
#include "app/gui/window/help/tour.h"
#include "app/gui/window/main_window.h"

namespace foxscope::gui {

void MainWindow::makeHelpMenu() {
  QMenu* menu = menuBar()->addMenu(tr("H&elp"));
  addCommand(menu, {tr("&Commands…"), "commands"}, QKeySequence("Ctrl+K"), tr("All commands, found by typing"), [this] {
    CommandPalette palette(commands(), this);
    palette.move(mapToGlobal(QPoint((width() - palette.width()) / 2, menuBar()->height() + 40)));
    palette.exec();
  });
  addCommand(menu, {tr("&Glossary…")}, QKeySequence("F1"),
             tr("Terms and their equations; by F1, the entry of what is under the mouse"),
             [this] { showGlossary(termAt(QCursor::pos())); });
  addCommand(menu, {tr("&Tour")}, {}, tr("Six steps through the window"), [this] { startTour(); });
  addCommand(menu, {tr("&Keys and Mouse…"), "keys"}, QKeySequence("Shift+F1"), tr("What keys and the mouse do"),
             [this] { ShortcutSheet(commands(), this).exec(); });
  addCommand(menu, {tr("&About Foxscope")}, {}, tr("Version, licence, libraries"), [this] { showAbout(); });
  m_headsDock->setWhatsThis(QStringLiteral("decay-time"));
  m_maps->setWhatsThis(QStringLiteral("forget"));
  m_textDock->setWhatsThis(QStringLiteral("position"));
  m_curvesDock->setWhatsThis(QStringLiteral("loss"));
}

void MainWindow::showGlossary(const QString& term) {
  if (m_glossary == nullptr) m_glossary = new Glossary(this);
  m_glossary->show(term);
}

// The tour is through a window that shows something.
void MainWindow::startTour() {
  if (m_document.runs().empty()) {
    if (m_demo.isEmpty()) return;
    connect(
        &m_document, &Document::idle, this, [this] { showTour(); }, Qt::SingleShotConnection);
    m_document.open({m_demo});
    return;
  }
  showTour();
}

void MainWindow::showTour() {
  resetDocks();
  auto* tour = new Tour({{m_headsDock, tr("Every head at a glance"),
                          tr("Rows are layers, cells are heads. The colour says how long a head remembers: its decay "
                             "time in tokens. Click a "
                             "head, and every part of the window shows that one.")},
                         {m_maps, tr("What it forgets, and where it looks"),
                          tr("A row is a token that reads, a column a token before it. F is what the gates between the "
                             "two let through, A the "
                             "attention that comes of it. The wheel zooms down to single entries, dragging moves, a "
                             "double click shows all.")},
                         {m_textDock, tr("The text itself"),
                          tr("Point at a token and its row and column light up in the maps. Click pins a token as the "
                             "query, Shift+click as the "
                             "key: then the heads tell which of them still remember it. Ctrl+W lists its words with "
                             "what each costs.")},
                         {m_curvesDock, tr("Along the text"),
                          tr("Loss token by token, perplexity against context, the gate of the chosen head and where "
                             "it forgets most. Click a "
                             "line of a list, and maps and text go there.")},
                         {findChild<QToolBar*>(QStringLiteral("run")), tr("Models and runs"),
                          tr("Every model here reads the text when you press F5. Ctrl+I changes one head, holds its "
                             "gate open or cuts it, and "
                             "runs again beside the first.")},
                         {statusBar(), tr("Take it with you"),
                          tr("Ctrl+E exports any part as a figure for a paper or as data. Ctrl+K finds every command, "
                             "F1 explains what is under "
                             "the mouse.")}},
                        *this);
  tour->setObjectName(QStringLiteral("tour"));
}

}  // namespace foxscope::gui
