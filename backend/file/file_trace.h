#pragma once

#include <memory>
#include <optional>
#include <string>

#include "backend/file/hdf5_dataset.h"
#include "backend/trace/trace.h"

namespace foxscope {

/// Whether a run file can hold a model of that name: letters, digits, '.', '_' and '-'.
bool is_model_name(const std::string& name);

/// Whether a file can tell of so many heads: each takes a byte of it, or a small file names no more than the largest
/// models have. Tables and grids of heads are made from these numbers.
bool fits_heads(const Hdf5File& file, std::int64_t layers, std::int64_t heads);

/// What of a trace stays in the file until it is asked for.
struct FileTraceParts {
  std::unique_ptr<const TraceSource> source;
  std::shared_ptr<const QueryKeyStore> query_key;  ///< null where they were not kept
};

/// Finds the larger arrays of a model and checks their types, shapes and places, without reading them.
/// @throws Error naming the object
FileTraceParts locate_trace_parts(const std::shared_ptr<const Hdf5File>& file, const Hdf5Object& model,
                                  const std::optional<Hdf5Object>& layers, const TraceInfo& info, Hdf5Account& account);

}  // namespace foxscope
