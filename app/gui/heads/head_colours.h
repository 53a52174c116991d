#pragma once

#include <optional>
#include <vector>

#include <QColor>
#include <QString>

#include "app/figure/colour_map.h"
#include "app/gui/document/head_table.h"

namespace foxscope::gui {

/// The content of the grid's cells: a quantity, its difference from the nearest head of another run, small pictures of
/// F or of A, or the strongest label.
struct HeadColouring {
  enum class Kind { quantity, difference, forgetPicture, attentionPicture, label };
  Kind kind = Kind::quantity;
  HeadQuantity quantity = HeadQuantity::rateDecayTime;
  RunId other = kNoRun;  ///< of a difference: whose heads are subtracted
  RunId of = kNoRun;     ///< of a difference: the first other run, from whose heads the grid of `other` subtracts
  bool operator==(const HeadColouring&) const = default;
  /// The quantity of the pictures; nothing where there are none.
  [[nodiscard]] std::optional<Quantity> picture() const {
    if (kind == Kind::forgetPicture) return Quantity::forget;
    return kind == Kind::attentionPicture ? std::optional(Quantity::attention) : std::nullopt;
  }
};

/// Colours of values on a scale that all runs share: viridis, logarithmic where a quantity spreads over decades and is
/// positive throughout, from 0 to 1 where it is a share; diverging and centred at zero for differences.
class HeadColours {
 public:
  /// @param values  all that are shown; NaN and infinite ones do not shape the scale
  /// @param diverging  the colours of differences, as divergingColours(palette) has them
  HeadColours(const HeadColouring& colouring, const std::vector<double>& values,
              const figure::ColourMap& diverging = figure::diverging());

  [[nodiscard]] bool empty() const { return !(m_upper > m_lower); }
  [[nodiscard]] bool logarithmic() const { return m_logarithmic; }
  [[nodiscard]] double lower() const { return m_lower; }
  [[nodiscard]] double upper() const { return m_upper; }
  /// Transparent for NaN; an infinite value has the upper end's colour.
  [[nodiscard]] QColor colour(double value) const;
  /// Colour at a place of the legend, 0 to 1.
  [[nodiscard]] QColor at(double place) const;
  /// Values to label the legend with, and their places.
  struct Tick {
    double place = 0;
    QString text;
  };
  [[nodiscard]] std::vector<Tick> ticks() const;

 private:
  [[nodiscard]] double placeOf(double value) const;

  bool m_diverging = false;
  const figure::ColourMap* m_map;
  bool m_logarithmic = false;
  double m_lower = 0;
  double m_upper = 0;
};

}  // namespace foxscope::gui
