#pragma once

#include <QSignalSpy>

#include "app/gui/document/document.h"
#include "backend/base/atomic_file.h"
#include "backend/file/run_file.h"
#include "tests/file/synthetic_trace.h"
#include "tests/gui/support.h"

namespace foxscope::gui::test {

/// What the messages of a document say.
inline QStringList textsOf(const QSignalSpy& messages) {
  QStringList texts;
  for (const auto& arguments : messages) texts += arguments.at(0).value<Message>().text;
  return texts;
}

/// Writes a synthetic run to a file of a folder. @returns its path
inline QString writeRun(const Folder& folder, const QString& name, const foxscope::test::SyntheticRun& run) {
  const std::shared_ptr<const Trace> traces[] = {foxscope::test::make_trace(run)};
  write_run_file(folder.path(name).toStdString(), traces, {"foxscope", ""}, Overwrite::force, {});
  return folder.path(name);
}

}  // namespace foxscope::gui::test
