#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/stream.h"
#include "kernels/status.h"

namespace foxscope::kernels::cuda {

/// One head's arrays, in memory of the current device. An entry's logarithm is
///   q_i.k_j scale + c_i - c_j - lse_i, for j <= i and i - j < window,
/// of which each term may be left out: so attention without its gate is a head without c and with another lse, and F is
/// a head without queries and lse.
struct MapHead {
  const void* query = nullptr;  ///< [L, d] contiguous; null: no such term
  const void* key = nullptr;    ///< [L, d]; null with query
  ElementType element = ElementType::bfloat16;
  std::int64_t length = 0;
  std::int64_t head_dim = 0;                    ///< 1 to 256
  float scale = 0;                              ///< 1/sqrt(d)
  std::int64_t window = 0;                      ///< keys that a query sees; 0: all before it
  const double* cumulative_log_gate = nullptr;  ///< [L] nats, non-increasing; null: no such term
  const float* log_normalizer = nullptr;        ///< [L] nats; null: no such term
  /// [head_table_bytes] what prepare_map_head makes of queries, keys and gate; needed where there is a gate.
  const void* tables = nullptr;
};

/// Bytes that the tables of a head take.
std::size_t head_table_bytes(std::int64_t length);

/// Fills a head's tables: the gate of each key relative to its block of 64, in two float32 numbers, and the norms by
/// which tiles are left out. Asynchronous.
/// @param tables  aligned to 16 bytes; head.tables is not looked at
Status prepare_map_head(const MapHead& head, void* tables, Stream stream);

/// The value of an entry.
enum class MapValue {
  attention,  ///< 2^(its logarithm): attention, or F
  logit,      ///< q_i.k_j scale alone
  logarithm,  ///< its logarithm, nats
};

/// How the entries of a bin become a pixel; absmax keeps the one of largest size with its sign (of two the positive).
enum class MapReduction { max, mean, min, absmax };

/// Rows [row_begin, row_end) x columns [column_begin, column_end) of one head, or of the difference of two, onto
/// pixel_rows x pixel_columns; bin n of N over [a, b) begins at a + floor(n (b - a) / N). Entries above the diagonal or
/// outside the (narrower) window are absent, not zero; a pixel without entries is NaN, and so is one that has an entry
/// which is NaN; one of a single entry is that entry. Nothing is ever held but pixels and edges.
struct PooledMap {
  MapHead head;
  const MapHead* minus = nullptr;  ///< subtracted entry by entry; null: nothing
  MapValue value = MapValue::attention;
  MapReduction reduction = MapReduction::max;
  std::int64_t row_begin = 0, row_end = 0;
  std::int64_t column_begin = 0, column_end = 0;
  std::int64_t pixel_rows = 0, pixel_columns = 0;
  std::int64_t first_key = 0;  ///< 0, or 1: key 0 is absent
  /// [pixel_columns + 1] edges of bins of distances i - j + 1, from 1 on, not descending, in memory of the host: column
  /// n holds the entries with edge[n] <= i - j + 1 < edge[n + 1], and [column_begin, column_end) are all of them.
  /// Null: columns are keys.
  const int* distance_edges = nullptr;
  /// log2 of the entries that tiles may be left out below; those that are computed are 0 below 2^-126.
  double skip_below = -126;
  float* pixels = nullptr;    ///< [pixel_rows, pixel_columns]
  void* workspace = nullptr;  ///< [pooled_map_workspace_bytes], aligned to 16 bytes
};

std::size_t pooled_map_workspace_bytes(const PooledMap& map);

/// Asynchronous on the stream. Products of bfloat16 are summed in float32, those of float32 too, in parts of 16; gates
/// are differences of float64; means are summed in fixed point, to 2^-108 (logits: 2^-84), so that they
/// are the same in every run.
/// @returns invalid_argument for sizes that do not fit each other, a head dimension above 256, and a gate without
///          tables; unsupported for tiles that do not fit into the device's shared memory and rows that do not fit into
///          a grid; unavailable without a device; failed where a launch fails
Status pooled_map(const PooledMap& map, Stream stream);

}  // namespace foxscope::kernels::cuda
