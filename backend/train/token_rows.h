#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace foxscope {

/// The rows that a model is trained on: N rows of L token ids t_0 .. t_{L-1}. They are the labels of the row's
/// positions; what the positions read is BOS, t_0 .. t_{L-2}. Rows do not depend on one another.
class TokenRows {
 public:
  /// The facts of rows before any is read.
  struct Summary {
    std::int64_t rows = 0;     ///< N, at least 1
    std::int64_t length = 0;   ///< L, at least 1
    std::int64_t columns = 1;  ///< K, see columns()
    std::string fingerprint;   ///< see fingerprint()
    std::string description;   ///< see description()
    bool stream = false;       ///< each row but the first goes on where the row before it ends
  };

  virtual ~TokenRows() = default;
  TokenRows(const TokenRows&) = delete;
  TokenRows& operator=(const TokenRows&) = delete;

  [[nodiscard]] std::int64_t rows() const { return summary_.rows; }
  [[nodiscard]] std::int64_t length() const { return summary_.length; }
  /// K, the rows that a document of the data is cut into: row n holds tokens L (n mod K) on of document floor(n / K).
  /// 1 where a row is not a part of a longer document.
  [[nodiscard]] std::int64_t columns() const { return summary_.columns; }
  /// SHA-256 in hexadecimal that identifies the data, whatever L is and wherever they lie. It covers all tokens of
  /// texts, and type, shape and content of arrays (above 64 MiB, pieces that are spread evenly).
  [[nodiscard]] const std::string& fingerprint() const { return summary_.fingerprint; }
  /// Where the rows come from, how many they are and what was left out: one line, for people.
  [[nodiscard]] const std::string& description() const { return summary_.description; }

  /// Whether a row goes on where the row before it ends: in one stream, or in one document of several columns.
  [[nodiscard]] virtual bool goes_on(std::int64_t row) const {
    return summary_.stream ? row > 0 : row % summary_.columns != 0;
  }

  /// Reads a row; from any number of threads at once.
  /// @param row     in [0, N)
  /// @param tokens  [L], filled with ids in [0, vocabulary)
  /// @throws Error naming the file, the row and the place of a token outside the vocabulary; or the piece of the data
  ///         that cannot be read
  virtual void read(std::int64_t row, std::span<std::int32_t> tokens) const = 0;

 protected:
  explicit TokenRows(Summary summary) : summary_(std::move(summary)) {}

 private:
  Summary summary_;
};

/// The rows of several data one after the other; of one as they are. Where all have documents of as many columns, the
/// documents follow each other; else a row counts as a document of its own.
/// @param parts  at least one, all of one length
std::unique_ptr<TokenRows> concatenate(std::vector<std::unique_ptr<TokenRows>> parts);

}  // namespace foxscope
