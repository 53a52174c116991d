#pragma once

#include "backend/text/tokenizer_description.h"

namespace foxscope {

/// Reads the normalizer, pre_tokenizer, decoder and post_processor of a tokenizer.json, and with them what kind of
/// symbols the model has. The model and the added tokens are read already.
/// @throws Error naming what is not supported
void read_tokenizer_stages(const nlohmann::json& root, TokenizerDescription& description);

}  // namespace foxscope
