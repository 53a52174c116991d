#include "app/gui/application.h"
#include "backend/base/error.h"

namespace foxscope::gui {

int openWindow(const ApplicationOptions& /*options*/) {
  throw Error("open: this build has no window: configure with -DFOXSCOPE_GUI=ON and Qt 6, or use the other commands");
}

}  // namespace foxscope::gui
