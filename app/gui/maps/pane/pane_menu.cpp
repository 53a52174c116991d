#include "app/gui/maps/pane/pane_menu.h"

namespace foxscope::gui {
namespace {

/// "query 2012 ␣the, key 1999 ␣fox", by the run whose positions the selection speaks in.
QString pairText(const RunList& runs, const Cursor& pair) {
  const Run* reference = runs.reference();
  const auto place = [&](std::int64_t position) {
    const bool known = reference != nullptr && reference->trace->tokens() && position < runs.length();
    const QString token = known ? readText(*reference->trace->tokens(), position, Whitespace::visible) : QString();
    return QStringLiteral("%1 %2").arg(position).arg(token);
  };
  return PaneMenu::tr("query %1, key %2").arg(place(*pair.query), place(*pair.key));
}

/// An ampersand of a token is no shortcut.
QString plain(QString text) { return text.replace(QLatin1Char('&'), QStringLiteral("&&")); }

}  // namespace

PaneMenu::PaneMenu(RunList& runs, const Cursor& at, const Names& names, std::optional<FirstKey> firstKey,
                   QWidget* parent)
    : QMenu(parent), m_runs(runs) {
  setAttribute(Qt::WA_DeleteOnClose);
  const bool exists = at.query && at.key && *at.key <= *at.query;
  addCopying(exists, names);
  addSeparator();
  addProfiles(at, exists, names);
  addSeparator();
  addPins(at, exists);
  addLocks();
  addSeparator();
  if (firstKey) {
    QAction* without = addAction(tr("Without key 0"));
    without->setCheckable(true);
    without->setChecked(*firstKey == FirstKey::left_out);
    connect(without, &QAction::triggered, this,
            [this](bool out) { emit firstKeyWanted(out ? FirstKey::left_out : FirstKey::counted); });
    addSeparator();
  }
  connect(addAction(tr("Colours…")), &QAction::triggered, this, &PaneMenu::coloursWanted);
  connect(addAction(tr("Export…")), &QAction::triggered, this, &PaneMenu::exportWanted);
}

void PaneMenu::addCopying(bool exists, const Names& names) {
  connect(addAction(tr("Copy picture")), &QAction::triggered, this, &PaneMenu::pictureWanted);
  const auto add = [&](const QString& text, std::optional<MapLine::Along> along) {
    QAction* action = addAction(plain(text));
    action->setEnabled(exists);
    connect(action, &QAction::triggered, this, [this, along] { emit entriesWanted(along); });
  };
  add(tr("Copy value (tokens, distance, value)"), std::nullopt);
  add(exists ? tr("Copy row %1").arg(names.query) : tr("Copy row"), MapLine::Along::row);
  add(exists ? tr("Copy column %1").arg(names.key) : tr("Copy column"), MapLine::Along::column);
  add(tr("Copy diagonal (same distance)"), MapLine::Along::diagonal);
}

void PaneMenu::addProfiles(const Cursor& at, bool exists, const Names& names) {
  const auto add = [&](const QString& text, MapLine::Along along) {
    QAction* action = addAction(plain(text));
    action->setEnabled(exists);
    connect(action, &QAction::triggered, this, [this, along] { emit profileWanted(along); });
  };
  add(exists ? tr("Row %1 as a curve").arg(names.query) : tr("Row as a curve"), MapLine::Along::row);
  add(exists ? tr("Column %1 as a curve").arg(names.key) : tr("Column as a curve"), MapLine::Along::column);
  add(exists ? tr("Diagonal (distance %1) as a curve").arg(*at.query - *at.key) : tr("Diagonal as a curve"),
      MapLine::Along::diagonal);
}

void PaneMenu::addPins(const Cursor& at, bool exists) {
  Selection* selection = &m_runs.selection();
  connect(addAction(tr("Set pin")), &QAction::triggered, selection, [selection, at] { selection->setPin(at); });
  QAction* lock = addAction(tr("Lock pin"));
  lock->setEnabled(exists);
  connect(lock, &QAction::triggered, &m_runs, [this, at] { m_runs.lockPair(at); });
  QAction* zoom = addAction(tr("Zoom to pin"));
  const Cursor pin = selection->pin();
  zoom->setEnabled(pin.query.has_value() || pin.key.has_value());
  connect(zoom, &QAction::triggered, this, [this, pin] { emit zoomWanted(pin); });
}

void PaneMenu::addLocks() {
  if (m_runs.selection().locks().empty()) return;
  QMenu* locks = addMenu(tr("Locked pins"));
  listLocks(*locks, m_runs, [this](const Cursor& pair) { emit zoomWanted(pair); });
}

void listLocks(QMenu& menu, RunList& runs, const std::function<void(const Cursor&)>& zoom) {
  const std::vector<Cursor>& locks = runs.selection().locks();
  for (std::size_t n = 0; n < locks.size(); ++n) {
    const Cursor pair = locks[n];
    QMenu* entry = menu.addMenu(plain(QStringLiteral("%1   %2").arg(n + 1).arg(pairText(runs, pair))));
    QObject::connect(entry->addAction(PaneMenu::tr("Zoom to it")), &QAction::triggered, &menu,
                     [zoom, pair] { zoom(pair); });
    Selection* selection = &runs.selection();
    QObject::connect(entry->addAction(PaneMenu::tr("Pin it")), &QAction::triggered, selection,
                     [selection, pair] { selection->setPin(pair); });
    QObject::connect(entry->addAction(PaneMenu::tr("Remove")), &QAction::triggered, &runs,
                     [&runs, n] { runs.unlockPair(n); });
  }
  if (locks.size() < 2) return;
  menu.addSeparator();
  QObject::connect(menu.addAction(PaneMenu::tr("Remove all")), &QAction::triggered, &runs,
                   [&runs] { runs.unlockAll(); });
}

}  // namespace foxscope::gui
