#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backend/text/tokenizer_description.h"

namespace foxscope {

/// The bytes of tokens: those of a character that is not whole are kept.
class TokenDecoder {
 public:
  /// @param normalized  contents of added tokens that the normalizer changes, by their contents
  /// @throws Error where decoding makes the vocabulary many times as long
  TokenDecoder(const TokenizerDescription& description, const std::map<std::string, std::string>& normalized);

  /// The bytes of a token within a text.
  [[nodiscard]] std::string_view bytes(std::size_t id) const { return within_.bytes(id); }

  /// The bytes of tokens within a text.
  [[nodiscard]] std::string join(std::span<const std::int32_t> ids) const;

  /// The bytes of all tokens of a text: a space that encoding put in front is taken off.
  [[nodiscard]] std::string decode(std::span<const std::int32_t> ids) const;

 private:
  /// Bytes of all tokens, one after the other.
  class Table {
   public:
    void add(std::string_view bytes, std::size_t most, const std::string& name);
    [[nodiscard]] std::string_view bytes(std::size_t id) const {
      return std::string_view(all_).substr(end_[id], end_[id + 1] - end_[id]);
    }

   private:
    std::string all_;
    std::vector<std::size_t> end_{0};
  };

  Table within_;
  Table first_;  ///< of the first token of a text; only with first_differs_
  bool first_differs_ = false;
  std::vector<DecoderStep> strips_;  ///< of the whole text
};

}  // namespace foxscope
