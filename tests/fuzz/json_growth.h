#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <string_view>

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);

/// Changes a text as JSON: parts between brackets or commas are repeated, many times over, or nested into one another.
/// @param most  bytes of the result at the most
inline std::string grow_json(std::string text, std::size_t most, std::minstd_rand& random) {
  if (text.empty()) return text;
  const auto part = [&]() -> std::pair<std::size_t, std::size_t> {
    constexpr std::string_view kEdges = "[]{},";
    const std::size_t from = text.find_first_of(kEdges, random() % text.size());
    if (from == std::string::npos) return {0, text.size()};
    const std::size_t to = text.find_first_of(kEdges, from + 1 + random() % 64);
    return {from, (to == std::string::npos ? text.size() : to) - from};
  };
  const auto [from, length] = part();
  const std::string piece = text.substr(from, length);
  if (piece.empty()) return text;
  const std::size_t room = most > text.size() ? most - text.size() : 0;
  switch (random() % 4) {
    case 0: {  // once more, elsewhere
      if (piece.size() <= room) text.insert(part().first, piece);
      break;
    }
    case 1: {  // many times
      const std::size_t times = std::min<std::size_t>(room / piece.size(), std::size_t{1} << random() % 12);
      std::string many;
      for (std::size_t n = 0; n < times; ++n) many += piece;
      text.insert(from, many);
      break;
    }
    case 2: {  // deep inside brackets
      constexpr std::string_view kOpen = R"({"a":)";
      const std::size_t depth = std::min<std::size_t>(room / (kOpen.size() + 1), std::size_t{1} << random() % 14);
      std::string deep;
      const bool lists = random() % 2 == 0;
      for (std::size_t n = 0; n < depth; ++n) deep += lists ? std::string_view("[") : kOpen;
      text.insert(from, deep);
      if (random() % 2 == 0) text.insert(from + deep.size() + length, std::string(depth, lists ? ']' : '}'));
      break;
    }
    default:
      text.erase(from, length);
  }
  return text;
}

/// The custom mutator of a reader of JSON: two of three changes are those of grow_json.
inline std::size_t mutate_json(std::uint8_t* data, std::size_t size, std::size_t most, unsigned seed) {
  std::minstd_rand random(seed);
  if (random() % 3 == 0) return LLVMFuzzerMutate(data, size, most);
  const std::string grown = grow_json(std::string(reinterpret_cast<const char*>(data), size), most, random);
  const std::size_t length = std::min(grown.size(), most);
  std::memcpy(data, grown.data(), length);
  return length;
}
