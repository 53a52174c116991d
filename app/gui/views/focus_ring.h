#pragma once

#include <QObject>
#include <QPointer>
#include <QWidget>

namespace foxscope::gui {

/// An outline around the widget that has the keyboard, outside of it, so that it is not taken for a button that is
/// switched on. It is there while keys are used, and goes with a click of the mouse. One serves all windows.
class FocusRing : public QObject {
  Q_OBJECT

 public:
  static constexpr int kWidth = 2;  ///< logical pixels, outside of the widget

  explicit FocusRing(QObject* parent = nullptr);
  ~FocusRing() override;
  /// The outline on the screen; null: there is none.
  [[nodiscard]] QWidget* outline() const { return m_outline; }

 protected:
  bool eventFilter(QObject* watched, QEvent* event) override;

 private:
  void follow();
  void place();

  QPointer<QWidget> m_focus;    ///< that is outlined
  QPointer<QWidget> m_outline;  ///< lies over its window, and goes with it
  bool m_byKeys = false;        ///< the last thing that somebody did was to press a key
};

}  // namespace foxscope::gui
