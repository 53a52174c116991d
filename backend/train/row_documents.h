#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/eval/estimate.h"
#include "backend/train/token_rows.h"

namespace foxscope {

/// A part of a row that is of one document.
struct DocumentPart {
  std::int64_t row = 0;       ///< place of the row among those that were chosen
  std::int64_t begin = 0;     ///< first position
  std::int64_t end = 0;       ///< behind the last one
  std::int64_t document = 0;  ///< from 0, in the order of the rows
  bool operator==(const DocumentPart&) const = default;
};

/// The documents of rows. A document ends with a BOS, which counts as its last token, and where a row does not go on
/// where the row before it ends (TokenRows::goes_on). Whether two chosen rows are of one document is looked up in the
/// rows between them.
/// @param chosen  numbers of rows, rising
/// @returns the parts of every row, in order
/// @throws as TokenRows::read
std::vector<DocumentPart> document_parts(const TokenRows& rows, std::span<const std::int64_t> chosen, std::int32_t bos);

/// Mean loss over all parts, and its error over documents; where all rows are of one document, over the rows, which are
/// blocks of it.
/// @param sums  of the losses of each part, nats
Estimate held_out_estimate(std::span<const DocumentPart> parts, std::span<const double> sums);

}  // namespace foxscope
