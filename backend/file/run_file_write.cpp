#include <algorithm>
#include <chrono>
#include <set>

#include <fmt/format.h>

#include "backend/base/atomic_file.h"
#include "backend/base/error.h"
#include "backend/file/file_trace.h"
#include "backend/file/hdf5/hdf5_writer.h"
#include "backend/file/model_writer.h"
#include "backend/file/provenance.h"
#include "backend/file/raw_copy.h"
#include "backend/file/run_file.h"

namespace foxscope {
namespace {

using Clock = std::chrono::steady_clock;

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
    if ((text == nullptr) != (first == nullptr) || (text != nullptr && !same_text(*text, *first))) {
      throw Error(fmt::format("{}: the runs of '{}' and '{}' are on different texts: write one file for each",
                              path.string(), traces.front()->info().name, name));
    }
    if (text != nullptr && text->content.find('\0') != std::string::npos) {
      throw Error(fmt::format("{}: the text holds a NUL byte, which HDF5 strings cannot: remove it from the text",
                              path.string()));
    }
  }
}

void write_text(Hdf5Writer& writer, const Text& text) {
  writer.text("/text/content", text.content);
  writer.attribute("/text/content", "sha256", text.sha256);
  if (text.unread_bytes == 0) return;
  writer.attribute("/text/content", "unread_bytes", text.unread_bytes);
  writer.attribute("/text/content", "cut_word", std::int64_t{text.cut_word ? 1 : 0});
}

/// Writes everything that goes through libhdf5. @returns false if the job was stopped
bool write_structure(Hdf5Writer& writer, std::span<const std::shared_ptr<const Trace>> traces,
                     std::vector<ModelWriter>& models) {
  // Models that cut a text otherwise have read to different places by one limit.
  const auto longest = std::ranges::max_element(
      traces, {}, [](const auto& trace) { return trace->text() ? trace->text()->content.size() : 0; });
  if ((*longest)->text()) write_text(writer, *(*longest)->text());
  for (std::size_t n = 0; n < models.size(); ++n) {
    std::string shared;
    for (std::size_t before = 0; before < n && shared.empty(); ++before) {
      if (*traces[before]->tokens() == *traces[n]->tokens()) shared = traces[before]->info().name;
    }
    models[n].write_attributes();
    models[n].write_tokens(shared);
    if (!models[n].write_arrays()) return false;
  }
  return true;
}

}  // namespace

bool write_run_file(const std::filesystem::path& path, std::span<const std::shared_ptr<const Trace>> traces,
                    const Provenance& provenance, Overwrite overwrite, const Job& job, double* seconds_without_flush) {
  const Clock::time_point start = Clock::now();
  check_traces(path, traces);
  AtomicFile file(path, overwrite == Overwrite::force);
  Hdf5Writer writer(file);
  const bool mixers = std::ranges::any_of(traces, [](const auto& trace) { return !trace->info().mixers.empty(); });
  write_root(writer, provenance, mixers ? kMixerSchema : kSchema);
  writer.attribute("/", "default", "models/" + traces.front()->info().name);
  std::vector<ModelWriter> models;
  std::vector<RawArray> arrays;
  for (const auto& trace : traces) {
    writer.group("/models/" + trace->info().name);
    models.emplace_back(writer, file, *trace, job);
    const std::vector<RawArray> more = models.back().reserve_stored();
    arrays.insert(arrays.end(), more.begin(), more.end());
  }

  const std::uint64_t raw_bytes = total_bytes(arrays);
  file.require_space(raw_bytes);  // nearly all of the file
  RawCopy copy(file, std::move(arrays), job.stop);
  bool whole = write_structure(writer, traces, models);
  whole = copy.finish(job) && whole;
  for (ModelWriter& model : models) whole = whole && model.write_raw_arrays();
  if (!whole || job.stopped()) return false;
  writer.close();
  job.tell({static_cast<std::int64_t>(raw_bytes), static_cast<std::int64_t>(raw_bytes), "bytes", "writing"});
  if (seconds_without_flush != nullptr) {
    *seconds_without_flush = std::chrono::duration<double>(Clock::now() - start).count();
  }
  file.commit();
  return true;
}

}  // namespace foxscope
