#pragma once

#include <optional>
#include <set>
#include <vector>

#include <QImage>
#include <QWidget>

#include "backend/eval/atlas/atlas_reader.h"

namespace foxscope::gui::atlas {

/// Correlations of all pairs of heads as a square, heads in the order of clusters: of one model, or of a model's heads
/// (rows) and another's (columns). Names of heads stand along two sides, as many as there is room for. Hovering names a
/// pair; a click chooses the head of the column, or of the row where columns are another model's. Arrow keys step
/// through heads.
class SimilarityMap : public QWidget {
  Q_OBJECT

 public:
  explicit SimilarityMap(QWidget* parent = nullptr);
  /// @param columnNames  of another model's heads; empty: rows and columns are the same heads
  void setSimilarity(AtlasSimilarity similarity, std::vector<QString> names, std::vector<QString> columnNames = {});
  void setHead(std::optional<std::size_t> head);
  void setChosen(const std::set<std::size_t>& heads);
  /// The words of a pair: both names and r.
  [[nodiscard]] QString description(std::size_t row, std::size_t column) const;
  /// Places in the order whose names stand at the left, or below.
  [[nodiscard]] std::vector<std::size_t> namedRows() const;
  [[nodiscard]] std::vector<std::size_t> namedColumns() const;
  /// The cell of a pair of heads.
  [[nodiscard]] QRectF cell(std::size_t row, std::size_t column) const;
  [[nodiscard]] QSize minimumSizeHint() const override { return {120, 60}; }

 signals:
  void headClicked(std::size_t head);
  void hovered(const QString& words);

 protected:
  void paintEvent(QPaintEvent* event) override;
  void changeEvent(QEvent* event) override;
  void mouseMoveEvent(QMouseEvent* event) override;
  void mousePressEvent(QMouseEvent* event) override;
  void leaveEvent(QEvent* event) override;
  void keyPressEvent(QKeyEvent* event) override;

 private:
  struct Pair {
    std::size_t row = 0;  ///< heads, not places in the order
    std::size_t column = 0;
    bool operator==(const Pair&) const = default;
  };
  [[nodiscard]] std::size_t count() const { return m_similarity.order.size(); }
  [[nodiscard]] std::size_t columns() const { return m_similarity.column_order.size(); }
  [[nodiscard]] bool isWithAnother() const { return !m_columnNames.empty(); }
  [[nodiscard]] const QString& columnName(std::size_t head) const {
    return isWithAnother() ? m_columnNames[head] : m_names[head];
  }
  [[nodiscard]] float value(std::size_t row, std::size_t column) const {
    return m_similarity.values[row * columns() + column];
  }
  /// Room for the names at the left and below; none where the map is small.
  [[nodiscard]] QSize namesRoom() const;
  void paintNames(QPainter& painter) const;
  [[nodiscard]] QRectF area() const;
  [[nodiscard]] std::optional<Pair> pairAt(const QPointF& place) const;
  void colour();

  AtlasSimilarity m_similarity;
  std::vector<QString> m_names;
  std::vector<QString> m_columnNames;
  std::vector<std::size_t> m_rank;        ///< of each head in the order
  std::vector<std::size_t> m_columnRank;  ///< likewise of the columns
  QImage m_image;                         ///< a pixel a pair, in the order
  std::optional<std::size_t> m_head;
  std::set<std::size_t> m_chosen;
  std::optional<Pair> m_pair;  ///< under the mouse
};

}  // namespace foxscope::gui::atlas
