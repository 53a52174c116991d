#pragma once

#include <unistd.h>

#include <array>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "backend/text/tokenizer.h"
#include "backend/text/tokenizer_description.h"
#include "backend/text/unicode/byte_alphabet.h"
#include "tests/error_of.h"
#include "tests/temporary_folder.h"

namespace foxscope::test {

inline std::string read_bytes(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline void write_bytes(const std::filesystem::path& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

/// A tokenizer.json with the 256 bytes as tokens 0 to 255, then what each merge makes.
inline nlohmann::json small_tokenizer(const std::vector<std::pair<std::string, std::string>>& merges = {}) {
  nlohmann::json vocab;
  for (int byte = 0; byte < 256; ++byte) vocab[spell_byte(static_cast<std::uint8_t>(byte))] = byte;
  nlohmann::json list = nlohmann::json::array();
  for (const auto& [left, right] : merges) {
    if (!vocab.contains(left + right)) vocab[left + right] = vocab.size();
    list.push_back({left, right});
  }
  return {{"added_tokens", nlohmann::json::array()},
          {"normalizer", nullptr},
          {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}}},
          {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", list}}}};
}

/// A tokenizer.json as Llama 2 has it: <unk>, <s>, the 256 bytes, then U+2581, a, b and what their merges make.
inline nlohmann::json small_block_tokenizer() {
  const std::string block = "\xE2\x96\x81";
  nlohmann::json vocab = {{"<unk>", 0}, {"<s>", 1}};
  for (int byte = 0; byte < 256; ++byte) vocab[spell_fallback_byte(static_cast<std::uint8_t>(byte))] = 2 + byte;
  for (const std::string& token : {block, std::string("a"), std::string("b"), block + "a", std::string("ab")}) {
    vocab[token] = vocab.size();
  }
  const nlohmann::json spaces = {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", block}};
  const nlohmann::json blocks = {{"type", "Replace"}, {"pattern", {{"String", block}}}, {"content", " "}};
  return {
      {"added_tokens", {{{"id", 1}, {"content", "<s>"}, {"special", true}}}},
      {"normalizer", {{"type", "Sequence"}, {"normalizers", {{{"type", "Prepend"}, {"prepend", block}}, spaces}}}},
      {"pre_tokenizer", nullptr},
      {"decoder",
       {{"type", "Sequence"},
        {"decoders",
         {blocks,
          {{"type", "ByteFallback"}},
          {{"type", "Fuse"}},
          {{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}}}}}},
      {"model",
       {{"type", "BPE"},
        {"unk_token", "<unk>"},
        {"fuse_unk", true},
        {"byte_fallback", true},
        {"vocab", vocab},
        {"merges", nlohmann::json::array({nlohmann::json::array({block, "a"}), nlohmann::json::array({"a", "b"})})}}}};
}

inline Tokenizer tokenizer_of(const nlohmann::json& json, bool json_escaping = false) {
  return Tokenizer::from_json(json.dump(), "tokenizer.json", json_escaping);
}

/// The bytes of each token, for messages that can be read.
inline std::vector<std::string> pieces(const Tokenizer& tokenizer, std::string_view text) {
  std::vector<std::string> result;
  for (const std::int32_t id : tokenizer.encode(text).id) result.emplace_back(tokenizer.token_bytes(id));
  return result;
}

inline Tokenizer fixture_tokenizer(bool json_escaping = false) {
  return Tokenizer::from_json(read_bytes(FOXSCOPE_TEST_DATA "/tokenizer/tokenizer.json"), "tokenizer.json",
                              json_escaping);
}

}  // namespace foxscope::test
