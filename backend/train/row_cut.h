#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace foxscope {

/// How an array of token ids is cut into rows of L.
struct RowCut {
  std::int64_t rows = 0;     ///< N
  std::int64_t columns = 1;  ///< K, rows of a document
  std::int64_t dropped = 0;  ///< tokens at the end of a stream that fill no row
  bool stream = false;       ///< a row goes on where the row before it ends
};

/// A stream of tokens [T] gives floor(T / L) rows; documents [D, K L] give D K rows in K columns. Row n begins with
/// token n L of the array in both.
/// @param name  of the array, for errors
/// @throws UsageError for a length below 1
/// @throws Error for another number of axes, an array without a token or a whole row, and documents that are not whole
///         rows, with the lengths that divide them
RowCut cut_into_rows(const std::vector<std::int64_t>& shape, std::int64_t length, const std::string& name);

/// "64 rows of 128 tokens", and of how many columns; "the last 5 tokens dropped".
std::string describe(const RowCut& cut, std::int64_t length);

}  // namespace foxscope
