#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <QLineEdit>
#include <QWidget>

#include "app/figure/figure_style.h"
#include "app/figure/maps/map_figure.h"

class QCheckBox;
class QComboBox;
class QFormLayout;
class QSpinBox;

namespace foxscope::gui {

/// The choices that a figure offers.
struct FigureOffer {
  struct Name {
    std::string of;   ///< what the figure calls it by itself
    QString written;  ///< instead, where the window calls it otherwise; else empty
  };
  std::vector<Name> names = {};           ///< of models or curves
  std::vector<Quantity> colourBars = {};  ///< whose limits can be chosen
  bool palette = false;
  bool legend = false;
  bool axes = false;         ///< limits of both axes
  bool trainLength = false;  ///< a line at the training length
  bool smooth = false;       ///< the width of a moving average
  bool letters = false;      ///< (a), (b)
  bool notes = false;        ///< a title, and what pixels are, around a map
};

/// Fields for what can be chosen of a figure by hand; those that do not suit it are not there. Everything is automatic
/// at first.
class FigureForm : public QWidget {
  Q_OBJECT

 public:
  explicit FigureForm(QWidget* parent = nullptr);

  /// Fields for this; the title, palette and legend that were chosen stay.
  void setOffer(const FigureOffer& offer);
  /// Gives the names of a form's fields the width that all forms below each other share.
  static void alignNames(QFormLayout& form);

  /// The typed words; a field that is empty, or absent, chooses nothing.
  [[nodiscard]] std::string title() const;
  [[nodiscard]] std::vector<std::pair<std::string, std::string>> labels() const;
  [[nodiscard]] figure::LegendPlace legend() const;
  [[nodiscard]] figure::PanelLetters letters() const;
  /// Whether the title and the notes of a map are left out.
  [[nodiscard]] bool plain() const;
  [[nodiscard]] const figure::ColourMap* colourMap() const;
  [[nodiscard]] std::optional<std::int64_t> smooth() const;
  [[nodiscard]] std::optional<std::int64_t> trainLength() const;
  /// @throws UsageError for a field that is not a number, and for axes with only one limit
  [[nodiscard]] std::vector<figure::ColourLimits> colourLimits() const;
  [[nodiscard]] std::optional<figure::AxisLimits> xLimits() const;
  [[nodiscard]] std::optional<figure::AxisLimits> yLimits() const;

 signals:
  void changed();

 private:
  struct Ends {
    QLineEdit* lower = nullptr;
    QLineEdit* upper = nullptr;
  };
  Ends addEnds(const QString& name, const QString& tip);
  [[nodiscard]] static std::optional<figure::AxisLimits> axisLimits(const Ends& ends, const QString& name);

  FigureOffer m_offer;
  QFormLayout* m_form;
  QLineEdit* m_title;
  QComboBox* m_palette;
  QComboBox* m_legend;
  QSpinBox* m_smooth;
  QSpinBox* m_trainLength;
  QCheckBox* m_letters;
  QCheckBox* m_notes;
  int m_fixedRows = 0;
  // Fields of the figure that is offered.
  std::vector<QLineEdit*> m_names;
  std::vector<Ends> m_bars;
  Ends m_x;
  Ends m_y;
};

}  // namespace foxscope::gui
