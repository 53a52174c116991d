#include "app/gui/window/help/shortcut_sheet.h"

#include <QTextBrowser>
#include <QVBoxLayout>

#include "app/gui/window/command_palette.h"

namespace foxscope::gui {
namespace {

QString row(const QString& keys, const QString& text) {
  return QStringLiteral("<tr><td style='padding:2px 18px 2px 2px'><b>%1</b></td><td style='padding:2px'>%2</td></tr>")
      .arg(keys.toHtmlEscaped(), text.toHtmlEscaped());
}

}  // namespace

ShortcutSheet::ShortcutSheet(const QList<QAction*>& actions, QWidget* parent) : QDialog(parent) {
  setWindowTitle(tr("Keys and mouse"));
  QString text = "<h3>" + tr("Mouse in maps and curves") + "</h3><table>";
  text += row(tr("Wheel"), tr("zoom at the pointer (Ctrl finer, Shift faster)"));
  text += row(tr("Drag"), tr("move"));
  text += row(tr("Right drag"), tr("zoom to the rectangle"));
  text += row(tr("Double click"), tr("show all of the text"));
  text += row(tr("Move"), tr("preview query and key in every view"));
  text += row(tr("Click"), tr("pin the query (in a map: query and key)"));
  text += row(tr("Shift+click"), tr("pin the key"));
  text += row(tr("Ctrl+Shift+click"), tr("in a map: lock the pair, which keeps it marked"));
  text += row(tr("Right click"), tr("in a map: copy its values, curves along it, pins, colours, export"));
  text += "</table><h3>" + tr("Keys") + "</h3><p>" +
          tr("They work everywhere except where you type: in the text editor, in fields for words and numbers, and in "
             "the list of words, which typing narrows.") +
          "</p><table>";
  for (const QAction* action : actions) {
    if (action->shortcut().isEmpty()) continue;
    text += row(QKeySequence::listToString(action->shortcuts(), QKeySequence::NativeText).replace("; ", tr(" or ")),
                plainText(*action));
  }
  text += row(tr("+ and − in curves"), tr("zoom along the text alone"));
  text +=
      row(tr("Arrows"),
          tr("in the heads: choose a head; in a map: move (Ctrl: by nearly all that is shown); in the text: move the "
             "pinned query"));
  text += "</table>";
  auto* browser = new QTextBrowser;
  browser->setHtml(text);
  browser->setFrameShape(QFrame::NoFrame);
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins(0, 0, 0, 0);
  layout->addWidget(browser);
  resize(fontMetrics().averageCharWidth() * 86, fontMetrics().height() * 38);
}

}  // namespace foxscope::gui
