#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

namespace foxscope {

/// Largest text, and largest vocabulary file, that is taken in.
inline constexpr std::size_t largest_text = std::size_t{1} << 30;
inline constexpr std::size_t largest_vocabulary_file = std::size_t{1} << 28;

/// A whole regular file.
/// @param what  "tokenizer", "configuration": in errors
/// @throws Error naming the file: missing, a folder, a FIFO, a device, unreadable, larger than `limit`
std::string read_file_bytes(const std::filesystem::path& path, const std::string& what, std::size_t limit);

/// Reads a user's input: a whole file, a stream such as a shell's <(...), or standard input for "-".
/// @param what  "text", "file of token ids": in errors
/// @throws Error naming the file: missing, a folder, unreadable, larger than `limit`
std::string read_input_bytes(const std::filesystem::path& path, const std::string& what, std::size_t limit);

}  // namespace foxscope
