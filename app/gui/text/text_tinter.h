#pragma once

#include <memory>
#include <optional>

#include <QObject>
#include <QString>

#include "app/gui/document/runs/model_runs.h"
#include "app/gui/document/runs/run_list.h"
#include "app/gui/document/step_limits.h"
#include "app/gui/text/text_page.h"
#include "app/gui/text/text_tint.h"
#include "app/gui/text/text_tool_row.h"

namespace foxscope::gui {

/// Tints a page by what is chosen in the row of tools, and tells there its scale and what it means.
class TextTinter : public QObject {
  Q_OBJECT

 public:
  TextTinter(RunList& runs, const ModelRuns& modelRuns, TextToolRow& tools, TextPage& page);

  /// The run whose text the page shows; null: none. The tint is asked for by request().
  void setReference(std::shared_ptr<const Trace> reference) { m_reference = std::move(reference); }
  /// Has the tint that is wanted now computed.
  void request();
  void followPin();
  void followHover();
  void showScale();
  [[nodiscard]] bool isPending() const { return m_pending; }

 private:
  enum Channel { kTint };
  void takeTint(Tint tint);
  void failTint(const QString& message);
  [[nodiscard]] std::optional<TintRequest> tintRequest() const;
  [[nodiscard]] const Run* lossRun() const;
  [[nodiscard]] const Run* chosenRun(const QString& name, std::size_t otherwise) const;
  [[nodiscard]] std::optional<std::int64_t> rowQuery() const;
  /// Gives the tint the limits of all steps of a training that were shown. @returns words on them
  QString widenOverSteps(Tint& tint);
  [[nodiscard]] QString caption() const;
  [[nodiscard]] QString expertCaption(const Run& run) const;
  [[nodiscard]] QString headName() const;
  [[nodiscard]] QString placesNote() const;

  RunList& m_runs;
  const ModelRuns& m_modelRuns;
  TextToolRow& m_tools;
  TextPage& m_page;
  std::shared_ptr<const Trace> m_reference;
  StepLimits m_steps;  ///< of the colours
  bool m_pending = false;
};

}  // namespace foxscope::gui
