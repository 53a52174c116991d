#include "tests/train/train_test_support.h"

#include <numeric>

#include <fmt/format.h>

#include "backend/base/error.h"

namespace foxscope::test {

Ids all_tokens(const TokenRows& rows) {
  const auto length = static_cast<std::size_t>(rows.length());
  Ids tokens(static_cast<std::size_t>(rows.rows()) * length);
  for (std::int64_t row = 0; row < rows.rows(); ++row) {
    rows.read(row, std::span(tokens).subspan(static_cast<std::size_t>(row) * length, length));
  }
  return tokens;
}

CountedRows::CountedRows(std::int64_t rows, std::int64_t length, std::int64_t columns, std::int64_t bad_row)
    : TokenRows({rows, length, columns, fmt::format("{} {}", rows, length), "counted"}), bad_row_(bad_row) {}

void CountedRows::read(std::int64_t row, std::span<std::int32_t> tokens) const {
  if (row == bad_row_) throw Error(fmt::format("row {} is bad", row));
  std::iota(tokens.begin(), tokens.end(), static_cast<std::int32_t>(row * length()));
}

bool LoggedLines::say(const std::string& part) const { return lines_.find(part) != std::string::npos; }

std::string replaced(std::string text, const std::string& part, const std::string& by) {
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + by.size())) {
    text.replace(at, part.size(), by);
  }
  return text;
}

std::string npy_image(const std::string& dtype, const std::string& shape, const std::string& data,
                      const std::string& fortran_order) {
  std::string header =
      fmt::format("{{'descr': '{}', 'fortran_order': {}, 'shape': {}, }}", dtype, fortran_order, shape);
  header.resize(118 - 1, ' ');
  header += '\n';
  return std::string("\x93NUMPY\x01\x00\x76\x00", 10) + header + data;
}

std::string safetensors_image(const std::string& header, const std::string& data) {
  const std::uint64_t size = header.size();
  return std::string(reinterpret_cast<const char*>(&size), sizeof(size)) + header + data;
}

}  // namespace foxscope::test
