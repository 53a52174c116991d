#include "backend/serve/endpoint.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <exception>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "backend/base/log.h"
#include "backend/serve/refused_request.h"
#include "backend/serve/request_json.h"

namespace foxscope {
namespace {

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
  return {refusal.status(), error_answer(refusal.status(), refusal.code(), refusal.what()), {}};
}

/// Whether two strings are equal, in a time that does not say where they differ.
bool equal_in_constant_time(std::string_view given, std::string_view expected) {
  std::size_t difference = given.size() ^ expected.size();
  for (std::size_t n = 0; n < given.size(); ++n) {
    difference |= static_cast<unsigned char>(given[n]) ^
                  static_cast<std::size_t>(static_cast<unsigned char>(expected[n % expected.size()]));
  }
  return difference == 0;
}

RefusedRequest without_tokenizer(std::string_view path) {
  return {404, "not_found", fmt::format("{}: the model has no tokenizer", path)};
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

Endpoint::Endpoint(const ServedModel& model, std::string token, Completer complete) : token_(std::move(token)) {
  add(model, std::move(complete));
}

void Endpoint::add(const ServedModel& model, Completer complete) {
  models_.push_back(&model);
  served_.push_back({std::move(complete), TokenNames(model)});
}

bool Endpoint::admits(const HttpRequest& request) const {
  constexpr std::string_view kScheme = "Bearer ";
  if (token_.empty() || request.path == "/health") return true;
  if (!request.authorization.starts_with(kScheme)) return false;
  return equal_in_constant_time(std::string_view(request.authorization).substr(kScheme.size()), token_);
}

HttpAnswer Endpoint::check(const HttpRequest& request) const {
  if (!admits(request)) {
    return refused({401, "unauthorized", "Authorization: expected \"Bearer TOKEN\" with the server's token"});
  }
  const Route* route = route_of(request.path);
  if (route == nullptr) {
    return refused({404, "not_found", fmt::format("{}: there is no such path", shown_text(request.path))});
  }
  const bool head = request.method == "HEAD" && route->method == "GET";
  if (request.method != route->method && !head) {
    HttpAnswer answer =
        refused({405, "method_not_allowed",
                 fmt::format("{}: {} is not allowed, {} is", route->path, request.method, route->method)});
    answer.allow = route->method == "GET" ? "GET, HEAD" : "POST";
    return answer;
  }
  const bool of_tokenizer =
      route->page == Page::tokenizer_info || route->page == Page::tokenize || route->page == Page::detokenize;
  const bool needs_first = route->page == Page::tokenizer_info && models_.front()->tokenizer == nullptr;
  const bool none = std::ranges::all_of(models_, [](const ServedModel* model) { return model->tokenizer == nullptr; });
  if (needs_first || (of_tokenizer && none)) return refused(without_tokenizer(route->path));
  return {};
}

HttpAnswer Endpoint::answer(const HttpRequest& request) {
  if (HttpAnswer checked = check(request); checked.status != 200) return checked;
  try {
    switch (route_of(request.path)->page) {
      case Page::completions:
        return {200, complete(request), {}};
      case Page::models:
        return {200, models(), {}};
      case Page::tokenizer_info:
        return {200, tokenizer_info(), {}};
      case Page::tokenize:
        return {200, tokenize(request.body), {}};
      case Page::detokenize:
        return {200, detokenize(request.body), {}};
      case Page::health:
        return {200, R"({"status":"ok"})", {}};
    }
  } catch (const RefusedRequest& refusal) {
    return refused(refusal);
  } catch (const std::exception& error) {
    log_line(LogCategory::model, [&] { return fmt::format("{}: failed: {}", request.path, error.what()); });
    return refused({500, "internal_error", fmt::format("the server failed at this request: {}", error.what())});
  }
  return refused({500, "internal_error", "the server failed at this request"});
}

std::string Endpoint::complete(const HttpRequest& request) {
  const auto now = std::chrono::system_clock::now();
  const json object = read_request_object(request.body);
  const ServedModel& model = model_named(object, models_);
  const CompletionRequest asked = read_completion_request(object, model);
  Served& served = served_[static_cast<std::size_t>(std::ranges::find(models_, &model) - models_.begin())];
  const auto completions = served.complete(asked, request.gone);
  if (!completions) throw RefusedRequest(503, "stopped", "the work was dropped: the server is being stopped");
  const auto created = std::chrono::duration_cast<std::chrono::seconds>(now.time_since_epoch()).count();
  const std::string id = fmt::format("cmpl-{:x}-{:x}", created, answers_.fetch_add(1));
  return completion_answer(asked, *completions, model, served.names, id, created);
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

std::string Endpoint::tokenize(const std::string& body) const {
  const json object = read_request_object(body);
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
  std::vector<std::int32_t> ids = ids_of_text(prompt.get<std::string>(), model);
  if (special.get<bool>()) ids.insert(ids.begin(), model.bos);
  return ordered_json{{"tokens", ids}, {"count", ids.size()}, {"max_model_len", model.max_length}}.dump();
}

std::string Endpoint::detokenize(const std::string& body) const {
  const json object = read_request_object(body);
  refuse_other_fields(object, {"model", "tokens"});
  const ServedModel& model = tokenizing(object, "/detokenize");
  const json& tokens = field_of(object, "tokens");
  if (!tokens.is_array()) {
    throw RefusedRequest(400, "invalid_value", fmt::format("tokens: expected a list of ids, got {}", shown(tokens)));
  }
  std::vector<std::int32_t> ids = ids_of_list(tokens, "tokens", model);
  for (std::size_t n = 0; n < ids.size(); ++n) {
    if (ids[n] < model.tokenizer->vocabulary_size()) continue;
    throw RefusedRequest(400, "token_out_of_range", fmt::format("tokens[{}]: {} has no text", n, ids[n]));
  }
  return ordered_json{{"prompt", replace_invalid_utf8(model.tokenizer->decode(ids))}}.dump();
}

}  // namespace foxscope
