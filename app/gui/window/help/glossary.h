#pragma once

#include <QDialog>
#include <QString>

class QListWidget;
class QTextBrowser;

namespace foxscope::gui {

/// The terms of the window with their equations (resources/help/glossary.html).
class Glossary : public QDialog {
  Q_OBJECT

 public:
  explicit Glossary(QWidget* parent = nullptr);
  /// Goes to an entry by its anchor; one that does not exist leaves everything as it is.
  void show(const QString& term);
  using QDialog::show;
  [[nodiscard]] QStringList terms() const;
  /// The entry shown; empty at first.
  [[nodiscard]] QString term() const;

 private:
  QListWidget* m_list;
  QTextBrowser* m_text;
};

/// The entry that speaks of a widget: its `whatsThis`, or that of the nearest parent that has one; of a dock, of what
/// it holds. Empty where there is none.
QString termOf(const QWidget* widget);
/// The entry that speaks of what is at a place of the screen: the `whatsThis` of the widget there, of the column of a
/// table's header, or of the nearest parent that has one. Empty where there is none.
QString termAt(const QPoint& globalPosition);

}  // namespace foxscope::gui
