#pragma once

#include <array>
#include <functional>
#include <initializer_list>
#include <optional>
#include <set>

#include <QWidget>

#include "app/figure/figure_spec.h"
#include "app/gui/atlas/gate_bars.h"
#include "app/gui/atlas/passages.h"
#include "app/gui/atlas/token_bars.h"
#include "app/gui/document/job_runner.h"

class QCheckBox;
class QComboBox;
class QLabel;
class QLineEdit;
class QTabWidget;

namespace foxscope::gui {
class ElidedLabel;
class MessagePages;
}  // namespace foxscope::gui

namespace foxscope::gui::atlas {

class PassageList;
class ResetBars;

/// All that an atlas says of one head, a tab each: tokens, passages, resets, gates. What the file does not have, or
/// what the head has none of, is a line of words.
class HeadPage : public QWidget {
  Q_OBJECT

  enum Channel { kTokenJob, kPassageJob, kResetJob, kChannels };

 public:
  explicit HeadPage(JobRunner& jobs, QWidget* parent = nullptr);

  /// @param head  nothing: none is chosen
  void setHead(const AtlasModel& model, std::optional<std::size_t> head);
  /// Heads among whose passages one may search.
  void setChosen(const std::set<std::size_t>& heads);
  /// Looks for this in passages, and shows them.
  void search(const QString& phrase);
  /// False while an answer is on its way.
  [[nodiscard]] bool isSettled() const { return m_waiting == std::array<bool, kChannels>{}; }

  enum Tab { kTokens, kPassages, kResets, kGates };
  [[nodiscard]] QTabWidget& tabs() const { return *m_tabs; }
  [[nodiscard]] QString heading() const;
  /// The line in the place of a tab's content; empty where there is content.
  [[nodiscard]] QString message(Tab tab) const;
  [[nodiscard]] TokenBars& forgets() const { return *m_forgets; }
  [[nodiscard]] TokenBars& keeps() const { return *m_keeps; }
  [[nodiscard]] PassageList& passages() const { return *m_passages; }
  [[nodiscard]] ResetBars& resets() const { return *m_resets; }
  [[nodiscard]] GateBars& gates() const { return *m_gates; }
  [[nodiscard]] QLineEdit& tokenFilter() const { return *m_filter; }
  [[nodiscard]] QCheckBox& rareTokens() const { return *m_rare; }
  [[nodiscard]] QComboBox& measure() const { return *m_measure; }
  [[nodiscard]] QLineEdit& phrase() const { return *m_phrase; }
  [[nodiscard]] QComboBox& scope() const { return *m_scope; }
  [[nodiscard]] QComboBox& kind() const { return *m_kind; }
  /// The figure of the tab that is shown, with what is chosen and looked for in it, as `foxscope figure` draws it;
  /// without the model and the file. Nothing where a line stands in its place, and for a histogram without bars.
  [[nodiscard]] std::optional<figure::FigureSpec> shownFigure() const;

 signals:
  void told(const QString& words);
  void passageWanted(const foxscope::gui::atlas::PassageRow& row);

 private:
  enum class Scope { head, chosen, all };
  struct Lists;
  struct Resets;
  [[nodiscard]] figure::FigureSpec tokensFigure() const;
  [[nodiscard]] figure::FigureSpec passagesFigure() const;
  [[nodiscard]] figure::FigureSpec gatesFigure() const;
  [[nodiscard]] static figure::FigureSpec resetsFigure(const char* of);
  [[nodiscard]] std::set<std::size_t> headsInScope() const;
  [[nodiscard]] QWidget* tokensTab();
  [[nodiscard]] QWidget* passagesTab();
  [[nodiscard]] QWidget* resetsTab();
  [[nodiscard]] QWidget* gatesTab();
  void fill();
  void fillScopes();
  void askTokens();
  void askPassages();
  void askResets();
  void takePassages(const PassageQuestion& question, PassageAnswer answer);
  /// Has an answer made; an error's line stands in the place of the tabs.
  template <typename Result>
  void ask(Channel channel, std::initializer_list<Tab> tabs, std::function<std::optional<Result>(const Job&)> work,
           std::function<void(Result)> done);
  /// Whether an answer is for the tab that is seen; else it is asked for when one of its tabs is.
  [[nodiscard]] bool isSeen(Channel channel, std::initializer_list<Tab> tabs);
  void askStale();
  /// A line in the place of tabs, and no answer any more.
  void say(Channel channel, std::initializer_list<Tab> tabs, const QString& line);
  /// The reason why the head has nothing that gates make; empty where it has.
  [[nodiscard]] QString obstacle(const QString& what) const;

  JobRunner& m_jobs;
  AtlasModel m_model;
  std::optional<std::size_t> m_head;
  std::set<std::size_t> m_chosen;
  std::array<bool, kChannels> m_waiting{};  ///< for an answer that is on its way
  std::array<bool, kChannels> m_stale{};    ///< not asked for, because its tabs are not seen
  ElidedLabel* m_heading;
  QTabWidget* m_tabs;
  QLineEdit* m_filter;
  QCheckBox* m_rare;
  QComboBox* m_measure;
  ElidedLabel* m_tokenWords;
  TokenBars* m_forgets;
  TokenBars* m_keeps;
  QLineEdit* m_phrase;
  QComboBox* m_kind;
  QComboBox* m_scope;
  ElidedLabel* m_found;
  PassageList* m_passages;
  ElidedLabel* m_resetWords;
  ResetBars* m_resets;
  QComboBox* m_histogram;
  ElidedLabel* m_gateWords;
  GateBars* m_gates;
  std::array<MessagePages*, 4> m_pages{};  ///< by Tab
};

}  // namespace foxscope::gui::atlas
