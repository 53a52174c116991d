#pragma once

#include <cstdint>
#include <string>

namespace foxscope {

/// A change to the gate or the output of heads, or to the experts of a layer, made while the model runs (`--intervene
/// LAYER:HEAD:KIND`).
struct Intervention {
  enum class Kind { one, constant, mean, scale, zero, cut, drop };
  int layer = -1;  ///< -1: all
  int head = -1;   ///< -1: all
  Kind kind = Kind::one;
  double value = 0;           ///< constant: f; scale: factor of log f
  std::int64_t position = 0;  ///< zero: f_p = 0
  int expert = 0;             ///< drop: what it makes is 0; head is -1 then
  /// @throws UsageError that says what is allowed
  static Intervention parse(const std::string& text);
  /// One for each head in turn (`--change KIND`): of all layers and heads, neither zero@p, which is of one text, nor
  /// drop=e, which is of no head.
  /// @throws UsageError that says what is allowed
  static Intervention parse_change(const std::string& kind);
  [[nodiscard]] std::string text() const;       ///< as on the command line, "3:0:one"
  [[nodiscard]] std::string kind_text() const;  ///< its last part, "one"
  /// The change for people: "L3 H0, gate 1".
  [[nodiscard]] std::string words() const;
  [[nodiscard]] std::string kind_words() const;  ///< "gate 1"
  bool operator==(const Intervention&) const = default;
};

}  // namespace foxscope
