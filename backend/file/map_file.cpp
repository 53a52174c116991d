#include "backend/file/map_file.h"

#include <algorithm>
#include <memory>
#include <set>

#include <fmt/format.h>

#include "backend/base/atomic_file.h"
#include "backend/base/csv_field.h"
#include "backend/base/error.h"
#include "backend/file/hdf5/hdf5_writer.h"
#include "backend/file/map_stripes.h"
#include "backend/map/statistics/bins.h"
#include "backend/trace/token_strings.h"
#include "kernels/executor.h"

namespace foxscope {
namespace {

/// Hands pixel rows on in whole rows of chunks, whatever stripes they come in.
class ImageSink {
 public:
  ImageSink(Hdf5Writer& writer, std::string path, std::int64_t columns, kernels::Executor* executor)
      : writer_(writer),
        path_(std::move(path)),
        columns_(static_cast<std::size_t>(columns)),
        chunk_rows_(writer.image_chunk_rows(path_)),
        executor_(executor) {}

  void add(const Image& stripe) {
    if (!pending_.empty()) {
      pending_.insert(pending_.end(), stripe.value.begin(), stripe.value.end());
      hand_on_pending(false);
      return;
    }
    hand_on(stripe.value, false);
    pending_.assign(stripe.value.end() - static_cast<std::ptrdiff_t>(left_), stripe.value.end());
  }

  void finish() { hand_on_pending(true); }

 private:
  void hand_on_pending(bool all) {
    hand_on(pending_, all);
    pending_.erase(pending_.begin(), pending_.end() - static_cast<std::ptrdiff_t>(left_));
  }

  void hand_on(const std::vector<float>& values, bool all) {
    const std::uint64_t there = values.size() / columns_;
    const std::uint64_t rows = all ? there : there / chunk_rows_ * chunk_rows_;
    if (rows > 0) writer_.image_rows(path_, next_row_, rows, values.data(), executor_);
    next_row_ += rows;
    left_ = values.size() - rows * columns_;
  }

