#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "backend/base/index.h"
#include "backend/model/layer/score.h"
#include "backend/serve/completion_request.h"
#include "backend/serve/served_model.h"

namespace foxscope {

/// The result of one prompt.
struct Completion {
  TextScores prompt;              ///< [n], without the first where it is BOS; empty unless they were asked for
  std::vector<std::int32_t> ids;  ///< tokens that were added, the end token and those of a stop string too
  TextScores added;               ///< [ids], or empty
  std::string text;               ///< of the added tokens, up to the end or a stop string
  bool stopped = false;           ///< by one of these, not by max_tokens
};

/// Names of tokens in answers: their text, or `bytes:\xe2\x80` where that alone is not UTF-8, or `token_id:7` where
/// there is no tokenizer for them. Made once, as JSON strings.
class TokenNames {
 public:
  explicit TokenNames(const ServedModel& model);
  [[nodiscard]] const std::string& json(std::int32_t id) const { return names_[index_of(id)]; }

 private:
  std::vector<std::string> names_;
};

/// The body of an answer to POST /v1/completions. Numbers have the digits that read back as the same double.
/// @param id       of the answer
/// @param created  seconds since 1970
std::string completion_answer(const CompletionRequest& request, const std::vector<Completion>& completions,
                              const ServedModel& model, const TokenNames& names, std::string_view id,
                              std::int64_t created);

/// The body of an answer that is an error.
std::string error_answer(int status, std::string_view code, std::string_view message);

}  // namespace foxscope
