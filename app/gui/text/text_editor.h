#pragma once

#include <string>

#include <QPlainTextEdit>

namespace foxscope::gui {

/// Largest text, and longest line, that are edited here; of longer ones the beginning is shown. In bytes: Qt takes more
/// than half a minute to lay out a line of a megabyte.
inline constexpr std::size_t kLargestEdited = 1U << 20U;
inline constexpr std::size_t kLongestEditedLine = 1U << 14U;
/// Largest text that is taken, as when a file is opened.
inline constexpr std::size_t kLargestText = 64U << 20U;

/// The text that is to be run, to be typed and pasted. Line ends and blanks of a text that nobody changed stay as they
/// were; after a change all line ends are "\n".
class TextEditor : public QPlainTextEdit {
  Q_OBJECT

 public:
  explicit TextEditor(QWidget* parent = nullptr);

  /// Shows a text, UTF-8; does nothing where it is shown already.
  void setContent(const std::string& content);
  [[nodiscard]] const std::string& content() const { return m_content; }
  /// The text is too long to be edited: its beginning is shown, read only.
  [[nodiscard]] bool showsBeginning() const { return m_showsBeginning; }

 signals:
  /// The user changed the text; content() is the new one.
  void contentEdited();
  /// A long text was pasted, which the editor cannot undo; content() is the new one.
  void contentReplaced();
  /// A paste was refused for this reason, one line.
  void refused(const QString& reason);

 protected:
  bool event(QEvent* event) override;
  [[nodiscard]] bool canInsertFromMimeData(const QMimeData* source) const override;
  void insertFromMimeData(const QMimeData* source) override;

 private:
  void takeEdit();
  void display(const std::string& content);
  [[nodiscard]] QString plainText() const;

  std::string m_content;
  bool m_showsBeginning = false;
  bool m_showing = false;  // a change that the user did not make
};

}  // namespace foxscope::gui
