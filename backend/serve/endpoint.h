#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

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
  /// Serves nothing yet.
  /// @param token  that clients must send as `Authorization: Bearer TOKEN`; empty: none
  explicit Endpoint(std::string token) : token_(std::move(token)) {}
  /// Serves one model.
  Endpoint(const ServedModel& model, std::string token, Completer complete);

  /// One model more, before any request. The first is meant where a request need not name one and does not.
  /// @param model  of a name of its own; must outlive it
  void add(const ServedModel& model, Completer complete);

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
  /// The model that a request to a tokenizer's route names, or the first; it has a tokenizer.
  [[nodiscard]] const ServedModel& tokenizing(const nlohmann::json& object, std::string_view path) const;

  /// What answers for one model.
  struct Served {
    Completer complete;
    TokenNames names;
  };
  std::string token_;
  std::vector<const ServedModel*> models_;
  std::deque<Served> served_;  ///< of each of the models
  std::atomic<std::uint64_t> answers_ = 0;
};

}  // namespace foxscope
