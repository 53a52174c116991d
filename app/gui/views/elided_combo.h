#pragma once

#include <QComboBox>

namespace foxscope::gui {

/// A box whose text loses its middle where there is no room for it; styles cut it off in the middle of a letter. With
/// the policy AdjustToContents it is as wide as the chosen text, of which it shows a name's length at most: other boxes
/// are as wide as their widest text, although it may never be chosen.
class ElidedCombo : public QComboBox {
 public:
  explicit ElidedCombo(QWidget* parent = nullptr);

  [[nodiscard]] QSize sizeHint() const override;
  [[nodiscard]] QSize minimumSizeHint() const override;

 protected:
  void paintEvent(QPaintEvent* event) override;
};

}  // namespace foxscope::gui
