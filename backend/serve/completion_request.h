#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "backend/serve/served_model.h"

namespace foxscope {

/// A request of POST /v1/completions, checked: nothing of it can fail any more but for want of memory.
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
/// @param gone    asked now and then whether nobody waits for the answer any more
/// @throws RefusedRequest naming the field and the value: 400 (docs/serve.md); 503 if nobody waits
CompletionRequest read_completion_request(const nlohmann::json& object, const ServedModel& model,
                                          const std::function<bool()>& gone);

/// Numbers that the answer to a request may hold: scores of all positions, each with its likeliest tokens.
std::int64_t numbers_in_answer(const CompletionRequest& request, const ServedModel& model);

/// The ids of a text.
struct TextIds {
  std::vector<std::int32_t> ids;
  bool whole = true;  ///< false: there are more
};

/// Cuts a text as lm_eval's and everybody's tokenizers do: no BOS is added.
/// @param gone  as for read_completion_request
/// @param most  ids, with which it is given up
/// @throws RefusedRequest where there is no tokenizer; 503 if nobody waits
TextIds ids_of_text(std::string_view text, const ServedModel& model, const std::function<bool()>& gone,
                    std::size_t most = std::numeric_limits<std::size_t>::max());

/// A list of ids of the vocabulary.
/// @param field  for messages
/// @throws RefusedRequest
std::vector<std::int32_t> ids_of_list(const nlohmann::json& list, const std::string& field, const ServedModel& model);

/// Whether BOS is read before a prompt: unless it begins with it.
bool adds_bos(const std::vector<std::int32_t>& prompt, const ServedModel& model);

}  // namespace foxscope
