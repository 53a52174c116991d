#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "backend/base/job.h"

namespace foxscope::agent {

/// Progress as it travels: in messages, and in the lines that a command under an agent writes.
nlohmann::json progress_json(const Progress& progress);

/// Holds the words of progress that the other side said.
class SaidProgress {
 public:
  /// @throws ProtocolError for anything else than progress_json makes
  explicit SaidProgress(const nlohmann::json& json);
  /// @returns progress whose words are valid as long as this object
  [[nodiscard]] Progress progress() const;

 private:
  Progress numbers_;
  std::string unit_;
  std::string stage_;
};

}  // namespace foxscope::agent
