#pragma once

#include <cmath>
#include <memory>
#include <optional>
#include <string>

#include "backend/file/hdf5/hdf5_dataset.h"
#include "backend/trace/trace.h"

namespace foxscope {

/// Attribute of sums of log gates: [H] float64, mean_log_gate (decay_time.h) of each head, nats per token. Who looks
/// for a head to show reads it in place of all gates.
inline constexpr const char* kMeanLogGate = "mean_log_gate";

/// Whether that is the mean of gates, which was computed here; others may sum in another order.
inline bool is_mean(double held, double mean) {
  return std::isnan(mean) || std::abs(held - mean) <= 1e-6 * std::abs(mean);
}

/// Whether a run file can hold a model of that name: letters, digits, '.', '_' and '-'.
bool is_model_name(const std::string& name);

/// Whether a file can describe so many heads: it has a byte for each, or it is small and names no more than the largest
/// models have. Tables and grids of heads are made from these numbers.
bool fits_heads(const Hdf5File& file, std::int64_t layers, std::int64_t heads);

/// The parts of a trace that stay in the file until they are asked for.
struct FileTraceParts {
  std::unique_ptr<const TraceSource> source;
  std::shared_ptr<const QueryKeyStore> store;  ///< null where none of its arrays was kept
};

/// Finds the arrays of a model (kTraceArrays) and checks their types, shapes and places, without reading them.
/// @param layers  the group of that name, if there is one
/// @param info    V and D are set from the arrays that have them
/// @throws Error naming the object
FileTraceParts locate_trace_parts(const std::shared_ptr<const Hdf5File>& file, const Hdf5Object& model,
                                  const std::optional<Hdf5Object>& layers, TraceInfo& info, Hdf5Account& account);

/// An array that is not one of a layer, if its group is there.
/// @throws Error where the group is there and the array is not
std::optional<Hdf5Object> find_array(const Hdf5Object& model, const ArraySpec& spec, int index = 0);

}  // namespace foxscope
