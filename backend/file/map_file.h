#pragma once

#include <filesystem>
#include <span>
#include <string>

#include "backend/base/job.h"
#include "backend/file/provenance.h"
#include "backend/map/map.h"

namespace foxscope {

/// One map to be written to an HDF5 file: requests differ in quantity only.
struct NamedMap {
  std::string name;  ///< MODEL_LNN_HNN_QUANTITY
  MapRequest request;
};

/// Computes maps and writes them as NXdata groups under /maps, stripe by stripe: never a whole map in memory.
/// @returns false if the job was stopped (nothing is left behind)
/// @throws Error naming the file and the remedy; UsageError for no maps, equal names, or what compute_map refuses
bool write_maps_hdf5(const std::filesystem::path& path, std::span<const NamedMap> maps, const Provenance& provenance,
                     Overwrite overwrite, const Job& job);

/// Computes one map and writes it as .npy (float32, C order), stripe by stripe.
bool write_map_npy(const std::filesystem::path& path, const MapRequest& request, Overwrite overwrite, const Job& job);

/// Computes one map and writes it as .csv (RFC 4180), stripe by stripe, with the names of its keys in the first line
/// and of its queries in the first column, "query" in the corner: "12 token", a position, a blank and the token that it
/// reads (read_string), or, where entries are pooled, "12:16", positions from 12 up to, not including, 16. No name is
/// there twice. Absent entries are `nan`. By distance rows are bins of distances, the nearest first, named "3" or
/// "5:9", and columns are queries, with "distance" in the corner. Such requests repeat no column.
bool write_map_csv(const std::filesystem::path& path, const MapRequest& request, Overwrite overwrite, const Job& job);

}  // namespace foxscope
