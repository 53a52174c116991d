#include "backend/text/read_text.h"

#include <cstdint>
#include <optional>
#include <string>

#include "backend/base/error.h"
#include "backend/base/log.h"
#include "backend/text/file_bytes.h"
#include "backend/text/tokenizer.h"

namespace foxscope {

namespace {

std::string hexadecimal_byte(char byte) {
  constexpr std::string_view digits = "0123456789ABCDEF";
  const auto value = static_cast<std::uint8_t>(byte);
  return {'0', 'x', digits[value >> 4], digits[value & 0xFU]};
}

}  // namespace

std::string read_text(const std::filesystem::path& path, InvalidUtf8 invalid) {
  const std::string name = path == "-" ? "standard input" : path.string();
  std::string bytes = read_input_bytes(path, "text", largest_text);
  log_line(LogCategory::text, [&] { return name + ": " + std::to_string(bytes.size()) + " bytes of text read"; });
  const std::size_t nul = bytes.find('\0');
  if (nul != std::string::npos) {
    throw Error(name + ": a NUL byte at offset " + std::to_string(nul) +
                ", so this is no UTF-8 text; convert it (UTF-16: iconv -f UTF-16 -t UTF-8) or give another file");
  }
  const std::optional<std::size_t> offset = find_invalid_utf8(bytes);
  if (!offset) return bytes;
  if (invalid == InvalidUtf8::replace) return replace_invalid_utf8(bytes);
  throw Error(name + ": the byte " + hexadecimal_byte(bytes[*offset]) + " at offset " + std::to_string(*offset) +
              " is not UTF-8; convert the text (for instance with iconv)" +
              (invalid == InvalidUtf8::offer ? ", or replace such bytes with --invalid-utf8 replace" : ""));
}

}  // namespace foxscope
