#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace foxscope::figure {

/// A figure as a file describes it: `{"foxscope_figure": 1, "kind": "maps", "options": {"width": "iclr"}}`
/// (docs/files.md).
struct FigureSpec {
  /// The value of an option: true for a flag, else one or many words; numbers as they are written.
  using Value = std::variant<bool, std::vector<std::string>>;

  std::string kind;
  std::vector<std::pair<std::string, Value>> options = {};  ///< by name, without dashes

  /// Options that are given values: one, many, or a flag's.
  void set(const std::string& name, Value value) { options.emplace_back(name, std::move(value)); }
  void set(const std::string& name, const std::string& value) { set(name, Value(std::vector{value})); }

  /// Whether it is there.
  [[nodiscard]] bool has(std::string_view name) const;
  /// The words of an option; empty where it is absent.
  [[nodiscard]] std::vector<std::string> list(std::string_view name) const;
  /// The value of an option that takes one, and this where it is not there.
  [[nodiscard]] std::string text(std::string_view name, const char* otherwise = "") const;

  /// @param text  the file's bytes
  /// @param name  of the file, for messages
  /// @throws Error for what is no such description, is nested too deep or is of a newer version
  static FigureSpec parse(std::string_view text, const std::string& name);
  /// @throws Error as parse, and for a file that cannot be read or has more than 1 MB
  static FigureSpec read(const std::string& path);

  /// The file's content, which `parse` reads.
  [[nodiscard]] std::string text() const;
  /// The options as words of a command line: "--width", "82.55mm", ...
  [[nodiscard]] std::vector<std::string> words() const;
};

/// Ends with what a file of a figure looks like.
/// @throws Error always: "NAME: WHY: a figure is written down as ..."
[[noreturn]] void refuseSpec(const std::string& name, const std::string& why);

}  // namespace foxscope::figure
