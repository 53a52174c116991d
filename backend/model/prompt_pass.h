#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "backend/model/continuation.h"

namespace foxscope {

/// A prompt as a forward pass sees it: with a recorder of its own where the caller has none.
class PromptPass {
 public:
  PromptPass(const PromptRequest& prompt, const CausalLM& model);
  PromptPass(const PromptPass&) = delete;
  PromptPass& operator=(const PromptPass&) = delete;

  [[nodiscard]] const ForwardRequest& request() const { return request_; }
  [[nodiscard]] Recorder& recorder() { return recorder_ ? *recorder_ : *given_; }

 private:
  ForwardRequest request_;
  Recorder* given_;
  std::optional<Recorder> recorder_;
};

}  // namespace foxscope
