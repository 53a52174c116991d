#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "backend/base/job.h"
#include "backend/model/session/engine.h"

namespace foxscope {

/// The options of `foxscope serve`.
struct ServeRequest {
  std::vector<ModelRequest> models;  ///< of different names, at least one
  std::string host = "127.0.0.1";
  int port = 8080;  ///< 0: a free one
  /// Each device has a copy of every model, and a request goes to the device with the fewest active prompts. None: one
  /// copy of each model, on the device of its request.
  std::vector<DeviceChoice> devices;
  std::optional<std::int64_t> max_length;  ///< positions of a text, BOS included; none: the configs'
  std::string token;                       ///< that clients must show; empty: none, for this machine's own only
  std::vector<std::string> origins;        ///< of web pages that may use it; none: no pages
};

/// Loads models and answers requests for them over HTTP until the job is stopped (docs/serve.md).
/// @param listening  called with the address once requests are answered
/// @throws Error and UsageError with the remedy
void serve(const ServeRequest& request, const std::function<void(const std::string& url)>& listening, const Job& job);

}  // namespace foxscope
