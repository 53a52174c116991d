#pragma once

#include <optional>

#include <QJsonObject>
#include <QString>

#include "app/figure/colour_map.h"
#include "app/figure/maps/map_figure.h"
#include "backend/map/distance_axis.h"
#include "backend/map/map.h"

namespace foxscope::gui {

/// A head by the name of its run, which outlives a run's number: of a session, of a run that is made again.
struct NamedHead {
  QString run;
  int layer = 0;
  int head = 0;
  bool operator==(const NamedHead&) const = default;
};

/// Which of two heads a pane shows: its own (left), the other one (right), both beside a dividing line, or one minus
/// the other.
enum class Sides { left, right, splitVertically, splitHorizontally, difference };

/// The choices by hand of a pane's colours; an absent one follows from the quantity and its values
/// (figure::chooseColours).
struct ColourState {
  std::optional<figure::ColourMapName> map;
  std::optional<figure::ColourScale> scale;
  std::optional<double> lower;
  std::optional<double> upper;
  std::optional<double> blankBelow;
  bool operator==(const ColourState&) const = default;

  [[nodiscard]] figure::ColourChoice choice() const;
};

/// The state of a pane, beside the range and the head that the views share.
struct PaneState {
  std::optional<NamedHead> own;  ///< absent: the head that is chosen in the window
  Quantity quantity = Quantity::forget;
  std::optional<Reduction> reduction;     ///< absent: by quantity
  FirstKey firstKey = FirstKey::counted;  ///< as it was chosen; counts for attention alone
  Sides sides = Sides::left;
  std::optional<NamedHead> other;  ///< absent: the nearest in another run, or that of equal number
  double split = 0.5;              ///< place of the dividing line, share of the width or height
  std::optional<MapAxes> axes;     ///< absent: by the decay times of the heads (default_axes)
  ColourState colours;
  bool operator==(const PaneState&) const = default;

  [[nodiscard]] Reduction effectiveReduction() const;
  /// Left out only where the quantity is of attention.
  [[nodiscard]] FirstKey effectiveFirstKey() const;
  /// Entries of both signs: colours diverge from zero.
  [[nodiscard]] bool hasSigns() const;
  /// Whether all entries are above zero, so that a logarithmic scale is possible.
  [[nodiscard]] bool allowsLogarithm() const;
  [[nodiscard]] figure::ColourScale effectiveScale() const;
  /// Sets another quantity: limits and scale of the old one mean nothing to it.
  void setQuantity(Quantity wanted);
  /// Differences have other limits than what they are made of.
  void setSides(Sides wanted);
  /// Sets whether key 0 counts. Many heads park there, which hides all else: limits by hand belong to the one or to the
  /// other.
  void setFirstKey(FirstKey wanted);

  [[nodiscard]] QJsonObject toJson() const;
  /// Takes over what is there and makes sense.
  static PaneState fromJson(const QJsonObject& json);
};

/// Names for people: "attention A", "max".
QString nameOf(Quantity quantity);
/// "A", "F": where there is little room.
QString shortNameOf(Quantity quantity);
QString nameOf(Reduction reduction);
QString nameOf(figure::ColourMapName map);

}  // namespace foxscope::gui
