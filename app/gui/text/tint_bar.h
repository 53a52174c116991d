#pragma once

#include <QString>
#include <QWidget>

#include "app/gui/text/text_tint.h"

namespace foxscope::gui {

/// The scale of a tint: its colours with the values at their ends, and the unit.
class TintBar : public QWidget {
  Q_OBJECT

 public:
  explicit TintBar(QWidget* parent = nullptr);

  /// @param unit  stands after the last value; may be empty
  void setScale(const TintScale& scale, const QString& unit);

  [[nodiscard]] QString lowerText() const;  ///< "0", "≤ −3.1"
  [[nodiscard]] QString upperText() const;  ///< "≥ 7.2 nats"
  [[nodiscard]] QSize sizeHint() const override;
  [[nodiscard]] QSize minimumSizeHint() const override { return sizeHint(); }

 protected:
  void paintEvent(QPaintEvent* event) override;

 private:
  TintScale m_scale;
  QString m_unit;
};

}  // namespace foxscope::gui
