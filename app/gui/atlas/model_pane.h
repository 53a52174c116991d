#pragma once

#include <optional>
#include <set>

#include <QWidget>

#include "app/gui/atlas/head_page.h"
#include "app/gui/atlas/head_scatter.h"
#include "app/gui/document/runs/run_list.h"

class QComboBox;
class QListWidget;
class QSplitter;
class QTabWidget;

namespace foxscope::gui::atlas {

class ColourStrip;
class SimilarityMap;

/// One model of an atlas: its heads as a scatter and as a map of similarity, those that are chosen, and the page of one
/// head. Both halves stand beside each other, or one above the other where the pane is narrow; where neither leaves
/// room for them, the page is a tab behind the maps.
class ModelPane : public QWidget {
  Q_OBJECT

 public:
  explicit ModelPane(RunList& runs, QWidget* parent = nullptr);

  /// @param head  that is shown; nothing: none
  void setModel(const AtlasModel& model, std::optional<std::size_t> head);
  [[nodiscard]] const AtlasModel& model() const { return m_model; }
  void setScatter(const ScatterContent& content);
  /// A line in the scatter's place.
  void setObstacle(const QString& words);
  /// Shows a head, without a word to others.
  void setHead(std::optional<std::size_t> head);
  [[nodiscard]] std::optional<std::size_t> head() const { return m_head; }
  void setChosen(const std::set<std::size_t>& heads);
  [[nodiscard]] const std::set<std::size_t>& chosen() const { return m_chosen; }

  [[nodiscard]] HeadScatter& scatter() const { return *m_scatter; }
  [[nodiscard]] SimilarityMap& similarity() const { return *m_similarity; }
  /// The number that heads are compared by, of AtlasFacts::similarities.
  [[nodiscard]] QComboBox& compared() const { return *m_kind; }
  [[nodiscard]] QTabWidget& maps() const { return *m_maps; }
  [[nodiscard]] HeadPage& page() const { return *m_page; }
  /// Whether the page of the head is a tab behind the maps.
  [[nodiscard]] bool pageIsTab() const;
  /// A place in the tab of the scatter, above it, that flows in rows; at first empty.
  [[nodiscard]] QWidget& scatterBar() const { return *m_scatterBar; }
  [[nodiscard]] QListWidget& list() const { return *m_list; }
  /// The line in the place of the scatter, or of the map of similarity; empty where that is shown.
  [[nodiscard]] QString message(int tab) const;
  [[nodiscard]] bool isSettled() const { return !m_waiting && m_page->isSettled(); }

 signals:
  void headChosen(std::size_t head);
  void headsChosen(const std::set<std::size_t>& heads);
  void told(const QString& words);
  /// The page of the head has become a tab, or is none any more.
  void pageMoved();
  void passageWanted(const foxscope::gui::atlas::PassageRow& row);

 protected:
  void resizeEvent(QResizeEvent* event) override;

 private:
  enum Channel { kSimilarity };
  void choose(std::size_t head);
  void arrange();
  void askSimilarity();
  [[nodiscard]] const AtlasFacts& firstFacts() const;
  [[nodiscard]] QString similarityTitle(const std::string& kind) const;

  RunList& m_runs;
  AtlasModel m_model;
  std::optional<std::size_t> m_head;
  std::set<std::size_t> m_chosen;
  bool m_waiting = false;
  QSplitter* m_split;
  QTabWidget* m_maps;
  QWidget* m_scatterBar;
  HeadScatter* m_scatter;
  SimilarityMap* m_similarity;
  QComboBox* m_kind;
  ColourStrip* m_colours;
  ColourStrip* m_correlations;
  QListWidget* m_list;
  HeadPage* m_page;
  std::array<MessagePages*, 2> m_pages{};
};

}  // namespace foxscope::gui::atlas
