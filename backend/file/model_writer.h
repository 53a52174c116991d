#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "backend/base/job.h"
#include "backend/file/hdf5_writer.h"
#include "backend/file/raw_copy.h"
#include "backend/trace/trace.h"

namespace foxscope {

/// What a model and its run are, but for names and lengths: the attributes that run files and evaluations share.
void write_run_attributes(Hdf5Writer& writer, const std::string& group, const TraceInfo& info);

/// A token as a variable-length UTF-8 string can hold it: NUL is spelled out, what is not UTF-8 replaced.
std::string as_hdf5_string(const std::string& text);

/// Writes the group /models/NAME of a run file. All methods throw Error as Hdf5Writer does.
class ModelWriter {
 public:
  /// All arguments must outlive the writer.
  ModelWriter(Hdf5Writer& writer, const AtomicFile& file, const Trace& trace, const Job& job);

  /// Creates the datasets of queries and keys, which the caller fills past libhdf5.
  std::vector<RawArray> reserve_query_key();

  void write_attributes();
  /// @param shared  model that holds an equal token table already; empty: none does
  void write_tokens(const std::string& shared);
  void write_loss();
  /// What is known of every row. @returns false if the job was stopped
  bool write_layers();
  /// Logits and hidden states: large, and fetched from the trace one array at a time.
  /// @returns false if the job was stopped
  bool write_wide_arrays();

 private:
  /// What a viewer plots first: the loss, else the first layer's gates or normalisers; empty where there is neither.
  [[nodiscard]] std::string default_plot() const;
  /// A dataset 0, 1, 2, ... that gives the entries along an axis their places.
  void write_scale(const std::string& name, std::uint64_t size);
  void attach(const std::string& path, std::initializer_list<const char*> scales);
  void write_column(const std::string& path, Element element, const void* data);
  void write_rows(const std::string& path, Element element, const void* data, std::size_t count);
  void write_layer(int layer);
  bool write_wide(const std::string& path, const std::vector<float>& values, const char* axis);
  /// Makes a group NXdata: viewers plot its signal against its axes.
  void make_plottable(const std::string& group, const std::string& signal, const std::vector<std::string>& axes);

  Hdf5Writer& writer_;
  const AtomicFile& file_;
  const Trace& trace_;
  const TraceInfo& info_;
  const Job& job_;
  std::string root_;
  std::uint64_t length_;
  std::set<std::string> wide_axes_;
};

}  // namespace foxscope
