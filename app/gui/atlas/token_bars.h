#pragma once

#include <cstdint>
#include <vector>

#include <QString>

#include "app/gui/atlas/row_list.h"
#include "backend/eval/atlas/atlas_tables.h"

namespace foxscope::gui::atlas {

/// One token of a head; greyed where its readings are few.
struct TokenBar {
  std::int32_t id = 0;
  QString text;
  double value = 0;   ///< of the bar: -mean log f, nats, or a share of resets
  double error = 0;   ///< NaN: not known
  double gate = 0;    ///< exp(mean log f)
  double resets = 0;  ///< share of positions with f < 1/2
  std::int64_t count = 0;
  bool discovered = false;  ///< its mean log f is beyond chance; false where the bars are of something else
  [[nodiscard]] bool isRare() const { return count < kFewestReadings; }
};

/// A list of tokens, and what its bars are drawn against.
struct TokenList {
  QString title;
  std::vector<TokenBar> bars;
  double most = 1;  ///< value of the longest bar
  double mean = 0;  ///< of the head, drawn as a line; NaN: none
  bool hasDiscoveries = false;
};

/// Tokens as bars with their counts, as many as scrolling reaches; only those in sight are painted. In a narrow list
/// tokens and bars give way, and all numbers stay. A click or Return
/// chooses one.
class TokenBars : public RowList {
  Q_OBJECT

 public:
  explicit TokenBars(QWidget* parent = nullptr);
  void setList(TokenList list);
  [[nodiscard]] const TokenList& list() const { return m_list; }
  /// The words of a row: all its numbers.
  [[nodiscard]] QString description(int row) const;
  [[nodiscard]] QSize minimumSizeHint() const override;
  /// Pixels that the title takes, which has two lines at most. Its tooltip is the whole.
  [[nodiscard]] int headingHeight() const { return titleHeight(); }
  /// The title in one line, or in two of which the second is shortened.
  [[nodiscard]] QStringList titleLines() const;
  /// The value of a bar as it is written, and the pixels that all of them have room in.
  [[nodiscard]] static QString valueOf(const TokenBar& bar);
  [[nodiscard]] int valueRoom() const;

 signals:
  void tokenChosen(const QString& text);

 protected:
  void paintEvent(QPaintEvent* event) override;
  bool viewportEvent(QEvent* event) override;

 private:
  [[nodiscard]] int count() const override { return static_cast<int>(m_list.bars.size()); }
  [[nodiscard]] int rowHeight() const override { return fontMetrics().height() + 3; }
  [[nodiscard]] int titleHeight() const override;
  [[nodiscard]] QString wordsOf(int row) const override { return description(row); }
  void choose(int row) override;
  [[nodiscard]] static QString countOf(const TokenBar& bar);
  [[nodiscard]] int countRoom() const;
  [[nodiscard]] int tokenRoom(int width) const;
  [[nodiscard]] int barRoom(int width) const;
  void paintBar(QPainter& painter, const QRect& place, const TokenBar& bar) const;

  TokenList m_list;
  QString m_longestValue;
  QString m_longestCount;
};

}  // namespace foxscope::gui::atlas
