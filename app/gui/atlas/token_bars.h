#pragma once

#include <cstdint>
#include <vector>

#include <QAbstractScrollArea>
#include <QString>

namespace foxscope::gui::atlas {

/// Tokens that were read fewer times are greyed: a mean over few readings says little.
inline constexpr std::int64_t kFewReadings = 30;

/// One token of a head.
struct TokenBar {
  std::int32_t id = 0;
  QString text;
  double value = 0;   ///< of the bar: -mean log f, nats, or a share of resets
  double error = 0;   ///< NaN: not known
  double gate = 0;    ///< exp(mean log f)
  double resets = 0;  ///< share of positions with f < 1/2
  std::int64_t count = 0;
  bool discovered = false;
  [[nodiscard]] bool isRare() const { return count < kFewReadings; }
};

/// What a list of tokens shows.
struct TokenList {
  QString title;
  std::vector<TokenBar> bars;
  double most = 1;  ///< value of the longest bar
  double mean = 0;  ///< of the head, drawn as a line; NaN: none
  bool hasDiscoveries = false;
};

/// Tokens as bars with their counts, as many as scrolling reaches; only those in sight are painted. A click or Return
/// chooses one.
class TokenBars : public QAbstractScrollArea {
  Q_OBJECT

 public:
  explicit TokenBars(QWidget* parent = nullptr);
  void setList(TokenList list);
  [[nodiscard]] const TokenList& list() const { return m_list; }
  /// The words of a row: all its numbers.
  [[nodiscard]] QString description(int row) const;
  [[nodiscard]] QSize minimumSizeHint() const override;

 signals:
  void tokenChosen(const QString& text);
  void hovered(const QString& words);

 protected:
  void paintEvent(QPaintEvent* event) override;
  void resizeEvent(QResizeEvent* event) override;
  void changeEvent(QEvent* event) override;
  void mouseMoveEvent(QMouseEvent* event) override;
  void mouseReleaseEvent(QMouseEvent* event) override;
  void leaveEvent(QEvent* event) override;
  void keyPressEvent(QKeyEvent* event) override;

 private:
  [[nodiscard]] int rowHeight() const;
  [[nodiscard]] int titleHeight() const { return fontMetrics().height() + 4; }
  [[nodiscard]] int rowAt(const QPointF& place) const;
  [[nodiscard]] int count() const { return static_cast<int>(m_list.bars.size()); }
  void paintBar(QPainter& painter, const QRect& place, const TokenBar& bar) const;
  void followSize();
  void point(int row);
  void choose(int row);

  TokenList m_list;
  int m_row = -1;  ///< under the mouse, or where the keys went
};

}  // namespace foxscope::gui::atlas
