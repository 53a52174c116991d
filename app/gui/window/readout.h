#pragma once

#include <optional>

#include <QLabel>

#include "app/gui/document/runs/run_list.h"
#include "backend/map/pair_reading.h"

namespace foxscope::gui {

/// The status bar's account of the cursor in the chosen head: positions, what they read and predict, F, A, logit,
/// difference of c, loss.
class Readout : public QLabel {
  Q_OBJECT

 public:
  explicit Readout(RunList& runs, QWidget* parent = nullptr);

 protected:
  /// Parts that there is no room for give way; the tooltip has all of them.
  void paintEvent(QPaintEvent* event) override;
  [[nodiscard]] QSize minimumSizeHint() const override { return {0, QLabel::minimumSizeHint().height()}; }

 private:
  void follow();
  void tell();
  [[nodiscard]] QString positionText(const Run& run, std::int64_t position) const;

  RunList& m_runs;
  std::optional<PairReading> m_reading;
};

}  // namespace foxscope::gui
