#pragma once

#include <memory>
#include <string>

#include <QString>
#include <QStringList>

#include "app/gui/document/selection.h"
#include "app/gui/document/telling_head.h"
#include "backend/trace/trace.h"

namespace foxscope::gui {

/// One run that the window holds: a model on the document's text, made here or read from a run file.
struct Run {
  RunId id = kNoRun;
  QString name;  ///< differs between the runs of a document
  std::shared_ptr<const Trace> trace;
  QString model = {};  ///< folder or hub id that it was made from; empty where it comes from a file
  QString file = {};   ///< run file that it comes from, or was saved to
  double forwardSeconds = 0;
  QString base = {};         ///< name of the run that it is a changed copy of; empty: none
  TellingHead telling = {};  ///< the head to look at first
};

/// A checkpoint that runs are made from, and what is changed in it while it runs.
struct ModelInput {
  QString name;                    ///< differs between the models of a document
  QString path;                    ///< folder or hub id
  QStringList interventions = {};  ///< as on the command line, LAYER:HEAD:KIND
  QString base = {};               ///< name of the model that it was changed from; empty: none
  bool operator==(const ModelInput&) const = default;
};

/// The text that is to be read, as it stands in the text's own panel.
struct TextInput {
  QString file;         ///< where it came from; empty where it was typed, pasted or changed
  std::string content;  ///< what will be read, UTF-8
  [[nodiscard]] bool empty() const { return content.empty(); }
  bool operator==(const TextInput&) const = default;
};

/// How models are run.
struct RunSettings {
  std::int64_t limit = 0;  ///< first N tokens; 0: all
  QString device = QStringLiteral("auto");
  QString dtype = QStringLiteral("auto");
  bool keepQueryKey = true;  ///< false: gates and loss only, no attention maps
  bool operator==(const RunSettings&) const = default;
};

/// How far the runs are, for the progress bar.
struct RunStatus {
  bool running = false;
  QString model;  ///< the one that runs now
  int index = 0;  ///< its place among them
  int count = 0;
  QString stage;            ///< what it does
  double fraction = 0;      ///< of this model's work in this stage, 0 to 1; negative: not known
  double secondsLeft = -1;  ///< negative: not known
};

/// Something that the user should know, shown in the window's message bar.
struct Message {
  enum class Kind { note, warning, error };
  Kind kind = Kind::note;
  QString text;  ///< one line: what, where, what to do
};

}  // namespace foxscope::gui
