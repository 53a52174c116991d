#include "backend/serve/endpoint.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <chrono>
#include <exception>
#include <iterator>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "backend/base/index.h"
#include "backend/base/log.h"
#include "backend/serve/refused_request.h"
#include "backend/serve/request_json.h"

namespace foxscope {
namespace {

/// Bytes that a score takes in memory and in the text of its answer.
constexpr std::size_t kBytesOfNumber = 100;

using nlohmann::json;
using nlohmann::ordered_json;

enum class Page { completions, models, tokenizer_info, tokenize, detokenize, health };
struct Route {
  std::string_view path;
  std::string_view method;
  Page page;
};
constexpr std::array<Route, 6> kRoutes = {{
    {"/v1/completions", "POST", Page::completions},
    {"/v1/models", "GET", Page::models},
    {"/tokenizer_info", "GET", Page::tokenizer_info},
    {"/tokenize", "POST", Page::tokenize},
    {"/detokenize", "POST", Page::detokenize},
    {"/health", "GET", Page::health},
}};

const Route* route_of(std::string_view path) {
  const auto found = std::ranges::find(kRoutes, path, &Route::path);
  return found == kRoutes.end() ? nullptr : &*found;
}

HttpAnswer refused(const RefusedRequest& refusal) {
  return {.status = refusal.status(), .body = error_answer(refusal.status(), refusal.code(), refusal.what())};
}

RefusedRequest without_tokenizer(std::string_view path) {
  return {404, "not_found", fmt::format("{}: the model has no tokenizer", path)};
}

/// Whether a Content-Type header names JSON.
bool is_json(std::string_view type) {
  constexpr std::string_view kJson = "application/json";
  const std::string_view name = type.substr(0, type.find(';'));
  const std::string_view bare = name.substr(0, name.find_last_not_of(" \t") + 1);
  return std::ranges::equal(bare, kJson,
                            [](unsigned char given, char wanted) { return std::tolower(given) == wanted; });
}

/// A field that must be there.
const json& field_of(const json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end()) throw RefusedRequest(400, "missing_field", fmt::format("{}: the field is missing", name));
  return *found;
}

void refuse_other_fields(const json& object, std::initializer_list<std::string_view> known) {
  for (const auto& [name, value] : object.items()) {
    if (std::ranges::find(known, name) != known.end()) continue;
    throw RefusedRequest(400, "unknown_field", fmt::format("{}: there is no such field", shown_text(name)));
  }
}

ordered_json token_text(const ServedModel& model, std::int32_t id) {
  if (id >= model.tokenizer->vocabulary_size()) return nullptr;
  return replace_invalid_utf8(model.tokenizer->token_bytes(id));
}

}  // namespace

void Endpoint::add(const ServedModel& model, Completer complete) {
  models_.push_back(&model);
  served_.push_back({std::move(complete), TokenNames(model)});
}

void Endpoint::require(const HttpRequest& request) const {
  admission_.require(request);
  if (admission_.is_preflight(request)) return;
  const Route* route = route_of(request.path);
  if (route == nullptr) {
    throw RefusedRequest(404, "not_found", fmt::format("{}: there is no such path", shown_text(request.path)));
  }
  const bool head = request.method == "HEAD" && route->method == "GET";
  if (request.method != route->method && !head) {
    throw RefusedRequest(405, "method_not_allowed",
                         fmt::format("{}: {} is not allowed, {} is", route->path, request.method, route->method));
  }
  // A page of any site may send other types without being asked about it.
  if (route->method == "POST" && !is_json(request.content_type)) {
    throw RefusedRequest(415, "unsupported_media_type",
                         fmt::format("Content-Type: expected application/json, got {}",
                                     request.content_type.empty() ? "none" : shown_text(request.content_type)));
  }
  const bool of_tokenizer =
      route->page == Page::tokenizer_info || route->page == Page::tokenize || route->page == Page::detokenize;
  const bool needs_first = route->page == Page::tokenizer_info && models_.front()->tokenizer == nullptr;
  const bool none = std::ranges::all_of(models_, [](const ServedModel* model) { return model->tokenizer == nullptr; });
  if (needs_first || (of_tokenizer && none)) throw without_tokenizer(route->path);
}

std::vector<HttpHeader> Endpoint::headers(const HttpRequest& request) const {
  const std::string origin = admission_.allowed_origin(request);
  if (origin.empty()) return {};
  return {{"Access-Control-Allow-Origin", origin},
          {"Access-Control-Allow-Methods", "GET, POST"},
          {"Access-Control-Allow-Headers", "Authorization, Content-Type, *"},
          {"Access-Control-Max-Age", "600"},
          {"Vary", "Origin"}};
}

HttpAnswer Endpoint::check(const HttpRequest& request) const {
  try {
    require(request);
  } catch (const RefusedRequest& refusal) {
    HttpAnswer answer = refused(refusal);
    const Route* route = refusal.status() == 405 ? route_of(request.path) : nullptr;
    if (route != nullptr) answer.allow = route->method == "GET" ? "GET, HEAD" : "POST";
    return answer;
  }
  return {};
}

HttpAnswer Endpoint::answer(HttpRequest request) {
  if (HttpAnswer checked = check(request); checked.status != 200) return checked;
  if (admission_.is_preflight(request)) return {.status = 200, .body = "{}"};
  try {
    switch (route_of(request.path)->page) {
      case Page::completions:
        return complete(std::move(request));
      case Page::models:
        return {.status = 200, .body = models()};
      case Page::tokenizer_info:
        return {.status = 200, .body = tokenizer_info()};
      case Page::tokenize:
        return {.status = 200, .body = tokenize(request)};
      case Page::detokenize:
        return {.status = 200, .body = detokenize(request)};
      case Page::health:
        return {.status = 200, .body = R"({"status":"ok"})"};
    }
  } catch (const RefusedRequest& refusal) {
    return refused(refusal);
  } catch (const std::exception& error) {
    log_line(LogCategory::model, [&] { return fmt::format("{}: failed: {}", request.path, error.what()); });
    return refused({500, "internal_error", fmt::format("the server failed at this request: {}", error.what())});
  }
  return refused({500, "internal_error", "the server failed at this request"});
}

