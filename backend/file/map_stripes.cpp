#include "backend/file/map_stripes.h"

#include <algorithm>

#include "backend/map/distance_axis.h"

namespace foxscope {
namespace {

MapRequest cut(const MapRequest& request, std::int64_t begin, std::int64_t end) {
  MapRequest part = request;
  part.rows = {bin_begin(request.rows, request.pixel_rows, begin), bin_begin(request.rows, request.pixel_rows, end)};
  part.pixel_rows = end - begin;
  return part;
}

/// Bins of distances [begin, end).
MapRequest cut_distances(const MapRequest& request, std::int64_t begin, std::int64_t end) {
  MapRequest part = request;
  part.set_distances({request.distances.begin() + begin, request.distances.begin() + end + 1});
  return part;
}

bool for_each_stripe_by_distance(const MapRequest& request, const StripeOptions& options, const Job& job,
                                 const std::function<void(const Image& stripe)>& use) {
  const Job quiet{job.stop, {}, job.executor};
  const std::int64_t bins = request.pixel_columns;
  const std::int64_t wanted =
      std::max<std::int64_t>(1, options.stripe_bytes / 4 / std::max<std::int64_t>(1, request.pixel_rows));
  const std::int64_t total = options.total > 0 ? options.total : bins;
  for (std::int64_t begin = 0; begin < bins;) {
    const std::int64_t end = std::min(bins, begin + wanted);
    const auto stripe = compute_map(begin == 0 && end == bins ? request : cut_distances(request, begin, end), quiet);
    if (!stripe) return false;
    use(transposed(*stripe));
    begin = end;
    job.tell({options.first_done + begin, total, "rows", "computing the map"});
  }
  return true;
}

}  // namespace

FileShape file_shape(const MapRequest& request) {
  if (request.by_distance()) return {request.pixel_columns, request.pixel_rows};
  return {request.pixel_rows, request.pixel_columns};
}

bool can_cut(const MapRequest& request, std::int64_t begin, std::int64_t end) {
  if (request.pixel_rows == request.rows.size()) return true;
  const MapRequest part = cut(request, begin, end);
  for (std::int64_t row = begin; row < end; ++row) {
    if (bin_begin(part.rows, part.pixel_rows, row - begin) != bin_begin(request.rows, request.pixel_rows, row)) {
      return false;
    }
  }
  return true;
}

std::vector<double> bin_centres(const Range& range, std::int64_t bins) {
  std::vector<double> centres;
  centres.reserve(static_cast<std::size_t>(bins));
  for (std::int64_t bin = 0; bin < bins; ++bin) {
    const std::int64_t last = bin_begin(range, bins, bin + 1) - 1;
    centres.push_back(static_cast<double>(bin_begin(range, bins, bin) + last) / 2);
  }
  return centres;
}

bool for_each_stripe(const MapRequest& request, const StripeOptions& options, const Job& job,
                     const std::function<void(const Image& stripe)>& use) {
  if (request.by_distance()) return for_each_stripe_by_distance(request, options, job, use);
  const Job quiet{job.stop, {}, job.executor};
  // A map that cannot be cut is handed to compute_map as it is, to be refused there.
  const bool has_sizes = request.pixel_rows > 0 && request.pixel_rows <= request.rows.size() &&
                         request.pixel_columns > 0 && request.pixel_columns <= request.columns.size();
  const std::int64_t wanted =
      has_sizes ? std::max<std::int64_t>(1, options.stripe_bytes / 4 / request.pixel_columns) : request.pixel_rows;
  const std::int64_t total = options.total > 0 ? options.total : request.pixel_rows;
  std::int64_t begin = 0;
  do {
    std::int64_t end = std::min(request.pixel_rows, begin + wanted);
    const bool whole = begin == 0 && end == request.pixel_rows;
    while (!whole && end - begin > 1 && !can_cut(request, begin, end)) --end;
    const std::optional<Image> stripe = compute_map(whole ? request : cut(request, begin, end), quiet);
    if (!stripe) return false;
    use(*stripe);
    begin = end;
    job.tell({options.first_done + begin, total, "rows", "computing the map"});
  } while (begin < request.pixel_rows);
  return true;
}

}  // namespace foxscope
