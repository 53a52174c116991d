#pragma once

#include "app/gui/curves/decay_spectrum.h"
#include "app/gui/curves/tabs/curve_tab.h"

namespace foxscope::gui::curves {

class DecayPlot;

/// How long every head of every run remembers.
class DecayTab : public CurveTab {
  Q_OBJECT

 public:
  DecayTab(RunList& runs, const ModelRuns& modelRuns, QWidget* parent);

  [[nodiscard]] QString data() const override;
  /// Dots are no curves: there is no figure.
  [[nodiscard]] std::optional<figure::CurveFigure> figure() const override { return std::nullopt; }

 protected:
  void refresh() override;
  void restyle() override;
  void showReading() override;
  [[nodiscard]] bool plotIsSettled() const override { return true; }

 private:
  void take(std::vector<DecaySpectrum> spectra);

  DecayPlot* m_plot;
  std::vector<DecaySpectrum> m_spectra;  ///< those that are hidden too
};

}  // namespace foxscope::gui::curves
