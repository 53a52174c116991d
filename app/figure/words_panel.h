#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "app/figure/colour_map.h"
#include "app/figure/colour_scale.h"
#include "app/figure/page/panel.h"

namespace foxscope::figure {

/// Sentences in lines as wide as there is room.
class ParagraphPanel final : public Panel {
 public:
  ParagraphPanel(const FigureFormat& format, std::string text);

  [[nodiscard]] Margins margins(const QSizeF& /*inner*/) const override { return {}; }
  [[nodiscard]] std::optional<double> heightFor(double width) const override;
  [[nodiscard]] Proportions proportions() const override { return Proportions::kept; }
  [[nodiscard]] bool hasLetter() const override { return false; }
  void draw(Canvas& canvas, const QRectF& inner) const override;

 private:
  std::string m_text;
  TextStyle m_style;
};

/// A list of tokens of a text: a number, the words before the token, and the token on a tint.
class WordsPanel final : public Panel {
 public:
  struct Word {
    std::int64_t position = 0;
    double value = 0;
    QString before;
    QString token;
  };
  struct Content {
    std::string title;
    std::string quantity;  ///< in a table of numbers, what `value` is
    std::string series;
    std::vector<Word> words;
    Rgb tint;
  };
  WordsPanel(const FigureFormat& format, Content content);

  [[nodiscard]] Margins margins(const QSizeF& inner) const override;
  [[nodiscard]] std::optional<double> heightFor(double width) const override;
  [[nodiscard]] Proportions proportions() const override { return Proportions::kept; }
  [[nodiscard]] std::string title() const override { return m_content.title; }
  [[nodiscard]] bool hasLetter() const override { return !m_content.title.empty(); }
  void draw(Canvas& canvas, const QRectF& inner) const override;
  void addNumbers(NumberTable& numbers) const override;

 private:
  Content m_content;
  TextStyle m_style;  ///< of words, without italics
  TextStyle m_titleStyle;
};

/// Places of texts, one below the other: a number, and a token in a frame between the words before and after it, each
/// on its tint. The middles of the places stand below each other, so that what surrounds them can be compared. A middle
/// is the token, or what was found near it. Where words are left out for want of room stands ….
class ConcordancePanel final : public Panel {
 public:
  struct Piece {
    QString text;
    double tint = std::numeric_limits<double>::quiet_NaN();  ///< NaN: none
    bool found = false;                                      ///< has a line below it
  };
  struct Place {
    std::string number;  ///< as it is written
    double value = 0;
    std::vector<Piece> pieces;
    std::size_t token = 0;      ///< of the pieces, that in the frame
    std::size_t middle = 0;     ///< of the pieces
    std::int64_t position = 0;  ///< of the token, in a table of numbers as all that follows
    std::vector<std::pair<std::string, std::string>> more = {};  ///< names of further columns, and what stands there
  };
  struct Content {
    std::string title;
    std::string quantity;  ///< in a table of numbers, what `value` is
    std::string series;
    std::vector<Place> places;
    ScaledColours colours;  ///< of tints
  };
  ConcordancePanel(const FigureFormat& format, Content content);

  [[nodiscard]] Margins margins(const QSizeF& inner) const override;
  [[nodiscard]] std::optional<double> heightFor(double width) const override;
  [[nodiscard]] Proportions proportions() const override { return Proportions::kept; }
  [[nodiscard]] std::string title() const override { return m_content.title; }
  [[nodiscard]] bool hasLetter() const override { return !m_content.title.empty(); }
  void draw(Canvas& canvas, const QRectF& inner) const override;
  void addNumbers(NumberTable& numbers) const override;

 private:
  /// A piece or what there is room for of it.
  struct Shown {
    std::size_t piece = 0;
    QString text;
    double gap = 0;  ///< towards the middle
    double width = 0;
  };
  /// The pieces on one side of the middle, outwards, as far as there is room.
  /// @param step  1: those behind it, -1: those before it
  [[nodiscard]] std::vector<Shown> shownBeside(const Place& place, int step, double room) const;
  void drawPiece(Canvas& canvas, const Place& place, const Shown& shown, const QRectF& box) const;

  Content m_content;
  TextStyle m_style;  ///< of words, without italics
  TextStyle m_titleStyle;
};

}  // namespace foxscope::figure
