#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "backend/serve/completion_answer.h"
#include "backend/serve/completion_request.h"
#include "backend/serve/http_exchange.h"
#include "backend/serve/served_model.h"

namespace foxscope {

/// Computes what a request asks for. `gone` says whether anybody still waits.
/// @returns of each prompt; nothing if nobody waits or the server stops
using Completer = std::function<std::optional<std::vector<Completion>>(const CompletionRequest& request,
                                                                       const std::function<bool()>& gone)>;

/// The routes and what they answer (docs/serve.md): the completions protocol of OpenAI and vLLM, and the tokenizer's.
class Endpoint {
 public:
  /// @param model  must outlive it
  /// @param token  that clients must send as `Authorization: Bearer TOKEN`; empty: none
  Endpoint(const ServedModel& model, std::string token, Completer complete);

  /// What refuses a request whatever its body says.
  [[nodiscard]] HttpAnswer check(const HttpRequest& request) const;
  /// From any thread.
  [[nodiscard]] HttpAnswer answer(const HttpRequest& request);

 private:
  [[nodiscard]] std::string complete(const HttpRequest& request);
  [[nodiscard]] std::string models() const;
  [[nodiscard]] std::string tokenizer_info() const;
  [[nodiscard]] std::string tokenize(const std::string& body) const;
  [[nodiscard]] std::string detokenize(const std::string& body) const;
  [[nodiscard]] bool admits(const HttpRequest& request) const;

  const ServedModel& model_;
  std::string token_;
  Completer complete_;
  TokenNames names_;
  std::atomic<std::uint64_t> answers_ = 0;
};

}  // namespace foxscope
