#pragma once

#include <optional>
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

  /// The file's content, which `parse` reads.
  [[nodiscard]] std::string text() const;
  /// The options as words of a command line: "--width", "82.55mm", ...
  [[nodiscard]] std::vector<std::string> words() const;
};

/// A figure that is a part of a page.
struct FigurePart {
  FigureSpec spec;
  std::vector<std::string> files = {};  ///< that it is drawn from; empty: those of the whole page
  double share = 1;                     ///< of its row's width, beside the shares of the others
};

/// A page of several figures in rows, as a file describes it: `{"foxscope_figure": 1, "panels": [[{"kind": "loss",
/// "files": ["eval.h5"]}, {"kind": "decay"}]], "options": {"width": "iclr"}}` (docs/files.md).
struct FigureParts {
  FigureSpec page;  ///< options of the whole
  std::vector<std::vector<FigurePart>> rows;

  /// @param text  the file's bytes
  /// @param name  of the file, for messages
  /// @returns nothing for a file without "panels", which describes one figure
  /// @throws Error as FigureSpec::parse
  static std::optional<FigureParts> parse(std::string_view text, const std::string& name);
  /// The file's content, which `parse` reads.
  [[nodiscard]] std::string text() const;
};

/// The bytes of a file that describes a figure.
/// @throws Error for a file that cannot be read or has more than 1 MB
std::string readSpec(const std::string& path);

/// Ends with what a file of a figure looks like.
/// @throws Error always: "NAME: WHY: a figure is written down as ..."
[[noreturn]] void refuseSpec(const std::string& name, const std::string& why);

}  // namespace foxscope::figure
