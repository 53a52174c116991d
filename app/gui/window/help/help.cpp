#include "app/gui/window/help/help.h"

#include <QMenuBar>
#include <QMessageBox>
#include <QStatusBar>
#include <QToolBar>

#include "app/gui/maps/maps_view.h"
#include "app/gui/window/command_palette.h"
#include "app/gui/window/docks.h"
#include "app/gui/window/help/glossary.h"
#include "app/gui/window/help/shortcut_sheet.h"
#include "app/gui/window/help/tour.h"
#include "app/gui/window/main_window.h"

namespace foxscope::gui {

Help::Help(MainWindow& window, const QString& demo) : QObject(&window), m_window(window), m_demo(demo) {}

void Help::showCommands() {
  CommandPalette palette(m_window.commands(), &m_window);
  const QPoint place((m_window.width() - palette.width()) / 2, m_window.menuBar()->height() + 40);
  palette.move(m_window.mapToGlobal(place));
  palette.exec();
}

void Help::showKeys() { ShortcutSheet(m_window.commands(), &m_window).exec(); }

void Help::showGlossary(const QString& term) {
  if (m_glossary == nullptr) m_glossary = new Glossary(&m_window);
  m_glossary->show(term);
}

void Help::showAbout() {
  QMessageBox::about(&m_window, tr("About Foxscope"),
                     tr("<h3>Foxscope %1</h3><p>See what each head of a Forgetting Transformer forgets, and when.</p>"
                        "<p>Licence: GPL-3.0-or-later. Made with Qt %2, QCustomPlot, LibTorch, HDF5, Highway, PCRE2, "
                        "libwebp, CLI11, fmt and "
                        "nlohmann's JSON.</p>")
                         .arg(QStringLiteral(FOXSCOPE_VERSION), QString::fromLatin1(qVersion())));
}

// The tour is through a window that shows something.
void Help::startTour() {
  Document& document = m_window.document();
  if (!document.runs().empty()) return showTour();
  if (m_demo.isEmpty()) return;
  connect(
      &document, &Document::idle, this, [this] { showTour(); }, Qt::SingleShotConnection);
  document.open({m_demo});
}

void Help::showTour() {
  Docks& docks = m_window.docks();
  docks.reset();
  auto* tour = new Tour({{&docks.heads(), tr("Every head at a glance"),
                          tr("Rows are layers, cells are heads. The colour says how long a head remembers: its decay "
                             "time in tokens. Click a "
                             "head, and every part of the window shows that one.")},
                         {&m_window.maps(), tr("What it forgets, and where it looks"),
                          tr("A row is a token that reads, a column is a token before it. F is what the gates between "
                             "the two let through, A is the resulting attention. The wheel zooms down to single "
                             "entries, dragging moves, a double click shows all.")},
                         {&docks.text(), tr("The text itself"),
                          tr("Point at a token and its row and column light up in the maps. A click pins a token as "
                             "the query, Shift+click pins it as the key: the colours of the heads then show which "
                             "heads still remember it. Ctrl+W lists the words with the loss of each.")},
                         {&docks.curves(), tr("Along the text"),
                          tr("Loss token by token, perplexity against context, the gate of the chosen head and where "
                             "it forgets most. Click a "
                             "line of a list, and maps and text go there.")},
                         {m_window.findChild<QToolBar*>(QStringLiteral("run")), tr("Models and runs"),
                          tr("Every model here reads the text when you press F5. Ctrl+I changes one head, holds its "
                             "gate open or cuts it, and "
                             "runs again beside the first.")},
                         {m_window.statusBar(), tr("Take it with you"),
                          tr("Ctrl+E exports any part as a figure for a paper or as data. Ctrl+K finds every command, "
                             "F1 explains what is under "
                             "the mouse.")}},
                        m_window);
  tour->setObjectName(QStringLiteral("tour"));
}

}  // namespace foxscope::gui