std::shared_ptr<const void> Endpoint::take_for_reading(const HttpRequest& request) {
  auto share = reading_.take(request.body.size(), request.gone);
  if (share == nullptr) throw dropped_request();
  return share;
}

HttpAnswer Endpoint::complete(HttpRequest request) {
  const auto now = std::chrono::system_clock::now();
  const ServedModel* model = nullptr;
  CompletionRequest asked;
  {
    const auto share = take_for_reading(request);
    const json object = read_request_object(std::exchange(request.body, {}));
    model = &model_named(object, models_);
    asked = read_completion_request(object, *model, request.gone);
  }
  const auto numbers = static_cast<std::size_t>(numbers_in_answer(asked, *model));
  auto held = answers_held_.take(numbers * kBytesOfNumber, request.gone);
  if (held == nullptr) throw dropped_request();
  Served& served = served_[index_of(std::ranges::find(models_, model) - models_.begin())];
  const auto completions = served.complete(asked, request.gone);
  if (!completions) throw dropped_request();
  const auto created = std::chrono::duration_cast<std::chrono::seconds>(now.time_since_epoch()).count();
  const std::string id = fmt::format("cmpl-{:x}-{:x}", created, answers_.fetch_add(1));
  return {.status = 200,
          .body = completion_answer(asked, *completions, *model, served.names, id, created),
          .held = std::move(held)};
}

std::string Endpoint::models() const {
  ordered_json list = ordered_json::array();
  for (const ServedModel* model : models_) {
    list.push_back({{"id", model->name},
                    {"object", "model"},
                    {"created", 0},
                    {"owned_by", "foxscope"},
                    {"max_model_len", model->max_length}});
  }
  return ordered_json{{"object", "list"}, {"data", std::move(list)}}.dump();
}

std::string Endpoint::tokenizer_info() const {
  const ServedModel& model = *models_.front();
  return ordered_json{{"tokenizer_class", "PreTrainedTokenizerFast"},
                      {"bos_token", token_text(model, model.bos)},
                      {"eos_token", model.ends.empty() ? ordered_json() : token_text(model, model.ends.front())},
                      {"pad_token", nullptr},
                      {"chat_template", nullptr}}
      .dump();
}

const ServedModel& Endpoint::tokenizing(const json& object, std::string_view path) const {
  const ServedModel& model = object.contains("model") ? model_named(object, models_) : *models_.front();
  if (model.tokenizer == nullptr) throw without_tokenizer(path);
  return model;
}

std::string Endpoint::tokenize(const HttpRequest& request) {
  const auto share = take_for_reading(request);
  const json object = read_request_object(request.body);
  refuse_other_fields(object, {"model", "prompt", "add_special_tokens"});
  const ServedModel& model = tokenizing(object, "/tokenize");
  const json& prompt = field_of(object, "prompt");
  if (!prompt.is_string()) {
    throw RefusedRequest(400, "invalid_value", fmt::format("prompt: expected a string, got {}", shown(prompt)));
  }
  const json special = object.value("add_special_tokens", json(true));
  if (!special.is_boolean()) {
    throw RefusedRequest(400, "invalid_value",
                         fmt::format("add_special_tokens: expected true or false, got {}", shown(special)));
  }
  const TextIds text = ids_of_text(prompt.get_ref<const std::string&>(), model, request.gone);
  std::string answer = "{\"tokens\":[";
  std::size_t count = 0;
  const auto put = [&](std::int32_t id) {
    fmt::format_to(std::back_inserter(answer), "{}{}", count++ > 0 ? "," : "", id);
  };
  if (special.get<bool>()) put(model.bos);
  for (const std::int32_t id : text.ids) put(id);
  fmt::format_to(std::back_inserter(answer), "],\"count\":{},\"max_model_len\":{}}}", count, model.max_length);
  return answer;
}

std::string Endpoint::detokenize(const HttpRequest& request) {
  const auto share = take_for_reading(request);
  const json object = read_request_object(request.body);
  refuse_other_fields(object, {"model", "tokens"});
  const ServedModel& model = tokenizing(object, "/detokenize");
  const json& tokens = field_of(object, "tokens");
  if (!tokens.is_array()) {
    throw RefusedRequest(400, "invalid_value", fmt::format("tokens: expected a list of ids, got {}", shown(tokens)));
  }
  std::vector<std::int32_t> ids = ids_of_list(tokens, "tokens", model);
  std::size_t bytes = 0;
  for (std::size_t n = 0; n < ids.size(); ++n) {
    if (ids[n] >= model.tokenizer->vocabulary_size()) {
      throw RefusedRequest(400, "token_out_of_range", fmt::format("tokens[{}]: {} has no text", n, ids[n]));
    }
    bytes += model.tokenizer->token_bytes(ids[n]).size();
  }
  if (bytes > kMostTextBytes) {
    throw RefusedRequest(
        400, "invalid_value",
        fmt::format("tokens: their text has {} bytes, at most {} are made; send fewer at once", bytes, kMostTextBytes));
  }
  return ordered_json{{"prompt", replace_invalid_utf8(model.tokenizer->decode(ids))}}.dump();
}

}  // namespace foxscope
