#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "backend/base/job.h"
#include "backend/file/hdf5/hdf5_writer.h"
#include "backend/file/raw_copy.h"
#include "backend/trace/trace.h"

namespace foxscope {

/// The facts of a model and its run, but for names and lengths: the attributes that run files and evaluations share.
void write_run_attributes(Hdf5Writer& writer, const std::string& group, const TraceInfo& info);

/// Writes the group /models/NAME of a run file. All methods throw Error as Hdf5Writer does.
class ModelWriter {
 public:
  /// All arguments must outlive the writer.
  ModelWriter(Hdf5Writer& writer, const AtomicFile& file, const Trace& trace, const Job& job);

  /// Creates the datasets of Storage::store, which the caller fills past libhdf5.
  std::vector<RawArray> reserve_stored();

  /// @param order  of the models in the file, from 0
  void write_attributes(std::int64_t order);
  /// @param shared  model that holds an equal token table already; empty: none does
  void write_tokens(const std::string& shared);
  /// Arrays of Storage::packed, and what belongs to those that were reserved. @returns false if the job was stopped
  bool write_arrays();
  /// Arrays of Storage::raw: large, and fetched from the trace one at a time. @returns false if the job was stopped
  bool write_raw_arrays();

 private:
  [[nodiscard]] bool has(const ArraySpec& spec, int index) const;
  /// Name of the dataset 0, 1, 2, ... that gives the entries along an axis of a layer their places: that of the axis,
  /// and of its extent too, "head_16", where another layer has another. It is written if it is not there yet.
  std::string scale(Axis axis, std::uint64_t extent);
  /// Says which scales belong to a dataset, and writes those that are not there yet.
  /// @returns their names
  std::vector<std::string> attach(const std::string& path, const std::vector<Axis>& axes,
                                  const std::vector<std::uint64_t>& extents);
  /// Attributes and scales of an array that is written or reserved.
  void describe(const ArraySpec& spec, int index);
  void write_column(const std::string& path, Element element, const void* data);
  void write_array(const ArraySpec& spec, int index);
  bool write_raw(const ArraySpec& spec, int index);
  /// Makes an array's group NXdata: viewers plot it against its axes.
  void make_plottable(const std::string& path, const std::vector<std::string>& scales);
  /// Writes the mixer of each layer.

  Hdf5Writer& writer_;
  const AtomicFile& file_;
  const Trace& trace_;
  const TraceInfo& info_;
  const Job& job_;
  std::string root_;
  std::uint64_t length_;
  std::map<Axis, std::vector<std::uint64_t>> scales_;  ///< extents of those that are written
  std::set<std::string> plotted_;                      ///< groups that are NXdata
};

}  // namespace foxscope
