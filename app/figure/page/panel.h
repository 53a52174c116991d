#pragma once

#include <optional>
#include <string>

#include <QRectF>
#include <QSizeF>

#include "app/figure/figure_measures.h"
#include "app/figure/page/canvas.h"
#include "app/figure/page/number_table.h"

namespace foxscope::figure {

/// The parts of an axis at an edge of a panel.
enum class AxisShown { nothing, ticks, ticksAndName };

/// A part of a page: an inner rectangle, and labels around it whose room it can say before it is drawn. Lengths are
/// points.
class Panel {
 public:
  Panel() = default;
  virtual ~Panel() = default;
  Panel(const Panel&) = delete;
  Panel& operator=(const Panel&) = delete;

  /// Room for the labels around an inner rectangle of this size.
  [[nodiscard]] virtual Margins margins(const QSizeF& inner) const = 0;
  /// The inner rectangle's width where that does not depend on the page.
  [[nodiscard]] virtual std::optional<double> fixedWidth() const { return std::nullopt; }
  /// Height for a width; nothing: that of the others in its row.
  [[nodiscard]] virtual std::optional<double> heightFor(double /*width*/) const { return std::nullopt; }
  /// Whether a chosen height of the page may change the proportions.
  enum class Proportions { free, kept };
  [[nodiscard]] virtual Proportions proportions() const { return Proportions::free; }
  /// The size that the panel uses of this room, in whole dots.
  [[nodiscard]] virtual QSizeF sizeIn(const QSizeF& room) const { return room; }
  virtual void draw(Canvas& canvas, const QRectF& inner) const = 0;

  /// Adds what `draw` draws as numbers; legends and colour bars have none.
  virtual void addNumbers(NumberTable& /*numbers*/) const {}
  /// The words above the panel; a panel without any belongs to the one above it.
  [[nodiscard]] virtual std::string title() const { return {}; }

  /// The names of the axes along the panel's lower and left edge; may be empty.
  [[nodiscard]] virtual std::string acrossName() const { return {}; }
  [[nodiscard]] virtual std::string upName() const { return {}; }
  /// The page writes them, once for several panels.
  void leaveAcrossName() { m_acrossNameLeft = true; }
  void leaveUpName() { m_upNameLeft = true; }

  /// Whether the panel is one of those that letters tell apart.
  [[nodiscard]] virtual bool hasLetter() const { return true; }
  void setLetter(const std::string& letter) { m_letter = letter; }

 protected:
  /// The title with the letter before it: "(a) Layer 2, head 1".
  [[nodiscard]] std::string lettered(const std::string& title) const {
    return m_letter.empty() || title.empty() ? m_letter + title : m_letter + "\u00a0" + title;
  }
  /// The name of the axis that the panel itself writes below, and at the left.
  [[nodiscard]] std::string ownAcrossName() const { return m_acrossNameLeft ? std::string() : acrossName(); }
  [[nodiscard]] std::string ownUpName() const { return m_upNameLeft ? std::string() : upName(); }

 private:
  std::string m_letter;
  bool m_acrossNameLeft = false;
  bool m_upNameLeft = false;
};

}  // namespace foxscope::figure
