#include <algorithm>
#include <atomic>
#include <chrono>
#include <future>
#include <set>

#include <fmt/format.h>

#include "backend/base/atomic_file.h"
#include "backend/base/error.h"
#include "backend/file/file_trace.h"
#include "backend/file/hdf5_writer.h"
#include "backend/file/model_writer.h"
#include "backend/file/provenance.h"
#include "backend/file/run_file.h"

namespace foxscope {
namespace {

using Part = QueryKeyStore::Part;
using Clock = std::chrono::steady_clock;

constexpr auto kReportInterval = std::chrono::milliseconds(100);

void check_traces(const std::filesystem::path& path, std::span<const std::shared_ptr<const Trace>> traces) {
  if (traces.empty()) throw Error(fmt::format("{}: no runs to write: name a model", path.string()));
  std::set<std::string> names;
  for (const auto& trace : traces) {
    const std::string& name = trace->info().name;
    if (!is_model_name(name)) {
      throw UsageError(fmt::format("model name '{}': use letters, digits, '.', '_' and '-' (--model NAME=DIR)", name));
    }
    if (!names.insert(name).second) {
      throw UsageError(fmt::format("two models are named '{}': give them names of their own (--model NAME=DIR)", name));
    }
    const Text* text = trace->text().get();
    const Text* first = traces.front()->text().get();
    if ((text == nullptr) != (first == nullptr) || (text != nullptr && text->content != first->content)) {
      throw Error(fmt::format("{}: the runs of '{}' and '{}' are on different texts: write one file for each",
                              path.string(), traces.front()->info().name, name));
    }
    if (text != nullptr && text->content.find('\0') != std::string::npos) {
      throw Error(fmt::format("{}: the text holds a NUL byte, which HDF5 strings cannot: remove it from the text",
                              path.string()));
    }
  }
}

/// Copies queries and keys into the file: pages of the system's cache are filled straight from where they lie, past
/// libhdf5 and while other threads compress the rest. Two threads writing to one file would only wait for each other.
/// @returns false if the job was stopped
bool copy_raw_arrays(const AtomicFile& file, const std::vector<RawArray>& arrays, const std::stop_token& stop,
                     std::atomic<std::uint64_t>& bytes_written) {
  std::vector<std::byte> scratch;
  for (const RawArray& array : arrays) {
    const QueryKeyStore::Shape& shape = array.store->shape();
    const std::uint64_t row_bytes = static_cast<std::uint64_t>(shape.head_dim) * size_of(array.store->dtype());
    const auto piece_rows = static_cast<std::int64_t>(std::max<std::uint64_t>(1, kRawPieceBytes / row_bytes));
    const int heads = array.part == Part::query ? shape.heads : shape.key_heads;
    std::uint64_t offset = array.offset;
    for (int head = 0; head < heads; ++head) {
      for (std::int64_t begin = 0; begin < shape.length; begin += piece_rows) {
        if (stop.stop_requested()) return false;
        const std::int64_t end = std::min(shape.length, begin + piece_rows);
        const std::span<const std::byte> bytes =
            array.store->raw_rows(array.part, array.layer, head, begin, end, scratch);
        if (const int error = file.try_write_at(offset, bytes.data(), bytes.size()); error != 0) {
          file.throw_write_error(error);
        }
        offset += bytes.size();
        bytes_written += bytes.size();
      }
    }
  }
  return true;
}

std::uint64_t query_key_bytes(const Trace& trace) {
  const TraceInfo& info = trace.info();
  if (trace.query_key() == nullptr) return 0;
  return static_cast<std::uint64_t>(info.layers) * static_cast<std::uint64_t>(info.heads + info.key_heads) *
         static_cast<std::uint64_t>(info.length) * static_cast<std::uint64_t>(info.head_dim) *
         size_of(trace.query_key()->dtype());
}

void write_text(Hdf5Writer& writer, const Text& text) {
  writer.text("/text/content", text.content);
  writer.attribute("/text/content", "sha256", text.sha256);
}

/// Everything that goes through libhdf5. @returns false if the job was stopped
bool write_structure(Hdf5Writer& writer, std::span<const std::shared_ptr<const Trace>> traces,
                     std::vector<ModelWriter>& models) {
  if (traces.front()->text()) write_text(writer, *traces.front()->text());
  for (std::size_t n = 0; n < models.size(); ++n) {
    std::string shared;
    for (std::size_t before = 0; before < n && shared.empty(); ++before) {
      if (*traces[before]->tokens() == *traces[n]->tokens()) shared = traces[before]->info().name;
    }
    models[n].write_attributes();
    models[n].write_tokens(shared);
    models[n].write_loss();
    if (!models[n].write_layers()) return false;
  }
  return true;
}

}  // namespace

bool write_run_file(const std::filesystem::path& path, std::span<const std::shared_ptr<const Trace>> traces,
                    const Provenance& provenance, Overwrite overwrite, const Job& job, double* seconds_without_flush) {
  const Clock::time_point start = Clock::now();
  check_traces(path, traces);
  AtomicFile file(path, overwrite == Overwrite::force);
  std::uint64_t total = 0;
  for (const auto& trace : traces) total += query_key_bytes(*trace);
  file.require_space(total);

  Hdf5Writer writer(file);
  write_root(writer, provenance);
  writer.attribute("/", "default", "models/" + traces.front()->info().name);
  std::vector<ModelWriter> models;
  std::vector<RawArray> arrays;
  for (const auto& trace : traces) {
    writer.group("/models/" + trace->info().name);
    models.emplace_back(writer, file, *trace, job);
    const std::vector<RawArray> more = models.back().reserve_query_key();
    arrays.insert(arrays.end(), more.begin(), more.end());
  }

  std::atomic<std::uint64_t> done = 0;
  std::stop_source give_up;
  const std::stop_callback forward(job.stop, [&give_up] { give_up.request_stop(); });
  std::future<bool> copied =
      std::async(std::launch::async, [&] { return copy_raw_arrays(file, arrays, give_up.get_token(), done); });
  bool whole = false;
  try {
    whole = write_structure(writer, traces, models);
  } catch (...) {
    give_up.request_stop();
    copied.wait();
    throw;
  }
  while (copied.wait_for(kReportInterval) != std::future_status::ready) {
    job.tell({static_cast<std::int64_t>(done), static_cast<std::int64_t>(total), "bytes", "writing"});
  }
  whole = copied.get() && whole;
  for (ModelWriter& model : models) whole = whole && model.write_wide_arrays();
  if (!whole || job.stopped()) return false;
  writer.close();
  job.tell({static_cast<std::int64_t>(total), static_cast<std::int64_t>(total), "bytes", "writing"});
  if (seconds_without_flush != nullptr) {
    *seconds_without_flush = std::chrono::duration<double>(Clock::now() - start).count();
  }
  file.commit();
  return true;
}

}  // namespace foxscope
