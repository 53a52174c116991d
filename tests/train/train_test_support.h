#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "backend/base/log.h"
#include "backend/train/token_rows.h"
#include "tests/text/helpers.h"

namespace foxscope::test {

using Ids = std::vector<std::int32_t>;

/// All rows, one after the other: [N, L].
Ids all_tokens(const TokenRows& rows);

/// Row n of N holds n L .. n L + L - 1, or what a function says; a token that is `bad` is reported as one outside the
/// vocabulary.
class CountedRows final : public TokenRows {
 public:
  CountedRows(std::int64_t rows, std::int64_t length, std::int64_t columns = 1, std::int64_t bad_row = -1);
  void read(std::int64_t row, std::span<std::int32_t> tokens) const override;

 private:
  std::int64_t bad_row_;
};

/// Lines that were logged while it lives.
class LoggedLines {
 public:
  [[nodiscard]] bool say(const std::string& part) const;

 private:
  std::string lines_;
  LogReader reader_{[this](std::string_view line) { lines_ += std::string(line) + "\n"; }};
};

/// A text with a part replaced wherever it stands.
std::string replaced(std::string text, const std::string& part, const std::string& by);

/// The bytes of numbers.
template <typename T>
std::string bytes_of(const std::vector<T>& numbers) {
  return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(T)};
}

/// A file in numpy's format.
std::string npy_image(const std::string& dtype, const std::string& shape, const std::string& data,
                      const std::string& fortran_order = "False");
/// A file in the safetensors format.
std::string safetensors_image(const std::string& header, const std::string& data);

}  // namespace foxscope::test
