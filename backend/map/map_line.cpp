#include "backend/map/map_line.h"

#include <algorithm>

#include "backend/base/index.h"
#include "backend/map/head_entries.h"
#include "backend/map/maps_elsewhere.h"
#include "backend/map/mixing_entries.h"

namespace foxscope {
namespace {

constexpr std::int64_t kDiagonalBlock = 64;  ///< a diagonal is computed in squares of so many entries

std::optional<Image> entries_of(const LineRequest& line, const Range& rows, const Range& columns, const Job& job) {
  MapRequest request;
  request.head = line.head;
  request.minus = line.minus;
  request.quantity = line.quantity;
  request.first_key = line.first_key;
  request.rows = rows;
  request.columns = columns;
  request.pixel_rows = rows.size();
  request.pixel_columns = columns.size();
  return compute_map(request, job);
}

/// Normalisers that are kept beside the trace are made before the first square where a diagonal crosses many rows:
/// square by square each would make those of its own rows, and keep none.
/// @returns false if the job was stopped
bool prepare_rows(const LineRequest& line, const Job& job) {
  for (const HeadOf* head : {&line.head, line.minus ? &*line.minus : nullptr}) {
    if (head == nullptr || are_few(line.positions, head->trace->info().length)) continue;
    const bool softmax = head->trace->info().mixer(head->layer).has_softmax();
    if (softmax && takes_ungated_rows(line.quantity) && log_normalizer_without_gate(*head, job).empty()) return false;
    if (!softmax && line.quantity == Quantity::attention && row_sizes(*head, job).empty()) return false;
  }
  return true;
}

std::optional<std::vector<float>> diagonal_entries(const LineRequest& request, const Job& job) {
  std::vector<float> values;
  values.reserve(static_cast<std::size_t>(request.positions.size()));
  if (!prepare_rows(request, job)) return std::nullopt;
  for (std::int64_t begin = request.positions.begin; begin < request.positions.end; begin += kDiagonalBlock) {
    const Range rows{begin, std::min(begin + kDiagonalBlock, request.positions.end)};
    const auto image = entries_of(request, rows, {request.line.key(rows.begin), request.line.key(rows.end)}, job);
    if (!image) return std::nullopt;
    for (std::int64_t n = 0; n < rows.size(); ++n) {
      values.push_back(image->value[index_of(n * rows.size() + n)]);
    }
  }
  return values;
}

}  // namespace

MapLine MapLine::through(Along along, std::int64_t query, std::int64_t key) {
  switch (along) {
    case Along::row:
      return {along, query};
    case Along::column:
      return {along, key};
    case Along::diagonal:
      break;
  }
  return {along, query - key};
}

std::int64_t MapLine::key(std::int64_t position) const {
  switch (along) {
    case Along::row:
      return position;
    case Along::column:
      return at;
    case Along::diagonal:
      break;
  }
  return position - at;
}

Range MapLine::positions(std::int64_t length) const {
  if (along == Along::row) return {0, std::min(at + 1, length)};
  return {std::min(at, length), length};
}

std::optional<std::vector<float>> line_entries(const LineRequest& request, const Job& job) {
  const Range& positions = request.positions;
  if (positions.size() < 1) return std::vector<float>();
  if (const auto* const there = elsewhere(request.head, request.minus)) return there->line(request, job);
  std::optional<Image> image;
  switch (request.line.along) {
    case MapLine::Along::row:
      image = entries_of(request, {request.line.at, request.line.at + 1}, positions, job);
      break;
    case MapLine::Along::column:
      image = entries_of(request, positions, {request.line.at, request.line.at + 1}, job);
      break;
    case MapLine::Along::diagonal:
      return diagonal_entries(request, job);
  }
  if (!image) return std::nullopt;
  return std::move(image->value);
}

bool needs_all_rows(const HeadOf& head, Quantity quantity) {
  const Trace& trace = *head.trace;
  const LayerMixer mixer = trace.info().mixer(head.layer);
  if (mixer.path && quantity != Quantity::forget && quantity != Quantity::log_forget) return true;
  if (mixer.has_softmax()) {
    return takes_ungated_rows(quantity) && forgets(trace.info(), head.layer) &&
           !trace.knows_log_normalizer_without_gate(head.layer, head.head);
  }
  if (quantity != Quantity::attention && quantity != Quantity::mixing) return false;
  if (mixer.erases()) return true;
  return quantity == Quantity::attention && !trace.knows_row_sizes(head.layer, head.head);
}

}  // namespace foxscope
