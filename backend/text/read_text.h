#pragma once

#include <filesystem>
#include <string>

namespace foxscope {

/// The treatment of bytes that are not UTF-8. An offer refuses them, and says that --invalid-utf8 can replace them.
enum class InvalidUtf8 { refuse, offer, replace };

/// A text file (or standard input for "-") as the program takes it in.
/// @throws Error for a missing or unreadable file, for NUL bytes (with the offset), and for bytes that are not UTF-8
///         (with the offset) unless they are to be replaced
std::string read_text(const std::filesystem::path& path, InvalidUtf8 invalid);

}  // namespace foxscope
