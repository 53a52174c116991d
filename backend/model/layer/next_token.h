#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace foxscope {

/// The prediction behind the last position of a sequence: log p of every token of the vocabulary.
class NextToken {
 public:
  virtual ~NextToken() = default;
  /// [V] nats. From a GPU they come when they are asked for, with those of all sequences of the pass.
  [[nodiscard]] virtual std::span<const float> log_probabilities() const = 0;
  /// The likeliest token, and of equally likely ones the lowest id.
  [[nodiscard]] virtual std::int32_t likeliest() const = 0;
};

/// One for each sequence of a pass.
using NextTokens = std::vector<std::shared_ptr<const NextToken>>;

}  // namespace foxscope
