#pragma once

#include <QString>

namespace foxscope::gui {

class Document;

/// Writes the runs on the text shown as one HTML file (app/page) in the background, the chosen head's run first. The
/// page opens at the chosen head and the pinned pair; beside that head it has those that `foxscope page` chooses. It
/// names the command that makes it where one run file holds all of its runs.
void exportPage(Document& document, const QString& path);

}  // namespace foxscope::gui
