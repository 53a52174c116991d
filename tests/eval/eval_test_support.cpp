#include "tests/eval/eval_test_support.h"

#include <lzma.h>
#include <zlib.h>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "backend/text/unicode/byte_alphabet.h"

namespace foxscope::test {

namespace {

Tokenizer make_byte_tokenizer(bool pairs, bool json_escaping) {
  nlohmann::json vocabulary;
  for (int byte = 0; byte < 256; ++byte) vocabulary[spell_byte(static_cast<std::uint8_t>(byte))] = byte;
  auto merges = nlohmann::json::array();
  if (pairs) {
    vocabulary["ab"] = 256;
    merges.push_back("a b");
  }
  const nlohmann::json description{{"added_tokens", nlohmann::json::array()},
                                   {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}}},
                                   {"decoder", {{"type", "ByteLevel"}}},
                                   {"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", merges}}}};
  return Tokenizer::from_json(description.dump(), "tokenizer.json", json_escaping);
}

}  // namespace

Tokenizer byte_tokenizer(bool pairs) { return make_byte_tokenizer(pairs, false); }
Tokenizer escaping_byte_tokenizer() { return make_byte_tokenizer(false, true); }

std::string gzip(const std::string& data) {
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED, MAX_WBITS + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string result(deflateBound(&stream, data.size()) + 64, '\0');
  std::string input = data;
  stream.next_in = reinterpret_cast<unsigned char*>(input.data());
  stream.avail_in = static_cast<unsigned>(input.size());
  stream.next_out = reinterpret_cast<unsigned char*>(result.data());
  stream.avail_out = static_cast<unsigned>(result.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  result.resize(stream.total_out);
  deflateEnd(&stream);
  return result;
}

std::string xz(const std::string& data) {
  std::string result(lzma_stream_buffer_bound(data.size()), '\0');
  std::size_t size = 0;
  EXPECT_EQ(lzma_easy_buffer_encode(1, LZMA_CHECK_CRC64, nullptr, reinterpret_cast<const std::uint8_t*>(data.data()),
                                    data.size(), reinterpret_cast<std::uint8_t*>(result.data()), &size, result.size()),
            LZMA_OK);
  result.resize(size);
  return result;
}

}  // namespace foxscope::test
