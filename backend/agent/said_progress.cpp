#include "backend/agent/said_progress.h"

#include <vector>

#include "backend/agent/fields.h"

namespace foxscope::agent {

nlohmann::json progress_json(const Progress& progress) {
  return {{"done", progress.done}, {"total", progress.total}, {"unit", progress.unit}, {"stage", progress.stage}};
}

SaidProgress::SaidProgress(const nlohmann::json& json) {
  const std::vector<Part> none;
  FieldReader reader(json, none);
  reader("done", numbers_.done);
  reader("total", numbers_.total);
  reader("unit", unit_);
  reader("stage", stage_);
}

Progress SaidProgress::progress() const { return {numbers_.done, numbers_.total, unit_, stage_}; }

}  // namespace foxscope::agent
