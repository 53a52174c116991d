// Any bytes as a file that the window opens; where that is a session, it is read whole and written down again.
#include <cstdint>
#include <variant>

#include <QString>

#include "app/gui/document/opened_path.h"
#include "app/gui/document/session.h"
#include "backend/base/error.h"
#include "tests/fuzz/memory_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static MemoryFile file;
  file.fill(data, size);
  try {
    const foxscope::gui::OpenedContent content = foxscope::gui::openPath(QString::fromStdString(file.path()), {});
    if (const auto* opened = std::get_if<foxscope::gui::OpenedSession>(&content)) {
      const auto session = foxscope::gui::Session::fromJson(opened->session, "/folder");
      static_cast<void>(session.toJson("/folder"));
      static_cast<void>(foxscope::gui::SelectionState::fromJson(session.selection));
    }
  } catch (const foxscope::Error&) {
    // What a user would be told.
  }
  return 0;
}
