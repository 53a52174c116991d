#pragma once

#include <vector>

#include <QStringList>
#include <QWidget>

#include "app/gui/document/autosave.h"

class QHBoxLayout;
class QLabel;
class QPushButton;
class QVBoxLayout;

namespace foxscope::gui {

/// The first page of a new window: questions that the demo answers, below pictures of the answers, opening, and what
/// was opened lately. The demo has the keyboard first, so that Return opens it.
class StartPage : public QWidget {
  Q_OBJECT

 public:
  explicit StartPage(QWidget* parent = nullptr);
  void setRecent(const QStringList& paths);
  /// Offers, before all else, the work of windows that ended without being closed.
  void setLeft(const std::vector<foxscope::gui::LeftWork>& works);
  /// Sets the text on a run's inputs that are there and those that are missing: "No text yet: ..."
  void setInputs(const QString& text);
  /// @param demo  its session file, beside which those of the questions lie; empty: there is none
  void setDemo(const QString& demo);

 signals:
  void demoWanted();
  void modelWanted();
  void textWanted();
  void fileWanted();
  void tourWanted();
  void pathWanted(const QString& path);
  void continueWanted(const QString& session);
  void discardWanted(const QString& session);
  void questionAsked(const QString& session);

 protected:
  void showEvent(QShowEvent* event) override;

 private:
  void addQuestions(QVBoxLayout& column);
  void addButtons(QVBoxLayout& column);

  QWidget* m_column;
  QHBoxLayout* m_questions;
  QPushButton* m_demo = nullptr;
  QPushButton* m_tour = nullptr;
  QVBoxLayout* m_left = nullptr;
  QVBoxLayout* m_recent = nullptr;
  QLabel* m_inputs = nullptr;
};

}  // namespace foxscope::gui
