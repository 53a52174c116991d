#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include <QString>

#include "app/figure/colour_map.h"
#include "app/figure/page/axis_ticks.h"
#include "app/figure/page/panel.h"

namespace foxscope::figure {

/// A token of a vocabulary, or a class of tokens, and what is known of it.
struct TokenBar {
  std::int32_t id = -1;  ///< in the vocabulary
  QString token;
  double value = 0;
  double error = std::numeric_limits<double>::quiet_NaN();  ///< NaN: not known
  std::int64_t count = 0;                                   ///< readings that the value is a mean of
  bool certain = true;                                      ///< else it is grey
  /// The value by chance, and how likely as much is.
  struct Chance {
    double value = 0;
    double spread = 0;  ///< standard deviation
    double p = 1;
  };
  std::optional<Chance> chance = {};  ///< a mark with its spread; p stands in the place of the count
};

/// Bars from 0 across, one below the other: the token at the left, its count at the right.
class TokenBarsPanel final : public Panel {
 public:
  struct Content {
    std::vector<TokenBar> bars;
    std::string title;
    std::string across;          ///< name of the axis
    std::string series;          ///< in a table of numbers
    std::optional<double> mark;  ///< a dashed line at this value, where the axis reaches it
    Rgb colour;
  };
  TokenBarsPanel(const FigureFormat& format, Content content);

  [[nodiscard]] Margins margins(const QSizeF& inner) const override;
  [[nodiscard]] std::optional<double> heightFor(double width) const override;
  [[nodiscard]] Proportions proportions() const override { return Proportions::kept; }
  [[nodiscard]] std::string acrossName() const override { return m_content.across; }
  [[nodiscard]] std::string title() const override { return m_content.title; }
  [[nodiscard]] bool hasLetter() const override { return !m_content.title.empty(); }
  void draw(Canvas& canvas, const QRectF& inner) const override;
  void addNumbers(NumberTable& numbers) const override;
  /// Whether the axis reaches the mark.
  [[nodiscard]] bool hasMark() const { return m_content.mark && *m_content.mark <= m_upper; }

 private:
  [[nodiscard]] Ticks ticks(double width) const;
  [[nodiscard]] QString shown(const QString& token) const;
  [[nodiscard]] double position(double value) const { return value / m_upper; }

  Content m_content;
  TextStyle m_style;
  TextStyle m_tokenStyle;  ///< without italics
  double m_upper = 0;
};

}  // namespace foxscope::figure
