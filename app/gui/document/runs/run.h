#pragma once

#include <memory>
#include <optional>
#include <string>

#include <QFileInfo>
#include <QString>
#include <QStringList>

#include "app/gui/document/representative_head.h"
#include "app/gui/document/selection.h"
#include "backend/base/device_name.h"
#include "backend/trace/dtype.h"
#include "backend/trace/trace.h"

namespace foxscope {
struct ModelRequest;
}

namespace foxscope::gui {

/// The name and colour by which the window and figures show a run, and whether it is hidden, while it is open.
struct RunLook {
  QString label = {};   ///< name that was given by hand; empty: that of the model
  int colour = -1;      ///< of figure::curveColour; -1: none yet
  int change = 0;       ///< n: the n-th changed copy of a model, in that model's colour with another line
  bool hidden = false;  ///< neither in curves nor in comparisons
  bool operator==(const RunLook&) const = default;
};

/// A checkpoint that runs are made from, and what is changed in it while it runs.
struct ModelInput {
  QString name;                    ///< differs between the models of a list
  QString path;                    ///< folder or hub id
  QStringList interventions = {};  ///< as on the command line, LAYER:HEAD:KIND
  QString base = {};               ///< name of the model that it was changed from; empty: none
  RunLook look = {};               ///< its run's, which may not be made yet
  QString training = {};           ///< folder of the training that it is a checkpoint of; empty: of none
  QString device = {};             ///< of a model on another machine: the device there, as --device; empty: auto
  bool operator==(const ModelInput&) const = default;
};

/// One run that the window holds: a model on a text, made here or read from a run file.
struct Run {
  RunId id = kNoRun;
  QString name;  ///< as it is shown: differs between the runs of a list (RunList::runNamed)
  std::shared_ptr<const Trace> trace;
  QString model = {};  ///< folder or hub id that it was made from; empty where it comes from a file
  QString file = {};   ///< run file that it comes from, or was saved to
  double forwardSeconds = 0;
  QString base = {};                       ///< plainName of the run that it is a changed copy of; empty: none
  RepresentativeHead representative = {};  ///< the head to look at first
  int text = 0;                            ///< runs of an equal number read the same text; 0: not known yet
  bool ofSession = false;                  ///< made by opening a session, or saved with one: opening it makes it again
  bool saliencyLost = false;               ///< which does not bring its saliency back
  RunLook look = {};                       ///< the same as its model's, where that is there
  QString created = {};                    ///< of its file: when, and by which version
  QString command = {};                    ///< of its file: what made it
  std::shared_ptr<const std::string> ids = {};  ///< the token ids that it read, as their file has them; null: a text
  QString textFile = {};  ///< that the text came from that it read; empty: typed, or the run comes from a file
  QString textName = {};  ///< of a text that came from no file and was not typed: TextInput::name
  QString host = {};      ///< machine on which its arrays lie and are computed with; empty: this one
  QString kept = {};      ///< run file that a session keeps for itself of a run that is in no other; empty: none

  /// The model's name in the run itself.
  [[nodiscard]] QString plainName() const { return QString::fromStdString(trace->info().name); }
  /// "fox · first", of a file first.h5: distinguishes runs whose models have one name.
  [[nodiscard]] QString nameWithFile() const {
    return QStringLiteral("%1 · %2").arg(plainName(), QFileInfo(file).completeBaseName());
  }
  [[nodiscard]] bool isOf(const ModelInput& input) const { return model == input.path && plainName() == input.name; }
};

/// The text that is to be read, as it stands in the text's own panel.
struct TextInput {
  QString file;         ///< where it came from; empty where it was typed, pasted or changed
  std::string content;  ///< what will be read, UTF-8
  bool ids = false;     ///< it is a JSON file of token ids, as `foxscope run --ids` reads it
  QString name = {};    ///< of a text from no file that was not typed: "moby.txt, tokens 1,024 to 1,279"
  [[nodiscard]] bool empty() const { return content.empty(); }
  bool operator==(const TextInput&) const = default;
};

/// How models are run.
struct RunSettings {
  std::int64_t limit = 0;  ///< first N tokens; 0: all
  DeviceChoice device;
  std::optional<DType> dtype;  ///< none: float32 on a CPU, bfloat16 on a GPU
  bool keepQueryKey = true;    ///< false: gates and loss only, no attention maps
  bool operator==(const RunSettings&) const = default;

  /// A model that is to run so.
  [[nodiscard]] ModelRequest requestOf(const QString& name, const QString& model) const;
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

/// A file that is being written, for its progress bar.
struct ExportStatus {
  QString path;
  QString stage;            ///< what is done; empty: it waits for the one before it
  double fraction = -1;     ///< of the stage, 0 to 1; negative: not known
  double secondsLeft = -1;  ///< negative: not known
};

/// Models that would take much memory: asked before they run.
struct MemoryQuestion {
  std::int64_t tokens = 0;  ///< of the longest run
  double needed = 0;        ///< bytes, about
  double free = 0;          ///< bytes
  std::int64_t fewer = 0;   ///< as many tokens take a share that nobody need be asked about; 0: there are none
};

/// Work that would be lost if everything was closed now.
struct Unsaved {
  QStringList runs;   ///< names of those that are in no file, or their saliency is not
  QStringList parts;  ///< what of each: "the run fox, 4.1 s to compute"
  bool text = false;  ///< a text that was typed, pasted or changed, and is in no file
  [[nodiscard]] bool empty() const { return runs.isEmpty() && !text; }
};

/// A message to the user, shown in the window's message bar.
struct Message {
  enum class Kind { note, warning, error };
  Kind kind = Kind::note;
  QString text;  ///< one line: what, where, what to do
};

}  // namespace foxscope::gui
