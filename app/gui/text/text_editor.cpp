#include "app/gui/text/text_editor.h"

#include <QMimeData>
#include <QTextCursor>

namespace foxscope::gui {
namespace {

bool continuesCharacter(char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U; }

std::string beginningOf(const std::string& content) {
  std::size_t end = kLargestEdited;
  while (end > 0 && continuesCharacter(content[end])) --end;
  return content.substr(0, end);
}

}  // namespace

TextEditor::TextEditor(QWidget* parent) : QPlainTextEdit(parent) {
  setAccessibleName(tr("Text to be run"));
  setPlaceholderText(tr("Type or paste a text, or open one (Ctrl+Shift+O), then press F5"));
  setFrameShape(QFrame::NoFrame);
  setTabChangesFocus(false);
  setLineWrapMode(QPlainTextEdit::WidgetWidth);
  connect(this, &QPlainTextEdit::textChanged, this, &TextEditor::takeEdit);
}

QString TextEditor::plainText() const {
  // toPlainText would turn no-break blanks into blanks.
  QString text = document()->toRawText();
  text.replace(QChar::ParagraphSeparator, '\n');
  return text;
}

void TextEditor::show(const std::string& content) {
  m_content = content;
  m_showing = true;
  setReadOnly(showsBeginning());
  setPlainText(QString::fromStdString(showsBeginning() ? beginningOf(content) : content));
  m_showing = false;
}

void TextEditor::setContent(const std::string& content) {
  if (content != m_content) show(content);
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
    emit refused(tr("Not pasted: the text holds a NUL character, which no run file can hold: take it out"));
    return;
  }
  const std::string bytes = pasted.toStdString();
  if (bytes.size() + m_content.size() > kLargestText) {
    emit refused(tr("Not pasted: more than %1 MB of text: cut it into parts").arg(kLargestText >> 20U));
    return;
  }
  if (bytes.size() + m_content.size() <= kLargestEdited) {
    QTextCursor cursor = textCursor();
    cursor.insertText(pasted);
    setTextCursor(cursor);
    ensureCursorVisible();
    return;
  }
  const QTextCursor cursor = textCursor();
  QString whole = plainText();
  whole.replace(cursor.selectionStart(), cursor.selectionEnd() - cursor.selectionStart(), pasted);
  show(whole.toStdString());
  emit contentEdited();
}

}  // namespace foxscope::gui
