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
/// Each is looked for behind each token.
constexpr std::size_t kMostStops = 1024;
/// Ids of a text between two looks at whether its client is still there.
constexpr std::size_t kIdsBetweenLooks = 10'000;
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
  if (value.size() > kMostStops) {
    throw RefusedRequest(400, "invalid_value",
                         fmt::format("stop: {} strings, at most {} are looked for", value.size(), kMostStops));
  }
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

bool is_one(const json& value) { return value.is_number() && value == 1; }
bool is_zero(const json& value) { return value.is_number() && value == 0; }
bool is_false(const json& value) { return value == false; }
bool is_empty_list(const json& value) { return value.is_array() && value.empty(); }

/// A field of the protocol, or of vLLM's, that only its neutral value is taken of: the one that changes nothing.
struct UnbuiltField {
  const char* name;
  const char* neutral;
  bool (*is_neutral)(const json& value);
};
constexpr std::array<UnbuiltField, 18> kUnbuilt = {{
    {"n", "1", [](const json& value) { return value.is_number_integer() && value == 1; }},
    {"best_of", "1", [](const json& value) { return value.is_number_integer() && value == 1; }},
    {"stream", "false", is_false},
    {"stream_options", "{}", [](const json& value) { return value.is_object() && value.empty(); }},
    {"presence_penalty", "0", is_zero},
    {"frequency_penalty", "0", is_zero},
    {"repetition_penalty", "1", is_one},
    {"length_penalty", "1", is_one},
    {"logit_bias", "{}", [](const json& value) { return value.is_object() && value.empty(); }},
    {"suffix", "\"\"", [](const json& value) { return value == ""; }},
    {"top_k", "-1 or 0", [](const json& value) { return value.is_number_integer() && (value == -1 || value == 0); }},
    {"min_p", "0", is_zero},
    {"min_tokens", "0", is_zero},
    {"ignore_eos", "false", is_false},
    {"use_beam_search", "false", is_false},
    {"include_stop_str_in_output", "false", is_false},
    {"stop_token_ids", "[]", is_empty_list},
    {"user", "a string", [](const json& value) { return value.is_string(); }},  // says who asks, to those who count
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

[[noreturn]] void refuse_length(const std::string& place, const std::string& ids, const ServedModel& model) {
  throw RefusedRequest(400, "context_length_exceeded",
                       fmt::format("{}: {} ids, the server reads at most {} positions", place, ids, model.max_length));
}

/// The ids of a prompt that is a text or a list of ids. One that is too long is not cut to its end.
/// @param field  "prompt" or "prompt[3]"
/// @param place  "prompt[3]", for its length
std::vector<std::int32_t> read_prompt(const json& prompt, const std::string& field, const std::string& place,
                                      const ServedModel& model, const std::function<bool()>& gone) {
  const auto most = static_cast<std::size_t>(model.max_length);
  if (prompt.is_string()) {
    TextIds text = ids_of_text(prompt.get_ref<const std::string&>(), model, gone, most);
    if (!text.whole) refuse_length(place, fmt::format("more than {}", most), model);
    return std::move(text.ids);
  }
  if (prompt.size() > most) refuse_length(place, std::to_string(prompt.size()), model);
  return ids_of_list(prompt, field, model);
}

std::vector<std::vector<std::int32_t>> read_prompts(const json& prompt, const ServedModel& model,
                                                    const std::function<bool()>& gone) {
  const std::string expected = "a string, a list of strings, a list of ids or a list of lists of ids, not empty";
  const bool one_prompt = prompt.is_string() || (prompt.is_array() && !prompt.empty() && prompt.front().is_number());
  if (one_prompt) return {read_prompt(prompt, "prompt", "prompt[0]", model, gone)};
  if (!prompt.is_array() || prompt.empty()) refuse_value("prompt", expected, prompt);
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
    prompts.push_back(read_prompt(one, place, place, model, gone));
  }
  return prompts;
}

std::int64_t positions_read(const std::vector<std::int32_t>& prompt, const CompletionRequest& request,
                            const ServedModel& model) {
  return (adds_bos(prompt, model) ? 1 : 0) + std::ssize(prompt) + std::max<std::int64_t>(0, request.max_tokens - 1);
}

void check_lengths(const CompletionRequest& request, const ServedModel& model) {
  for (std::size_t n = 0; n < request.prompts.size(); ++n) {
    const std::vector<std::int32_t>& prompt = request.prompts[n];
    const std::int64_t read = positions_read(prompt, request, model);
    if (read > model.max_length) {
      throw RefusedRequest(
          400, "context_length_exceeded",
          fmt::format("prompt[{}]: {} ids and max_tokens {} make {} positions with BOS, the server reads at most {}", n,
                      prompt.size(), request.max_tokens, read, model.max_length));
    }
  }
  const std::int64_t numbers = numbers_in_answer(request, model);
  if (numbers <= kMostNumbers) return;
  throw RefusedRequest(400, "invalid_value",
                       fmt::format("prompt: the answer would hold {} numbers, at most {}; send fewer prompts at once",
                                   numbers, kMostNumbers));
}

}  // namespace

bool adds_bos(const std::vector<std::int32_t>& prompt, const ServedModel& model) {
  return prompt.empty() || prompt.front() != model.bos;
}

std::int64_t numbers_in_answer(const CompletionRequest& request, const ServedModel& model) {
  std::int64_t positions = 0;
  for (const std::vector<std::int32_t>& prompt : request.prompts) {
    positions += positions_read(prompt, request, model) + 1;
  }
  return positions * (1 + request.logprobs.value_or(0));
}

TextIds ids_of_text(std::string_view text, const ServedModel& model, const std::function<bool()>& gone,
                    std::size_t most) {
  if (model.tokenizer == nullptr) {
    throw RefusedRequest(400, "invalid_value", "prompt: the model has no tokenizer: send ids");
  }
  TextIds cut;
  std::size_t next_look = kIdsBetweenLooks;
  bool left = false;
  cut.whole = model.tokenizer->encode_ids(text, cut.ids, [&](std::size_t ids) {
    if (ids >= next_look) {
      next_look = ids + kIdsBetweenLooks;
      left = gone && gone();
    }
    return !left && ids <= most;
  });
  if (left) throw dropped_request();
  const auto outside = std::ranges::find_if(cut.ids, [&](std::int32_t id) { return id >= model.vocabulary_size; });
  if (outside == cut.ids.end()) return cut;
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

CompletionRequest read_completion_request(const json& object, const ServedModel& model,
                                          const std::function<bool()>& gone) {
  CompletionRequest request;
  for (const auto& [name, value] : object.items()) {
    if (name != "model" && name != "prompt") read_field(name, value, request);
  }
  const auto prompt = object.find("prompt");
  if (prompt == object.end()) throw RefusedRequest(400, "missing_field", "prompt: the field is missing");
  if (!request.stop.empty() && model.tokenizer == nullptr) {
    throw RefusedRequest(400, "invalid_value", "stop: the model has no tokenizer, its answers have no text");
  }
  request.prompts = read_prompts(*prompt, model, gone);
  check_lengths(request, model);
  return request;
}

}  // namespace foxscope
