#include "app/gui/text/text_editor.h"

#include <QApplication>
#include <QClipboard>
#include <QLabel>
#include <QMimeData>
#include <QSignalSpy>
#include <QTest>
#include <QToolButton>

#include "app/gui/text/text_page.h"
#include "app/gui/text/text_tool_row.h"
#include "app/gui/text/text_view.h"
#include "tests/gui/subject.h"
#include "tests/gui/text/text_run.h"

namespace foxscope::gui::test {
namespace {

void paste(TextEditor& editor, const QString& text) {
  QApplication::clipboard()->setText(text);
  QTest::keyClick(&editor, Qt::Key_V, Qt::ControlModifier);
}

/// A text of more than the editor shows, with a character of two bytes across the edge.
std::string longText() {
  std::string text;
  while (text.size() < kLargestEdited + 1000) text += "abcdefghijklmno\n";
  return text.replace(kLargestEdited - 1, 2, "é");
}

}  // namespace

class TextEditorTest : public QObject {
  Q_OBJECT

 private slots:
  void init();
  void cleanup();
  void withoutRunsTheViewIsAnEditor();
  void typingSetsTheText();
  void pastingSetsTheText();
  void aTextThatNobodyChangesKeepsItsLineEnds();
  void noBreakBlanksStay();
  void nulIsRefused();
  void tooMuchIsRefused();
  void aLongTextShowsItsBeginning();
  void aLongPasteBecomesTheText();
  void aLongLineShowsItsBeginning();
  void filesAreLeftToTheWindow();
  void editingARunsTextSaysSo();
  void aNewRunShowsItself();

