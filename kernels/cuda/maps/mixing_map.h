#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/maps/pooled_map.h"
#include "kernels/cuda/stream.h"
#include "kernels/status.h"

namespace foxscope::kernels::cuda {

/// How a linear mixer forgets. With y_i = sum over j <= i of M_ij v_j:
enum class MixingKind {
  head_decay,     ///< Mamba-2, RetNet, linear attention: M_ij = (q_i.k_j) beta_j exp(c_i - c_j)
  channel_decay,  ///< GLA, HGRN2, Mamba (beta within k): M_ij = sum over a of q_ia k_ja exp(P_ia - P_ja)
  delta_rule,     ///< r = q_i; for t = i, i-1, ...: M_it = beta_t r.k_t, r <- exp(c_t - c_(t-1)) (r - M_it k_t)
};

/// One head's arrays, in memory of the current device.
struct MixingHead {
  MixingKind kind = MixingKind::head_decay;
  const void* query = nullptr;  ///< [L, d] contiguous, with its scale; null, for channel_decay: 1/d
  const void* key = nullptr;    ///< [L, d]; null with query: 1
  ElementType element = ElementType::bfloat16;
  std::int64_t length = 0;
  std::int64_t head_dim = 0;  ///< d, 1 to 256
  /// [L] c, or [L, d] P of channel_decay, nats, non-increasing; null, not of channel_decay: no decay.
  const double* cumulative_log_decay = nullptr;
  const float* beta = nullptr;  ///< [L], null: ones; not of channel_decay
};

/// Bytes that the tables of a head take: with d rounded up to whole 64 about 4 L d log2(L/64) where each channel
/// decays, 4 L d (of float32 8 L d) where the head does, 12 L d of the delta rule, and 256 L more. Only kind, element,
/// length and head_dim are looked at; 0 where these are not valid.
std::size_t mixing_table_bytes(const MixingHead& head);

/// Fills a head's tables, of which alone its maps are made: queries and keys decayed to common positions, in two
/// bfloat16 numbers each; the entries within each block of 64; of the delta rule what each block makes of a query.
/// Decays enter as differences of float64, never positive where an entry is present. Asynchronous.
/// @param tables  aligned to 16 bytes
/// @returns invalid_argument for sizes and pointers that do not fit each other; unsupported where a block does not fit
///          into the device's shared memory; unavailable without a device; failed where a launch fails
Status prepare_mixing_head(const MixingHead& head, void* tables, Stream stream);

/// A head with its tables.
struct PreparedMixer {
  MixingHead head;               ///< kind, element, length and head_dim
  const void* tables = nullptr;  ///< what prepare_mixing_head filled
};

/// The value of an entry.
enum class MixingValue {
  mixing,  ///< M_ij
  size,    ///< |M_ij|
  share,   ///< |M_ij| / row_sizes_i; 0 in a row of size 0
};

/// Rows x columns of one head onto pixels, as PooledMap has them.
struct MixingMap {
  MixingHead head;               ///< kind, element, length and head_dim, 1 to 128
  const void* tables = nullptr;  ///< what prepare_mixing_head filled
  MixingValue value = MixingValue::mixing;
  const float* row_sizes = nullptr;  ///< [L] sum over j of |M_ij|, for share
  MapReduction reduction = MapReduction::absmax;
  std::int64_t row_begin = 0, row_end = 0;
  std::int64_t column_begin = 0, column_end = 0;
  std::int64_t pixel_rows = 0, pixel_columns = 0;
  /// log2 of the entries that tiles may be left out below, where entries of 0 change no pixel.
  double skip_below = -126;
  float* pixels = nullptr;    ///< [pixel_rows, pixel_columns]
  void* workspace = nullptr;  ///< [mixing_map_workspace_bytes], aligned to 16 bytes
};

std::size_t mixing_map_workspace_bytes(const MixingMap& map);

/// Asynchronous on the stream. Products of two bfloat16 numbers each are three products of bfloat16 (one, where queries
/// and keys are bfloat16 and the head decays as a whole) summed in float32, to about 2^-17 of |q||k|; means are summed
/// in fixed point, so that they are the same in every run.
/// @returns invalid_argument for sizes that do not fit each other; unsupported for tiles that do not fit into the
///          device's shared memory and rows that do not fit into a grid; unavailable without a device; failed where a
///          launch fails
Status mixing_map(const MixingMap& map, Stream stream);

/// Whole rows of one head, each entry a number of its own: what statistics and differences are made of.
struct MixingStrip {
  MixingHead head;               ///< kind, element, length and head_dim
  const void* tables = nullptr;  ///< what prepare_mixing_head filled
  std::int64_t row_begin = 0, row_end = 0;
  /// M_ij, j <= i, at ((i / 64 - row_begin / 64) T + j / 64) 4096 + i % 64 64 + j % 64, T = row_end / 64 rounded up;
  /// aligned to 16 bytes. Blocks of 64 x 64 lie together, as kernels write and read them.
  float* entries = nullptr;
  /// [rows / 16, T] gets 1 where 16 rows (from row_begin / 64 64 on) have entries of a block of keys; elsewhere they
  /// are 0, and nothing is written. Null, with `slot`: all is written.
  std::uint8_t* written = nullptr;
  /// [L] which of `slots` rows of entries, in place of i - row_begin / 64 64, a row is written to; below 0: it is left
  /// out; null: all are written.
  const std::int32_t* slot = nullptr;
  std::int64_t slots = 0;
};

/// Asynchronous on the stream; entries are those of mixing_map, of dimensions up to 256. @returns as mixing_map
Status mixing_strip(const MixingStrip& strip, Stream stream);

}  // namespace foxscope::kernels::cuda
