#include "backend/train/row_cut.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "backend/base/error.h"
#include "backend/base/plural.h"
#include "backend/model/weights/safetensors.h"

namespace foxscope {
namespace {

constexpr std::size_t kLengthsListed = 8;

/// The largest lengths that documents of so many tokens can be cut into.
std::vector<std::int64_t> divisors(std::int64_t tokens) {
  std::vector<std::int64_t> result;
  for (std::int64_t parts = 1; parts <= tokens && parts <= 4096 && result.size() < kLengthsListed; ++parts) {
    if (tokens % parts == 0) result.push_back(tokens / parts);
  }
  return result;
}

}  // namespace

RowCut cut_into_rows(const std::vector<std::int64_t>& shape, std::int64_t length, const std::string& name) {
  if (length < 1) throw UsageError(fmt::format("--length {}: use a number of tokens from 1", length));
  if (shape.empty() || shape.size() > 2) {
    throw Error(fmt::format("{}: has the shape {}: tokens have one axis, [tokens], or two, [documents, tokens]", name,
                            shape_text(shape)));
  }
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) {
    throw Error(
        fmt::format("{}: has the shape {}: holds no tokens: name data that hold some", name, shape_text(shape)));
  }
  if (shape.size() == 2) {
    const std::int64_t tokens = shape[1];
    if (tokens % length != 0) {
      throw Error(
          fmt::format("{}: its documents of {} tokens are not whole rows of {}: use a --length that divides "
                      "them, such as {}",
                      name, tokens, length, fmt::join(divisors(tokens), ", ")));
    }
    return {shape[0] * (tokens / length), tokens / length, 0, false};
  }
  const RowCut cut{shape[0] / length, 1, shape[0] % length, true};
  if (cut.rows == 0) {
    throw Error(fmt::format("{}: holds {} tokens, not one row of {}: use a --length of {} or less, or more data", name,
                            shape[0], length, shape[0]));
  }
  return cut;
}

std::string describe(const RowCut& cut, std::int64_t length) {
  std::string text = fmt::format("{} {} of {} {}", cut.rows, plural(cut.rows, "row"), length, plural(length, "token"));
  if (cut.columns > 1) text += fmt::format(" in {} columns", cut.columns);
  if (cut.dropped > 0) {
    text += cut.dropped == 1 ? ", the last token dropped" : fmt::format(", the last {} tokens dropped", cut.dropped);
  }
  return text;
}

}  // namespace foxscope
