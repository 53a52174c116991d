#include "backend/serve/completion_request.h"

#include <algorithm>
#include <array>
#include <functional>
#include <utility>

#include <fmt/format.h>

#include "backend/serve/refused_request.h"
#include "backend/serve/request_json.h"

namespace foxscope {
namespace {

using nlohmann::json;

constexpr int kMostLogprobs = 20;
constexpr std::size_t kMostPrompts = 4096;
/// Numbers in one answer: positions, each with its likeliest tokens.
constexpr std::int64_t kMostNumbers = std::int64_t{1} << 23;

[[noreturn]] void refuse_value(const std::string& field, const std::string& expected, const json& value) {
  throw RefusedRequest(400, "invalid_value", fmt::format("{}: expected {}, got {}", field, expected, shown(value)));
}

std::int64_t integer_of(const json& value, const std::string& field, const std::string& expected, std::int64_t least,
                        std::int64_t most) {
  const bool fits = value.is_number_integer() &&
                    (!value.is_number_unsigned() || value.get<std::uint64_t>() <= static_cast<std::uint64_t>(most));
  if (!fits || value.get<std::int64_t>() < least || value.get<std::int64_t>() > most) {
    refuse_value(field, expected, value);
  }
  return value.get<std::int64_t>();
}

void read_max_tokens(const json& value, CompletionRequest& request) {
  request.max_tokens =
      integer_of(value, "max_tokens", "an integer of at least 0", 0, std::numeric_limits<std::int64_t>::max() / 2);
}

void read_temperature(const json& value, CompletionRequest& request) {
  if (!value.is_number() || !(value.get<double>() >= 0) || value.get<double>() > 2) {
    refuse_value("temperature", "a number from 0 to 2", value);
  }
  request.temperature = value.get<double>();
}

void read_top_p(const json& value, CompletionRequest& request) {
  if (!value.is_number() || !(value.get<double>() > 0) || value.get<double>() > 1) {
    refuse_value("top_p", "a number above 0 and at most 1", value);
  }
  request.top_p = value.get<double>();
}

void read_seed(const json& value, CompletionRequest& request) {
  if (!value.is_number_integer()) refuse_value("seed", "an integer of 64 bits", value);
  request.seed =
      value.is_number_unsigned() ? value.get<std::uint64_t>() : static_cast<std::uint64_t>(value.get<std::int64_t>());
}

void read_stop(const json& value, CompletionRequest& request) {
  const std::string expected = "a string or a list of strings, none of them empty";
  if (value.is_array()) {
    for (const json& entry : value) {
      if (!entry.is_string()) refuse_value("stop", expected, entry);
      request.stop.push_back(entry.get<std::string>());
    }
  } else if (value.is_string()) {
    request.stop.push_back(value.get<std::string>());
  } else {
    refuse_value("stop", expected, value);
  }
  if (std::ranges::any_of(request.stop, &std::string::empty)) refuse_value("stop", expected, json(""));
}

void read_echo(const json& value, CompletionRequest& request) {
  if (!value.is_boolean()) refuse_value("echo", "true or false", value);
  request.echo = value.get<bool>();
}

void read_logprobs(const json& value, CompletionRequest& request) {
  if (value.is_null()) return;
  request.logprobs = static_cast<int>(
      integer_of(value, "logprobs", fmt::format("null or an integer from 0 to {}", kMostLogprobs), 0, kMostLogprobs));
}

/// A field that only its neutral value is taken of.
struct UnbuiltField {
  const char* name;
  const char* neutral;
  bool (*is_neutral)(const json& value);
};
constexpr std::array<UnbuiltField, 8> kUnbuilt = {{
    {"n", "1", [](const json& value) { return value.is_number_integer() && value == 1; }},
    {"best_of", "1", [](const json& value) { return value.is_number_integer() && value == 1; }},
    {"stream", "false", [](const json& value) { return value == false; }},
    {"presence_penalty", "0", [](const json& value) { return value.is_number() && value == 0; }},
    {"frequency_penalty", "0", [](const json& value) { return value.is_number() && value == 0; }},
    {"logit_bias", "{}", [](const json& value) { return value.is_object() && value.empty(); }},
    {"suffix", "\"\"", [](const json& value) { return value == ""; }},
    {"user", "\"\"", [](const json& value) { return value == ""; }},
}};

using FieldReader = void (*)(const json& value, CompletionRequest& request);
constexpr std::array<std::pair<const char*, FieldReader>, 7> kFields = {{
    {"max_tokens", read_max_tokens},
    {"temperature", read_temperature},
    {"top_p", read_top_p},
    {"seed", read_seed},
    {"stop", read_stop},
    {"echo", read_echo},
    {"logprobs", read_logprobs},
}};

void read_field(const std::string& name, const json& value, CompletionRequest& request) {
  const auto known = std::ranges::find_if(kFields, [&](const auto& field) { return name == field.first; });
  if (known != kFields.end()) return known->second(value, request);
  const auto unbuilt = std::ranges::find_if(kUnbuilt, [&](const UnbuiltField& field) { return name == field.name; });
  if (unbuilt == kUnbuilt.end()) {
    throw RefusedRequest(400, "unknown_field", fmt::format("{}: there is no such field", shown_text(name)));
  }
  if (value.is_null() || unbuilt->is_neutral(value)) return;
  throw RefusedRequest(400, "invalid_value",
                       fmt::format("{}: only {} or null is supported, got {}", name, unbuilt->neutral, shown(value)));
}

std::vector<std::vector<std::int32_t>> read_prompts(const json& prompt, const ServedModel& model) {
  const std::string expected = "a string, a list of strings, a list of ids or a list of lists of ids, not empty";
  if (prompt.is_string()) return {ids_of_text(prompt.get<std::string>(), model)};
  if (!prompt.is_array() || prompt.empty()) refuse_value("prompt", expected, prompt);
  if (prompt.front().is_number()) return {ids_of_list(prompt, "prompt", model)};
  if (prompt.size() > kMostPrompts) {
    throw RefusedRequest(400, "invalid_value",
                         fmt::format("prompt: {} prompts, at most {} go at once", prompt.size(), kMostPrompts));
  }
  std::vector<std::vector<std::int32_t>> prompts;
  for (std::size_t n = 0; n < prompt.size(); ++n) {
    const json& one = prompt[n];
    const std::string place = fmt::format("prompt[{}]", n);
    if (one.type() != prompt.front().type() || !(one.is_string() || one.is_array())) {
      refuse_value(place, "what the other prompts are, strings or lists of ids", one);
    }
    if (one.is_array() && one.empty()) refuse_value(place, "at least one id", one);
    prompts.push_back(one.is_string() ? ids_of_text(one.get<std::string>(), model) : ids_of_list(one, place, model));
  }
  return prompts;
}

void check_lengths(const CompletionRequest& request, const ServedModel& model) {
  std::int64_t numbers = 0;
  for (std::size_t n = 0; n < request.prompts.size(); ++n) {
    const std::vector<std::int32_t>& prompt = request.prompts[n];
    const std::int64_t read =
        (adds_bos(prompt, model) ? 1 : 0) + std::ssize(prompt) + std::max<std::int64_t>(0, request.max_tokens - 1);
    if (read > model.max_length) {
      throw RefusedRequest(
          400, "context_length_exceeded",
          fmt::format("prompt[{}]: {} ids and max_tokens {} make {} positions with BOS, the server reads at most {}", n,
                      prompt.size(), request.max_tokens, read, model.max_length));
    }
    numbers += (read + 1) * (1 + request.logprobs.value_or(0));
  }
  if (numbers <= kMostNumbers) return;
  throw RefusedRequest(400, "invalid_value",
                       fmt::format("prompt: the answer would hold {} numbers, at most {}; send fewer prompts at once",
                                   numbers, kMostNumbers));
}

}  // namespace

bool adds_bos(const std::vector<std::int32_t>& prompt, const ServedModel& model) {
  return prompt.empty() || prompt.front() != model.bos;
}

std::vector<std::int32_t> ids_of_text(const std::string& text, const ServedModel& model) {
  if (model.tokenizer == nullptr) {
    throw RefusedRequest(400, "invalid_value", "prompt: the model has no tokenizer: send ids");
  }
  std::vector<std::int32_t> ids = model.tokenizer->encode(text).id;
  const auto outside = std::ranges::find_if(ids, [&](std::int32_t id) { return id >= model.vocabulary_size; });
  if (outside == ids.end()) return ids;
  throw RefusedRequest(400, "token_out_of_range",
                       fmt::format("prompt: the tokenizer's id {} is outside the model's vocabulary of {}", *outside,
                                   model.vocabulary_size));
}

std::vector<std::int32_t> ids_of_list(const json& list, const std::string& field, const ServedModel& model) {
  std::vector<std::int32_t> ids;
  ids.reserve(list.size());
  for (const json& entry : list) {
    if (!entry.is_number_integer()) refuse_value(fmt::format("{}[{}]", field, ids.size()), "an id, an integer", entry);
    const bool inside =
        entry.is_number_unsigned() && entry.get<std::uint64_t>() < static_cast<std::uint64_t>(model.vocabulary_size);
    if (!inside) {
      throw RefusedRequest(400, "token_out_of_range",
                           fmt::format("{}[{}]: id {} is outside the vocabulary, 0 to {}", field, ids.size(),
                                       entry.dump(), model.vocabulary_size - 1));
    }
    ids.push_back(entry.get<std::int32_t>());
  }
  return ids;
}

const ServedModel& model_named(const json& object, ServedModels models) {
  const auto named = object.find("model");
  if (named == object.end()) throw RefusedRequest(400, "missing_field", "model: the field is missing");
  if (!named->is_string()) refuse_value("model", "a string", *named);
  const auto served = std::ranges::find_if(models, [&](const ServedModel* model) { return *named == model->name; });
  if (served != models.end()) return **served;
  std::string names = shown_text(models.front()->name);
  for (const ServedModel* model : models.subspan(1)) names += ", " + shown_text(model->name);
  throw RefusedRequest(
      404, "model_not_found",
      fmt::format("model: {} is not served here, {} {}", shown(*named), names, models.size() == 1 ? "is" : "are"));
}

CompletionRequest read_completion_request(const json& object, const ServedModel& model) {
  CompletionRequest request;
  for (const auto& [name, value] : object.items()) {
    if (name != "model" && name != "prompt") read_field(name, value, request);
  }
  const auto prompt = object.find("prompt");
  if (prompt == object.end()) throw RefusedRequest(400, "missing_field", "prompt: the field is missing");
  if (!request.stop.empty() && model.tokenizer == nullptr) {
    throw RefusedRequest(400, "invalid_value", "stop: the model has no tokenizer, its answers have no text");
  }
  request.prompts = read_prompts(*prompt, model);
  check_lengths(request, model);
  return request;
}

}  // namespace foxscope
