#pragma once

#include <memory>
#include <variant>

#include <QString>

#include "backend/eval/atlas/atlas_reader.h"
#include "backend/eval/heads/heads_file.h"
#include "backend/eval/loss/loss_file.h"
#include "backend/eval/needle/needle_file.h"

namespace foxscope::gui {

/// An evaluation that was read from its file: losses of windows, a needle test, statistics of heads, or an
/// atlas, which stays in its file.
struct Evaluation {
  QString path;  ///< or URL of a file on another machine, of which a copy was read
  std::variant<std::shared_ptr<const LossEvaluation>, std::shared_ptr<const NeedleEvaluation>,
               std::shared_ptr<const HeadsEvaluation>, std::shared_ptr<const AtlasReader>>
      content;
  bool ofSession = false;  ///< opened with a session, whose window says what is in front

  template <typename Kind>
  [[nodiscard]] const Kind* as() const {
    const auto* held = std::get_if<std::shared_ptr<const Kind>>(&content);
    return held != nullptr ? held->get() : nullptr;
  }
};

}  // namespace foxscope::gui
