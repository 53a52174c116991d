#pragma once

#include <map>
#include <string>
#include <string_view>

namespace foxscope::agent {

/// Names by which people know files, for what is said of other paths: of a copy, or of a path on another machine.
class ShownNames {
 public:
  /// @param path   as it may come in a text, from its first letter to its end
  /// @param shown  stands in its place
  void add(std::string path, std::string shown) { names_[std::move(path)] = std::move(shown); }
  /// Puts the names in the place of the paths, of which the longest counts; a part of a longer word is none.
  [[nodiscard]] std::string in_place(std::string_view text) const;

 private:
  std::map<std::string, std::string, std::less<>> names_;
};

/// Says from now on what a copy in this process's folders is a copy of. Safe to call from several threads.
void show_copy_as(std::string copy, std::string shown);
/// The text with these names. Safe to call from several threads.
std::string with_names_of_copies(std::string_view text);

}  // namespace foxscope::agent
