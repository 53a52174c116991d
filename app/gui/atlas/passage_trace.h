#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <QObject>

#include "app/gui/atlas/passages.h"
#include "app/gui/document/runs/model_runs.h"
#include "app/gui/document/runs/run_list.h"

namespace foxscope::gui::atlas {

/// Whether a run is one of an atlas's model: by its weights and changes, or by its name where either is not known.
bool isOf(const Run& run, const AtlasFacts& facts);

/// Opens the traces of passages: the run of the model on the passage's window where it is open, else one that is made,
/// as F5 makes it. The head is chosen, and the pair of the place p and the key before it pinned, whose F is f of p.
class PassageTrace : public QObject {
  Q_OBJECT

 public:
  PassageTrace(RunList& runs, ModelRuns& modelRuns, QObject* parent = nullptr);

  void open(const AtlasModel& model, const PassageRow& row);
  /// False until the trace is shown, or a line has said why it is not.
  [[nodiscard]] bool isSettled() const { return !m_wanted && !m_reading; }
  /// The passage of a model that was shown last and whose run is open; nothing: none is.
  [[nodiscard]] std::optional<PassagePlace> opened(const AtlasModel& model) const;

 signals:
  void told(const QString& words);
  void openedChanged();

 private:
  enum Channel { kWindow };
  struct Window;
  struct Wanted {
    AtlasModel model;
    std::size_t head = 0;
    std::int64_t window = 0;
    std::int64_t position = 0;
    std::vector<std::int32_t> ids;  ///< of the window
  };
  void take(const Wanted& wanted, const Window& window);
  /// Shows the wanted trace where it is open. @returns whether it is
  bool show();
  void followRuns();

  RunList& m_runs;
  ModelRuns& m_modelRuns;
  std::optional<Wanted> m_wanted;
  std::optional<Wanted> m_opened;
  RunId m_openedRun = kNoRun;
  bool m_reading = false;
};

}  // namespace foxscope::gui::atlas