 private:
  std::unique_ptr<Document> m_document;
  std::unique_ptr<TextView> m_view;
  TextEditor* m_editor = nullptr;
};

void TextEditorTest::init() {
  m_document = std::make_unique<Document>();
  m_view = std::make_unique<TextView>(m_document->runs(), m_document->modelRuns());
  m_view->resize(600, 400);
  m_view->show();
  m_editor = m_view->findChild<TextEditor*>();
}

void TextEditorTest::cleanup() {
  m_view.reset();
  m_document.reset();
}

void TextEditorTest::withoutRunsTheViewIsAnEditor() {
  QVERIFY(m_editor->isVisible());
  QVERIFY(!m_view->findChild<TextPage*>()->isVisible());
  QCOMPARE(m_editor->placeholderText(), "Type or paste a text, or open one (Ctrl+Shift+O), then press F5");
  QVERIFY(m_view->isSettled());
}

void TextEditorTest::typingSetsTheText() {
  QSignalSpy changed(&m_document->modelRuns(), &ModelRuns::inputsChanged);
  QTest::keyClicks(m_editor, "The fox.");
  QTest::keyClick(m_editor, Qt::Key_Return);
  QCOMPARE(m_document->modelRuns().text().content, std::string("The fox.\n"));
  QVERIFY(changed.count() >= 9);
  QCOMPARE(m_editor->toPlainText(), "The fox.\n");
}

void TextEditorTest::pastingSetsTheText() {
  paste(*m_editor, "Der Fuchs 🦊 läuft.");
  QCOMPARE(m_document->modelRuns().text().content, std::string("Der Fuchs 🦊 läuft."));
}

void TextEditorTest::aTextThatNobodyChangesKeepsItsLineEnds() {
  m_document->modelRuns().setText({"/somewhere.txt", "one\r\ntwo\r\n"});
  QVERIFY(m_editor->toPlainText().startsWith("one\ntwo"));
  QCOMPARE(m_document->modelRuns().text().content, std::string("one\r\ntwo\r\n"));
  QCOMPARE(m_document->modelRuns().text().file, "/somewhere.txt");
  QTest::keyClicks(m_editor, "x");
  QCOMPARE(m_document->modelRuns().text().content, std::string("xone\ntwo\n"));
  QVERIFY(m_document->modelRuns().text().file.isEmpty());
}

void TextEditorTest::noBreakBlanksStay() {
  m_document->modelRuns().setText({{}, "10\u00a0km"});
  QTest::keyClicks(m_editor, "x");
  QCOMPARE(m_document->modelRuns().text().content, std::string("x10\u00a0km"));
}

void TextEditorTest::nulIsRefused() {
  QTest::keyClicks(m_editor, "a");
  paste(*m_editor, QString("b") + QChar(0) + "c");
  QCOMPARE(m_document->modelRuns().text().content, std::string("a"));
  auto* note = m_view->findChild<QLabel*>("editorNote");
  QVERIFY(note->isVisible());
  QCOMPARE(note->text(), "Not pasted: the text contains a NUL character, which a run file cannot store: remove it");
  QTest::keyClicks(m_editor, "d");
  QVERIFY(!note->isVisible());
}

void TextEditorTest::tooMuchIsRefused() {
  QSignalSpy refused(m_editor, &TextEditor::refused);
  paste(*m_editor, QString(static_cast<qsizetype>(kLargestText) + 1, 'a'));
  QCOMPARE(refused.count(), 1);
  QCOMPARE(refused.at(0).at(0).toString(), "Not pasted: more than 64 MB of text: cut it into parts");
  QVERIFY(m_document->modelRuns().text().empty());
}

void TextEditorTest::aLongTextShowsItsBeginning() {
  const std::string content = longText();
  m_document->modelRuns().setText({"/long.txt", content});
  QVERIFY(m_editor->isReadOnly());
  QCOMPARE(m_editor->toPlainText().size(), static_cast<qsizetype>(kLargestEdited) - 1);
  auto* note = m_view->findChild<QLabel*>("editorNote");
  QCOMPARE(note->text(), "1.0 MB of text: only the beginning is shown, but a run reads all of it.");
  QTest::keyClicks(m_editor, "x");
  QCOMPARE(m_document->modelRuns().text().content, content);
  auto* clear = note->parentWidget()->findChild<QToolButton*>(QString(), Qt::FindDirectChildrenOnly);
  QTest::mouseClick(clear, Qt::LeftButton);
  QVERIFY(m_document->modelRuns().text().empty());
  QVERIFY(!m_editor->isReadOnly());
}

void TextEditorTest::aLongPasteBecomesTheText() {
  QTest::keyClicks(m_editor, "<>");
  QTest::keyClick(m_editor, Qt::Key_Left);
  paste(*m_editor, QString::fromStdString(longText()));
  std::string whole = "<>";
  whole.insert(1, longText());
  QCOMPARE(m_document->modelRuns().text().content, whole);
  QVERIFY(m_editor->isReadOnly());
}

void TextEditorTest::aLongLineShowsItsBeginning() {
  const std::string content = "short\n" + std::string(1'000'000, 'a');
  m_document->modelRuns().setText({{}, content});
  QVERIFY(m_editor->isReadOnly());
  QCOMPARE(m_editor->toPlainText().size(), static_cast<qsizetype>(6 + kLongestEditedLine));
  QCOMPARE(m_document->modelRuns().text().content, content);
}

void TextEditorTest::filesAreLeftToTheWindow() {
  QMimeData files;
  files.setUrls({QUrl::fromLocalFile("/tmp/text.txt")});
  QDragEnterEvent enter({10, 10}, Qt::CopyAction, &files, Qt::LeftButton, Qt::NoModifier);
  QApplication::sendEvent(m_editor->viewport(), &enter);
  QVERIFY(!enter.isAccepted());
}

void TextEditorTest::editingARunsTextSaysSo() {
  const Folder folder;
  TextRun run;
  run.text = prose(50);
  run.tokens = cutIntoWords(run.text);
  QVERIFY(openRuns(*m_document, folder, {makeTextRun(run)}));
  auto* tools = m_view->findChild<TextToolRow*>();
  QVERIFY(!m_editor->isVisible());
  QCOMPARE(tools->notice(), "");
  QToolButton* edit = nullptr;
  for (auto* button : tools->findChildren<QToolButton*>()) {
    if (button->text() == "Edit text") edit = button;
  }
  QVERIFY(edit != nullptr);
  QTest::mouseClick(edit, Qt::LeftButton);
  QVERIFY(m_editor->isVisible());
  QCOMPARE(m_editor->toPlainText().toStdString(), run.text);
  QTest::keyClicks(m_editor, "More: ");
  QCOMPARE(tools->notice(), "edited: press F5 to run");
  QCOMPARE(edit->text(), "Show run");
  QTest::mouseClick(edit, Qt::LeftButton);
  QVERIFY(m_view->findChild<TextPage*>()->isVisible());
  QCOMPARE(tools->notice(), "edited: press F5 to run");
  m_document->modelRuns().setText({{}, run.text});
  QCOMPARE(tools->notice(), "");
}

void TextEditorTest::aNewRunShowsItself() {
  m_document->runs().addModel(foxModel());
  QTest::keyClicks(m_editor, "The fox ran over the hill.");
  m_document->modelRuns().startRun();
  QVERIFY(QTest::qWaitFor([&] { return !m_document->runs().empty() && !m_document->modelRuns().runStatus().running; },
                          60'000));
  auto* page = m_view->findChild<TextPage*>();
  QVERIFY(page->isVisible());
  QVERIFY(QTest::qWaitFor([&] { return m_view->isSettled() && page->textLayout() != nullptr; }, 20'000));
  QVERIFY(page->textLayout()->shape().text.endsWith("The fox ran over the hill."));
  // Edited and run again: the new text is shown.
  m_view->commands().back()->trigger();
  QVERIFY(m_editor->isVisible());
  QTest::keyClick(m_editor, Qt::Key_End, Qt::ControlModifier);
  QTest::keyClicks(m_editor, " It slept.");
  m_document->modelRuns().startRun();
  QVERIFY(QTest::qWaitFor([&] { return !m_document->modelRuns().runStatus().running && page->isVisible(); }, 60'000));
  QVERIFY(QTest::qWaitFor([&] { return m_view->isSettled() && page->textLayout() != nullptr; }, 20'000));
  QVERIFY(page->textLayout()->shape().text.endsWith("hill. It slept."));
}

}  // namespace foxscope::gui::test

FOXSCOPE_GUI_SUBJECT(text_editor, foxscope::gui::test::TextEditorTest)
#include "text_editor_test.moc"
