#pragma once

#include <memory>
#include <optional>

#include <QComboBox>
#include <QLabel>
#include <QLineEdit>
#include <QTableView>
#include <QToolButton>

#include "app/gui/document/file_writer.h"
#include "app/gui/document/runs/model_runs.h"
#include "app/gui/document/runs/run_list.h"
#include "app/gui/views/message_pages.h"
#include "app/gui/views/view_part.h"
#include "app/gui/words/word_table.h"
#include "backend/eval/surprisal/trace_surprisal.h"

class QMimeData;

namespace foxscope::gui {

/// The words of the chosen head's run as a table: what each costs that run and the others that are shown, what was
/// expected in its place, and how its tokens are gated. The row that is chosen is the pinned query of all views, and
/// the word that is pinned there is the row that is seen here.
class WordsView : public QWidget, public ViewPart {
  Q_OBJECT

 public:
  WordsView(RunList& runs, ModelRuns& modelRuns, FileWriter& files, QWidget* parent = nullptr);

  [[nodiscard]] QTableView& table() { return *m_list; }
  [[nodiscard]] QLineEdit& filter() { return *m_filter; }
  [[nodiscard]] QComboBox& rule() { return *m_rule; }
  /// The line instead of the table; empty while that is shown.
  [[nodiscard]] QString message() const { return m_pages->message(); }
  /// The content that Ctrl+C copies: the chosen rows, all where none is chosen.
  [[nodiscard]] QMimeData* copied() const;
  /// Writes all words as `foxscope eval surprisal --words` does, in the background.
  void exportTo(const QString& path);

  [[nodiscard]] QJsonObject saveState() const override;
  void restoreState(const QJsonObject& state) override;
  [[nodiscard]] QList<QAction*> commands() const override { return m_commands; }
  [[nodiscard]] bool isSettled() const override { return !isVisible() || m_fresh; }

 protected:
  void showEvent(QShowEvent* event) override;
  bool eventFilter(QObject* watched, QEvent* event) override;

 private:
  /// The tokens that a run expected, which hold for every head and are computed once.
  struct Expected {
    TokenDistributions distributions;
    std::vector<std::string> token;  ///< [L] the likeliest
    std::vector<double> share;       ///< [L] its p
  };
  struct Known {
    std::weak_ptr<const Trace> trace;
    std::shared_ptr<const Expected> expected;  ///< null: not yet
  };
  /// Another run whose surprisals stand beside those of the chosen head's.
  struct OtherRun {
    QString name;
    std::shared_ptr<const Trace> trace;
  };
  enum Channel { kRows, kExpectedTokens };

  [[nodiscard]] QWidget* makeTools();
  void makeTable();
  void makeCommands();
  void outdate();
  void refresh();
  void requestExpected(const Run& run);
  /// The content of the table, on another thread.
  [[nodiscard]] static std::shared_ptr<const WordRows> makeRows(const HeadOf& head, const QString& run, WordRule rule,
                                                                const Expected* expected,
                                                                const std::vector<OtherRun>& others,
                                                                std::optional<std::pair<int, int>> difference);
  void layColumns();
  void takeRows(std::shared_ptr<const WordRows> rows);
  void showMessage(const QString& message);
  void showCount();
  void chooseRow(const QModelIndex& index);
  void followPin();
  [[nodiscard]] WordRule wordRule() const;
  void exportShown();

  RunList& m_runs;
  ModelRuns& m_modelRuns;
  FileWriter& m_files;
  WordTable m_words;
  QLineEdit* m_filter;
  QComboBox* m_rule;
  QLabel* m_count;
  QToolButton* m_export;
  QTableView* m_list;
  MessagePages* m_pages;
  QList<QAction*> m_commands;
  Known m_known;
  RunId m_run = kNoRun;                  ///< of what is shown
  std::optional<std::int64_t> m_ownPin;  ///< the query that a row was chosen for
  bool m_following = false;
  bool m_fresh = false;
};

}  // namespace foxscope::gui
