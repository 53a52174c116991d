#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "backend/serve/served_model.h"

namespace foxscope {

/// What POST /v1/completions asks for, checked: nothing of it can fail any more but for want of memory.
struct CompletionRequest {
  std::vector<std::vector<std::int32_t>> prompts;  ///< ids as they came; none of "", which is BOS alone
  std::int64_t max_tokens = 16;
  double temperature = 1;  ///< 0: the likeliest token, of equals that of the lowest id
  double top_p = 1;
  std::optional<std::uint64_t> seed;  ///< none: of the moment
  std::vector<std::string> stop;
  bool echo = false;
  std::optional<int> logprobs;  ///< k likeliest tokens beside the actual one; none: no log p at all
};

/// The one of a server's models that a request names.
/// @throws RefusedRequest: 400 where the field is missing or no string, 404 for another name
const ServedModel& model_named(const nlohmann::json& object, ServedModels models);

/// @param object  of the request's body (read_request_object), which names the model
/// @throws RefusedRequest naming the field and the value: 400 (docs/serve.md)
CompletionRequest read_completion_request(const nlohmann::json& object, const ServedModel& model);

/// The ids of a text, as lm_eval's and everybody's tokenizers cut it: no BOS is added.
/// @throws RefusedRequest where there is no tokenizer
std::vector<std::int32_t> ids_of_text(const std::string& text, const ServedModel& model);

/// A list of ids of the vocabulary.
/// @param field  for messages
/// @throws RefusedRequest
std::vector<std::int32_t> ids_of_list(const nlohmann::json& list, const std::string& field, const ServedModel& model);

/// Whether BOS is read before a prompt: unless it begins with it.
bool adds_bos(const std::vector<std::int32_t>& prompt, const ServedModel& model);

}  // namespace foxscope
