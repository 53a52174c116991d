#include "backend/base/command_line.h"

#include <filesystem>
#include <system_error>

namespace foxscope {

std::string without_folder(const std::string& path) {
  const auto last_of = [](const std::filesystem::path& whole) {
    return (whole.has_filename() ? whole : whole.parent_path()).filename().string();
  };
  const std::filesystem::path normal = std::filesystem::path(path).lexically_normal();
  std::string name = last_of(normal);
  if (name == "." || name == "..") {
    std::error_code no_working_folder;
    name = last_of(std::filesystem::absolute(normal, no_working_folder).lexically_normal());
  }
  return name.empty() ? path : name;
}

std::string quoted_command_line(std::span<const std::string> words) {
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./:,@%";
  std::string line;
  for (const std::string& word : words) {
    if (!line.empty()) line += ' ';
    if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) {
      line += word;
      continue;
    }
    line += '\'';
    for (const char character : word) line += character == '\'' ? std::string("'\\''") : std::string(1, character);
    line += '\'';
  }
  return line;
}

}  // namespace foxscope
