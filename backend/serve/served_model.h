#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "backend/text/tokenizer.h"

namespace foxscope {

/// The context that requests are read against, and answers are written with.
struct ServedModel {
  std::string name;
  std::int64_t vocabulary_size = 0;
  std::int32_t bos = 0;
  std::vector<std::int32_t> ends;        ///< tokens that end a text, the config's eos_token_id; may be none
  std::int64_t max_length = 0;           ///< N, positions that a text may have, BOS included
  const Tokenizer* tokenizer = nullptr;  ///< null: the checkpoint has none
};

/// Models of one server, of different names; at least one.
using ServedModels = std::span<const ServedModel* const>;

}  // namespace foxscope
