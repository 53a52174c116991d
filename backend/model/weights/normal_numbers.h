#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <random>
#include <string_view>

namespace foxscope {

/// Numbers of a normal distribution with the same bits on every platform (std::normal_distribution is not fixed by the
/// standard): Box and Muller's pairs of uniform numbers of std::mt19937_64, which is.
class NormalNumbers {
 public:
  NormalNumbers(std::uint64_t seed, std::string_view name) {
    // FNV-1a of the name, so that parameters do not share their numbers.
    std::uint64_t hash = 14695981039346656037U;
    for (const char letter : name) hash = (hash ^ static_cast<unsigned char>(letter)) * 1099511628211U;
    const std::array<std::uint32_t, 4> words = {
        static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32), static_cast<std::uint32_t>(hash),
        static_cast<std::uint32_t>(hash >> 32)};
    std::seed_seq sequence(words.begin(), words.end());
    generator_.seed(sequence);
  }

  /// Uniform in [0, 1).
  double uniform() { return static_cast<double>(generator_() >> 11) * 0x1p-53; }

  double next() {
    if (has_second_) {
      has_second_ = false;
      return second_;
    }
    constexpr double kUnit = 0x1p-53;
    const double radius = std::sqrt(-2 * std::log((static_cast<double>(generator_() >> 11) + 1) * kUnit));
    const double angle = 2 * std::numbers::pi * static_cast<double>(generator_() >> 11) * kUnit;
    second_ = radius * std::sin(angle);
    has_second_ = true;
    return radius * std::cos(angle);
  }

 private:
  std::mt19937_64 generator_;
  double second_ = 0;
  bool has_second_ = false;
};

}  // namespace foxscope
