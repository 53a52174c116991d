#pragma once

#include <cstdint>
#include <vector>

namespace foxscope {

/// How rotary embeddings are stretched for longer texts than a model was first trained on.
struct RopeScaling {
  enum class Kind {
    none,
    linear,    ///< every frequency / factor
    dynamic,   ///< a larger base for texts longer than original_length, the larger the longer they are
    llama3,    ///< low frequencies / factor, high ones stay, those between are mixed by their turns in original_length
    yarn,      ///< the same by a ramp over the pairs (Peng et al. 2023, arXiv:2309.00071)
    longrope,  ///< each frequency / a number of its own, of which there are two lists, by the length of the text
  } kind = Kind::none;
  double factor = 1;
  double low_frequency_factor = 1;   ///< llama3: wavelengths above original_length / this are stretched whole
  double high_frequency_factor = 4;  ///< llama3: those below original_length / this stay
  double original_length = 8192;
  double beta_fast = 32;  ///< yarn: pairs that turn more often in original_length stay
  double beta_slow = 1;   ///< yarn: those that turn less often are stretched whole
  bool truncate = true;   ///< yarn: the ramp begins and ends at whole pairs
  std::vector<double> short_factors = {},
                      long_factors = {};  ///< longrope: [dim / 2] up to original_length, and above it
  bool operator==(const RopeScaling&) const = default;
};

/// A rotary embedding: pairs (x_n, x_{n + dim/2}) of each query and key turn by position * frequency_n.
struct Rotary {
  double base = 10000;
  int dim = 0;  ///< even; of each head the first so many numbers turn
  RopeScaling scaling = {};
  double factor = 1;  ///< cosines and sines are multiplied by it
  /// Queries of position t are multiplied by 1 + query_growth ln(1 + floor(t / growth_length)), as in Llama 4.
  double query_growth = 0;
  double growth_length = 1;
  bool operator==(const Rotary&) const = default;

  /// Angles a position, [dim / 2] radians: base^(-2n/dim), stretched as the scaling says.
  /// @param length  positions of the whole text
  [[nodiscard]] std::vector<double> frequencies(std::int64_t length) const;
  /// Whether a text turns otherwise once it is longer.
  [[nodiscard]] bool depends_on_length() const {
    return scaling.kind == RopeScaling::Kind::dynamic || scaling.kind == RopeScaling::Kind::longrope;
  }
  /// Whether texts of two lengths have the same frequencies.
  [[nodiscard]] bool turns_alike(std::int64_t length, std::int64_t other) const;
  /// The queries of a position are multiplied by this.
  [[nodiscard]] double query_factor(std::int64_t position) const;
  /// Whether it does nothing but turn heads of so many numbers whole.
  [[nodiscard]] bool is_plain(int head_dim) const {
    return dim == head_dim && factor == 1 && query_growth == 0 && !depends_on_length();
  }
};

}  // namespace foxscope
