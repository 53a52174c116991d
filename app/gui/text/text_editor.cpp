#include "app/gui/text/text_editor.h"

#include <algorithm>

#include <QKeyEvent>
#include <QMimeData>
#include <QTextCursor>

#include "app/gui/text/text_cells.h"

namespace foxscope::gui {
namespace {

/// Bytes of the text that can be shown for editing.
std::size_t editableSize(const std::string& content) {
  std::size_t line = 0;
  std::size_t end = content.size();
  while (line < content.size() && line < kLargestEdited) {
    const auto from = content.begin() + static_cast<std::ptrdiff_t>(line);
    const auto length = static_cast<std::size_t>(std::find(from, content.end(), '\n') - from);
    if (length > kLongestEditedLine) {
      end = line + kLongestEditedLine;
      break;
    }
    line += length + 1;
  }
  end = std::min(end, kLargestEdited);
  while (end > 0 && end < content.size() && continuesCharacter(content[end])) --end;
  return std::min(end, content.size());
}

}  // namespace

TextEditor::TextEditor(QWidget* parent) : QPlainTextEdit(parent) {
  setAccessibleName(tr("Text to be run"));
  setPlaceholderText(tr("Type or paste a text, or open one (Ctrl+Shift+O), then press F5"));
  setFrameShape(QFrame::NoFrame);
  document()->setDocumentMargin(fontMetrics().averageCharWidth());
  setLineWrapMode(QPlainTextEdit::WidgetWidth);
  connect(this, &QPlainTextEdit::textChanged, this, &TextEditor::takeEdit);
}

QString TextEditor::plainText() const {
  // toPlainText would turn no-break blanks into blanks.
  QString text = document()->toRawText();
  text.replace(QChar::ParagraphSeparator, '\n');
  return text;
}

void TextEditor::display(const std::string& content) {
  m_content = content;
  m_showing = true;
  const std::size_t size = editableSize(content);
  m_showsBeginning = size < content.size();
  setReadOnly(m_showsBeginning);
  setPlainText(QString::fromUtf8(content.data(), static_cast<qsizetype>(size)));
  m_showing = false;
}

void TextEditor::setContent(const std::string& content) {
  if (content != m_content) display(content);
}

void TextEditor::takeEdit() {
  if (m_showing || isReadOnly()) return;
  m_content = plainText().toStdString();
  emit contentEdited();
}

bool TextEditor::canInsertFromMimeData(const QMimeData* source) const {
  // Files that are dropped are for the window.
  return !source->hasUrls() && source->hasText() && !isReadOnly();
}

void TextEditor::insertFromMimeData(const QMimeData* source) {
  const QString pasted = source->text();
  if (pasted.contains(QChar(0))) {
    emit refused(tr("Not pasted: the text contains a NUL character, which a run file cannot store: remove it"));
    return;
  }
  const std::string bytes = pasted.toStdString();
  if (bytes.size() + m_content.size() > kLargestText) {
    emit refused(tr("Not pasted: more than %1 MB of text: cut it into parts").arg(kLargestText >> 20U));
    return;
  }
  const bool isLong = editableSize(bytes) < bytes.size() || bytes.size() + m_content.size() > kLargestEdited;
  if (!isLong) {
    QTextCursor cursor = textCursor();
    cursor.insertText(pasted);
    setTextCursor(cursor);
    ensureCursorVisible();
    return;
  }
  const QTextCursor cursor = textCursor();
  QString whole = plainText();
  whole.replace(cursor.selectionStart(), cursor.selectionEnd() - cursor.selectionStart(), pasted);
  display(whole.toStdString());
  emit contentReplaced();
}

// Where the editor has nothing to undo, the window may: a text that was replaced.
bool TextEditor::event(QEvent* event) {
  if (event->type() == QEvent::ShortcutOverride) {
    auto* key = static_cast<QKeyEvent*>(event);
    const bool nothing = (key->matches(QKeySequence::Undo) && !document()->isUndoAvailable()) ||
                         (key->matches(QKeySequence::Redo) && !document()->isRedoAvailable());
    if (nothing) {
      event->ignore();
      return true;
    }
  }
  return QPlainTextEdit::event(event);
}

}  // namespace foxscope::gui
