#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "backend/serve/admission.h"
#include "backend/serve/byte_budget.h"
#include "backend/serve/completion_answer.h"
#include "backend/serve/completion_request.h"
#include "backend/serve/http_exchange.h"
#include "backend/serve/served_model.h"

namespace foxscope {

/// Computes what a request asks for. `gone` says whether anybody still waits.
/// @returns of each prompt; nothing if nobody waits or the server stops
using Completer = std::function<std::optional<std::vector<Completion>>(const CompletionRequest& request,
                                                                       const std::function<bool()>& gone)>;

/// Bodies that are parsed and cut into tokens at the same time: that takes up to 50 times their size, and a core.
inline constexpr std::size_t kReadingBytes = std::size_t{8} << 20;
inline constexpr std::size_t kLittleReadingBytes = std::size_t{64} << 10;
/// Scores and texts of answers, from when they are begun until they are sent.
inline constexpr std::size_t kAnswersBytes = std::size_t{400} << 20;
inline constexpr std::size_t kLittleAnswerBytes = std::size_t{1} << 20;
/// A text that POST /detokenize makes.
inline constexpr std::size_t kMostTextBytes = std::size_t{16} << 20;

/// The routes and what they answer (docs/serve.md): the completions protocol of OpenAI and vLLM, and the tokenizer's.
class Endpoint {
 public:
  /// Serves nothing yet.
  explicit Endpoint(AdmissionRules rules) : admission_(std::move(rules)) {}

  /// Adds a model, before any request. A request that names no model, where it need not, means the first.
  /// @param model  of a name of its own; must outlive it
  void add(const ServedModel& model, Completer complete);

  /// Refuses a request whatever its body holds.
  [[nodiscard]] HttpAnswer check(const HttpRequest& request) const;
  /// Answers a request. From any thread.
  [[nodiscard]] HttpAnswer answer(HttpRequest request);
  /// Headers of every answer to a request: those by which a browser lets a page of an allowed origin read it (CORS).
  [[nodiscard]] std::vector<HttpHeader> headers(const HttpRequest& request) const;

 private:
  [[nodiscard]] HttpAnswer complete(HttpRequest request);
  [[nodiscard]] std::string models() const;
  [[nodiscard]] std::string tokenizer_info() const;
  [[nodiscard]] std::string tokenize(const HttpRequest& request);
  [[nodiscard]] std::string detokenize(const HttpRequest& request);
  /// @throws RefusedRequest
  void require(const HttpRequest& request) const;
  /// Waits until a body may be parsed and its texts cut into tokens.
  /// @throws RefusedRequest if nobody waits for the answer any more
  [[nodiscard]] std::shared_ptr<const void> take_for_reading(const HttpRequest& request);
  /// The model that a request to a tokenizer's route names, or the first; it has a tokenizer.
  [[nodiscard]] const ServedModel& tokenizing(const nlohmann::json& object, std::string_view path) const;

  /// The completer of one model.
  struct Served {
    Completer complete;
    TokenNames names;
  };
  Admission admission_;
  ByteBudget reading_{kReadingBytes, kLittleReadingBytes};
  ByteBudget answers_held_{kAnswersBytes, kLittleAnswerBytes};
  std::vector<const ServedModel*> models_;
  std::deque<Served> served_;  ///< of each of the models
  std::atomic<std::uint64_t> answers_ = 0;
};

}  // namespace foxscope
