// Any bytes as what a client sends on a connection, and as the body of a request.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "backend/serve/endpoint.h"
#include "backend/serve/http_exchange.h"

namespace {

using foxscope::Completion;
using foxscope::CompletionRequest;
using foxscope::ServedModel;

/// What came is all that comes.
class Bytes final : public foxscope::ByteStream {
 public:
  explicit Bytes(std::string_view bytes) : bytes_(bytes) {}
  ssize_t read(char* into, std::size_t most) override {
    const std::size_t size = std::min(most, bytes_.size());
    std::memcpy(into, bytes_.data(), size);
    bytes_.remove_prefix(size);
    return static_cast<ssize_t>(size);
  }
  ssize_t write(const char* bytes, std::size_t size) override {
    answer.append(bytes, size);
    return static_cast<ssize_t>(size);
  }
  bool gone() override { return false; }
  [[nodiscard]] bool left() const { return !bytes_.empty(); }

  std::string answer;

 private:
  std::string_view bytes_;
};

/// Scores of a model for which all tokens are equal.
std::optional<std::vector<Completion>> complete(const CompletionRequest& request, const ServedModel& model) {
  std::vector<Completion> completions;
  for (const std::vector<std::int32_t>& prompt : request.prompts) {
    Completion& one = completions.emplace_back();
    one.prompt.resize(prompt.size());
    const auto added = static_cast<std::size_t>(std::min<std::int64_t>(request.max_tokens, 3));
    one.ids.assign(added, model.bos);
    one.added.resize(added);
    for (auto* scores : {&one.prompt, &one.added}) {
      for (foxscope::ScoredPosition& score : *scores) {
        score.log_probability = -1;
        score.top = {{0, -1}};
      }
    }
  }
  return completions;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const ServedModel model = {"m", 64, 0, {0}, 128, nullptr};
  static foxscope::Endpoint endpoint({.names = {"a"}, .origins = {"https://page.example"}, .token = ""});
  static const foxscope::HttpExchange exchange(
      {[](const foxscope::HttpRequest& head) { return endpoint.check(head); },
       [](const foxscope::HttpRequest& whole) { return endpoint.answer(whole); },
       [](const foxscope::HttpRequest& head) { return endpoint.headers(head); }});
  static const bool added = [] {
    endpoint.add(model, [](const CompletionRequest& request, const auto&) { return complete(request, model); });
    return true;
  }();
  static_cast<void>(added);
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  Bytes connection(input);
  while (exchange.serve(connection) && connection.left()) {
  }
  const foxscope::HttpRequest request{.method = "POST",
                                      .path = "/v1/completions",
                                      .body = std::string(input),
                                      .content_type = "application/json",
                                      .gone = [] { return false; }};
  const foxscope::HttpAnswer answer = endpoint.answer(request);
  if (answer.status == 500 || !nlohmann::json::accept(answer.body)) std::abort();
  return 0;
}
