#pragma once

#include <QWidget>

class QLabel;
class QPushButton;
class QVBoxLayout;

namespace foxscope::gui {

/// What a new window shows: the demo, opening, and what was opened lately.
class StartPage : public QWidget {
  Q_OBJECT

 public:
  explicit StartPage(QWidget* parent = nullptr);
  void setRecent(const QStringList& paths);
  /// What is already there of a run, and what is missing: "Model fox. No text yet."
  void setInputs(const QString& text);
  void setDemoAvailable(bool available);

 signals:
  void demoWanted();
  void modelWanted();
  void textWanted();
  void fileWanted();
  void pathWanted(const QString& path);

 private:
  QPushButton* m_demo = nullptr;
  QVBoxLayout* m_recent = nullptr;
  QLabel* m_inputs = nullptr;
};

}  // namespace foxscope::gui
