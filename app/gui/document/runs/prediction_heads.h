#pragma once

#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "backend/eval/predictions/output_head.h"

namespace foxscope::gui {

/// The heads of the models that made runs, for predictions. From any thread; the heads that were asked for last stay
/// open.
class PredictionHeads {
 public:
  explicit PredictionHeads(const Engine& engine) : m_engine(engine) {}

  /// The head of the model that made a run, of the first of these checkpoints that did; null where none of them did, or
  /// the job was stopped.
  /// @param models  folders or hub ids; one that cannot be opened made nothing
  std::shared_ptr<const OutputHead> find(const Trace& run, const std::vector<std::string>& models, const Job& job);

 private:
  struct Known {
    std::string key;
    std::shared_ptr<const OutputHead> head;
  };

  Engine m_engine;
  std::mutex m_mutex;
  std::list<Known> m_known;  ///< the latest first
};

}  // namespace foxscope::gui
