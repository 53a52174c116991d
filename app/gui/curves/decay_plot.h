#pragma once

#include <optional>
#include <vector>

#include <QPointF>
#include <QWidget>

#include "app/gui/curves/decay_spectrum.h"

class QCPAxisRect;
class QCPCurve;
class QCPGraph;
class QCustomPlot;

namespace foxscope::gui::curves {

/// Decay times of all heads: a column of dots for every layer and run. Hovering names a head, a click or the arrow keys
/// choose it. Where channels decay each by itself, a line goes from a head's fastest channel to its slowest, and the
/// spectrum of the head that is hovered or chosen is drawn on it, a mark a channel.
class DecayPlot : public QWidget {
  Q_OBJECT

 public:
  explicit DecayPlot(QWidget* parent);
  ~DecayPlot() override;

  void setSpectra(std::vector<DecaySpectrum> spectra);
  void setChosen(const HeadChoice& head);
  [[nodiscard]] const std::vector<DecaySpectrum>& spectra() const { return m_spectra; }
  /// The head under the mouse.
  [[nodiscard]] const std::optional<HeadDecay>& hovered() const { return m_hovered; }
  /// Where a head's dot is in this widget; nothing for one that is not drawn.
  [[nodiscard]] std::optional<QPointF> dotOf(const HeadChoice& head) const;

 signals:
  void hoveredChanged();
  void headClicked(const foxscope::gui::HeadChoice& head);

 protected:
  void mouseMoveEvent(QMouseEvent* event) override;
  void mousePressEvent(QMouseEvent* event) override;
  void leaveEvent(QEvent* event) override;
  void keyPressEvent(QKeyEvent* event) override;
  void changeEvent(QEvent* event) override;
  void paintEvent(QPaintEvent* event) override;
  void focusInEvent(QFocusEvent* event) override;
  void focusOutEvent(QFocusEvent* event) override;

 private:
  struct Dot {
    HeadDecay head;
    double x = 0;  ///< coordinate, its shift included
  };
  void restyle();
  void redraw();
  void placeDots();
  void placeRings();
  [[nodiscard]] const Dot* dotAt(const QPointF& place) const;
  [[nodiscard]] const Dot* find(const HeadChoice& head) const;
  void setHovered(const std::optional<HeadDecay>& head);

  QCustomPlot* m_plot;
  QCPAxisRect* m_rect;
  std::vector<QCPGraph*> m_graphs;  ///< by spectrum
  std::vector<QCPCurve*> m_ranges;  ///< by spectrum: from a head's fastest channel to its slowest
  QCPGraph* m_channels;             ///< those of the head that is hovered, else of the chosen one
  QCPGraph* m_ring;                 ///< the chosen head
  QCPGraph* m_hoverRing;
  std::vector<DecaySpectrum> m_spectra;
  std::vector<Dot> m_dots;
  HeadChoice m_chosen;
  std::optional<HeadDecay> m_hovered;
};

}  // namespace foxscope::gui::curves