  Hdf5Writer& writer_;
  std::string path_;
  std::size_t columns_;
  std::uint64_t chunk_rows_;
  kernels::Executor* executor_;
  std::vector<float> pending_;
  std::size_t left_ = 0;  ///< numbers of the last call that were not handed on
  std::uint64_t next_row_ = 0;
};

std::string describe(const HeadOf& head) {
  return fmt::format("{}:{}:{}", head.trace->info().name, head.layer, head.head);
}

void write_map_attributes(Hdf5Writer& writer, const std::string& path, const MapRequest& request) {
  const TraceInfo& info = request.head.trace->info();
  const std::vector<std::string> axes =
      request.by_distance() ? std::vector<std::string>{"distance", "query"} : std::vector<std::string>{"query", "key"};
  const std::int64_t rows[] = {request.rows.begin, request.rows.end};
  const std::int64_t columns[] = {request.columns.begin, request.columns.end};
  writer.attribute(path, "NX_class", "NXdata");
  writer.attribute(path, "signal", "value");
  writer.attribute(path, "axes", axes);
  writer.attribute(path, "interpretation", "image");
  writer.attribute(path, "model", info.name);
  writer.attribute(path, "layer", std::int64_t{request.head.layer});
  writer.attribute(path, "head", std::int64_t{request.head.head});
  writer.attribute(path, "quantity", to_string(request.quantity));
  writer.attribute(path, "reduce", to_string(request.reduction));
  writer.attribute(path, "rows", rows);
  writer.attribute(path, request.by_distance() ? "distances" : "cols", columns);
  if (request.channel) writer.attribute(path, "channel", std::int64_t{*request.channel});
  if (request.minus) writer.attribute(path, "minus", describe(*request.minus));
  writer.attribute(path, "weights_sha256", info.weights_sha256);
  if (info.unchecked || (request.minus && request.minus->trace->info().unchecked)) {
    writer.attribute(path, "unchecked", std::int64_t{1});
  }
  writer.attribute(path, "dtype", to_string(info.dtype));
  writer.attribute(path, "device", info.device);
  if (request.head.trace->text()) writer.attribute(path, "text_sha256", request.head.trace->text()->sha256);
}

void write_axis(Hdf5Writer& writer, const std::string& path, const char* name, const Range& range, std::int64_t bins,
                kernels::Executor* executor) {
  const std::vector<double> centres = bin_centres(range, bins);
  const std::string axis = path + "/" + name;
  writer.array(axis, Element::float64, {centres.size()}, centres.data(), executor);
  writer.make_scale(axis, name);
}

/// Middles of bins of distances, and the edges that make them.
void write_distances(Hdf5Writer& writer, const std::string& path, const MapRequest& request,
                     kernels::Executor* executor) {
  const auto& edges = request.distances;
  std::vector<double> centres;
  for (std::size_t bin = 0; bin + 1 < edges.size(); ++bin) {
    centres.push_back(static_cast<double>(edges[bin] + edges[bin + 1] - 1) / 2);
  }
  writer.array(path + "/distance", Element::float64, {centres.size()}, centres.data(), executor);
  writer.make_scale(path + "/distance", "distance");
  writer.array(path + "/distance_edges", Element::int64, {edges.size()}, edges.data(), executor);
}

bool write_map(Hdf5Writer& writer, const NamedMap& map, const StripeOptions& options, const Job& job) {
  const MapRequest& request = map.request;
  const std::string path = "/maps/" + map.name;
  std::unique_ptr<ImageSink> sink;
  // The group is made with the first stripe: by then compute_map has checked the request.
  const bool whole = for_each_stripe(request, options, job, [&](const Image& stripe) {
    if (!sink) {
      const FileShape shape = file_shape(request);
      const bool turned = request.by_distance();
      writer.begin_image(path + "/value", static_cast<std::uint64_t>(shape.rows),
                         static_cast<std::uint64_t>(shape.columns));
      write_map_attributes(writer, path, request);
      writer.attribute(path + "/value", "interpretation", "image");
      write_axis(writer, path, "query", request.rows, request.pixel_rows, job.executor);
      if (turned) {
        write_distances(writer, path, request, job.executor);
      } else {
        write_axis(writer, path, "key", request.columns, request.pixel_columns, job.executor);
      }
      writer.attach_scale(path + "/value", turned ? 1 : 0, path + "/query");
      writer.attach_scale(path + "/value", turned ? 0 : 1, path + (turned ? "/distance" : "/key"));
      sink = std::make_unique<ImageSink>(writer, path + "/value", shape.columns, job.executor);
    }
    sink->add(stripe);
  });
  if (whole) sink->finish();
  return whole;
}

/// The label of a row or column of a CSV file, each name but once: "12 token" of the position and the token that it
/// reads, and of bins "12:16", the positions from 12 up to, not including, 16.
std::vector<std::string> axis_labels(const Trace& trace, const Range& range, std::int64_t bins) {
  const std::vector<std::int64_t> edges = bin_edges(range, bins);
  const auto& tokens = trace.tokens();
  std::vector<std::string> labels;
  for (std::size_t bin = 0; bin + 1 < edges.size(); ++bin) {
    if (bins < range.size()) {
      labels.push_back(fmt::format("{}:{}", edges[bin], edges[bin + 1]));
    } else if (tokens) {
      labels.push_back(csv_field(fmt::format("{} {}", edges[bin], read_string(*tokens, edges[bin]))));
    } else {
      labels.push_back(std::to_string(edges[bin]));
    }
  }
  return labels;
}

/// The label of a bin of distances i - j + 1: "3", or "5:9", from 5 up to, not including, 9.
std::vector<std::string> distance_labels(const std::vector<std::int64_t>& edges) {
  std::vector<std::string> labels;
  for (std::size_t bin = 0; bin + 1 < edges.size(); ++bin) {
    const bool single = edges[bin] + 1 == edges[bin + 1];
    labels.push_back(single ? std::to_string(edges[bin]) : fmt::format("{}:{}", edges[bin], edges[bin + 1]));
  }
  return labels;
}

void check_maps(const std::filesystem::path& path, std::span<const NamedMap> maps) {
  if (maps.empty()) throw UsageError(fmt::format("{}: no maps to write: name a quantity", path.string()));
  std::set<std::string> names;
  for (const NamedMap& map : maps) {
    if (map.name.empty() || map.name.find('/') != std::string::npos || !names.insert(map.name).second) {
      throw UsageError(
          fmt::format("{}: the map '{}' is named twice: name each quantity once", path.string(), map.name));
    }
  }
}

}  // namespace

bool write_maps_hdf5(const std::filesystem::path& path, std::span<const NamedMap> maps, const Provenance& provenance,
                     Overwrite overwrite, const Job& job) {
  check_maps(path, maps);
  AtomicFile file(path, overwrite == Overwrite::force);
  std::unique_ptr<kernels::ThreadPool> own_threads;
  Job work = job;
  if (work.executor == nullptr) {
    own_threads = std::make_unique<kernels::ThreadPool>();
    work.executor = own_threads.get();
  }
  Hdf5Writer writer(file);
  write_root(writer, provenance);
  writer.attribute("/", "default", "maps");
  writer.group("/maps");
  writer.attribute("/maps", "NX_class", "NXentry");
  writer.attribute("/maps", "default", maps.front().name);
  StripeOptions options;
  for (const NamedMap& map : maps) options.total += file_shape(map.request).rows;
  for (const NamedMap& map : maps) {
    if (!write_map(writer, map, options, work)) return false;
    options.first_done += file_shape(map.request).rows;
  }
  writer.close();
  file.commit();
  return true;
}

bool write_map_npy(const std::filesystem::path& path, const MapRequest& request, Overwrite overwrite, const Job& job) {
  AtomicFile file(path, overwrite == Overwrite::force);
  // Format 1.0 of numpy.lib.format: magic, version, length of the header, and a header padded to 64 bytes in all.
  const FileShape shape = file_shape(request);
  std::string header =
      fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': ({}, {}), }}", shape.rows, shape.columns);
  constexpr std::size_t kPrefix = 10;
  constexpr std::size_t kBlock = 64;
  header.append(kBlock - 1 - (kPrefix + header.size()) % kBlock, ' ');
  header += '\n';
  const std::string prefix = {'\x93',
                              'N',
                              'U',
                              'M',
                              'P',
                              'Y',
                              '\x01',
                              '\x00',
                              static_cast<char>(header.size() & 0xffU),
                              static_cast<char>(header.size() >> 8U)};
  file.write(prefix.data(), prefix.size());
  file.write(header.data(), header.size());
  if (!for_each_stripe(request, {}, job, [&file](const Image& stripe) {
        file.write(stripe.value.data(), stripe.value.size() * sizeof(float));
      })) {
    return false;
  }
  file.commit();
  return true;
}

bool write_map_csv(const std::filesystem::path& path, const MapRequest& request, Overwrite overwrite, const Job& job) {
  AtomicFile file(path, overwrite == Overwrite::force);
  std::vector<std::string> names;
  std::size_t row = 0;
  const bool whole = for_each_stripe(request, {}, job, [&](const Image& stripe) {
    fmt::memory_buffer text;
    // Writes the axes with the first stripe: by then compute_map has checked the request.
    if (row == 0) {
      const Trace& trace = *request.head.trace;
      names = axis_labels(trace, request.rows, request.pixel_rows);
      std::vector<std::string> across = request.by_distance()
                                            ? distance_labels(request.distances)
                                            : axis_labels(trace, request.columns, request.pixel_columns);
      if (request.by_distance()) std::swap(names, across);
      fmt::format_to(std::back_inserter(text), "{},{}\n", request.by_distance() ? "distance" : "query",
                     fmt::join(across, ","));
    }
    const auto columns = static_cast<std::size_t>(stripe.columns);
    for (std::size_t n = 0; n < static_cast<std::size_t>(stripe.rows); ++n) {
      const auto* first = stripe.value.data() + n * columns;
      fmt::format_to(std::back_inserter(text), "{},{}\n", names[row++], fmt::join(first, first + columns, ","));
      if (text.size() > (1U << 20U)) {
        file.write(text.data(), text.size());
        text.clear();
      }
    }
    file.write(text.data(), text.size());
  });
  if (!whole) return false;
  file.commit();
  return true;
}

}  // namespace foxscope
