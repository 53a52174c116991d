#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "backend/agent/fields.h"
#include "backend/map/map_line.h"
#include "backend/map/map_shades.h"
#include "backend/map/pair_reading.h"
#include "backend/map/statistics/decay_split.h"
#include "backend/map/statistics/distance_summary.h"
#include "backend/map/statistics/head_statistics.h"
#include "backend/map/statistics/pruning_bound.h"

namespace foxscope {

// The structs of the backend that travel, field by field (fields.h). They stand in the namespace of the structs, where
// the writer and the reader find them.

template <typename Visit>
void fields(Visit& visit, Range& range) {
  visit("begin", range.begin);
  visit("end", range.end);
}

template <typename Visit>
void fields(Visit& visit, LayerMixer& mixer) {
  visit("mixer", mixer.mixer);
  visit("decay", mixer.decay);
  for (const MixerExtent& extent : kMixerExtents) visit(extent.name, mixer.*extent.member);
  visit("sinks", mixer.sinks);
  visit("path", mixer.path);
}

template <typename Visit>
void fields(Visit& visit, TraceInfo& info) {
  visit("layers", info.layers);
  visit("heads", info.heads);
  visit("key_heads", info.key_heads);
  visit("length", info.length);
  visit("head_dim", info.head_dim);
  visit("vocabulary_size", info.vocabulary_size);
  visit("hidden_size", info.hidden_size);
  visit("chosen_experts", info.chosen_experts);
  visit("mixers", info.mixers);
  visit("name", info.name);
  visit("model_type", info.model_type);
  visit("config", info.config);
  visit("weights_sha256", info.weights_sha256);
  visit("device", info.device);
  visit("dtype", info.dtype);
  visit("attention_kernel", info.attention_kernel);
  visit("softmax_scale", info.softmax_scale);
  visit("window_size", info.window_size);
  visit("window_sizes", info.window_sizes);
  visit("logit_cap", info.logit_cap);
  visit("pruning_tolerance", info.pruning_tolerance);
  visit("forgetting", info.forgetting);
  visit("intervention", info.intervention);
  visit("saliency_target", info.saliency_target);
  visit("unchecked", info.unchecked);
}

template <typename Visit>
void fields(Visit& visit, Text& text) {
  visit("content", text.content);
  visit("sha256", text.sha256);
  visit("unread_bytes", text.unread_bytes);
  visit("cut_word", text.cut_word);
}

template <typename Visit>
void fields(Visit& visit, Shades& shades) {
  visit("logarithmic", shades.logarithmic);
  visit("lower", shades.lower);
  visit("upper", shades.upper);
  visit("blank_below", shades.blank_below);
}

template <typename Visit>
void fields(Visit& visit, MapRequest& request) {
  visit("quantity", request.quantity);
  visit("reduction", request.reduction);
  visit("rows", request.rows);
  visit("columns", request.columns);
  visit("pixel_rows", request.pixel_rows);
  visit("pixel_columns", request.pixel_columns);
  visit("skip_tolerance", request.skip_tolerance);
  visit("first_key", request.first_key);
  visit("channel", request.channel);
  visit("distances", request.distances);
  visit("shades", request.shades);
}

template <typename Visit>
void fields(Visit& visit, Image& image) {
  visit("rows", image.rows);
  visit("columns", image.columns);
  visit("value", image.value);
}

template <typename Visit>
void fields(Visit& visit, ShadedImage& image) {
  visit("rows", image.rows);
  visit("columns", image.columns);
  visit("levels", image.levels);
  visit("index", image.index);
  visit("steps", image.steps);
  visit("differences", image.differences);
  visit("packed", image.packed);
  visit("side", image.side);
}

template <typename Visit>
void fields(Visit& visit, MapLine& line) {
  visit("along", line.along);
  visit("at", line.at);
}

template <typename Visit>
void fields(Visit& visit, LineRequest& request) {
  visit("quantity", request.quantity);
  visit("first_key", request.first_key);
  visit("line", request.line);
  visit("positions", request.positions);
}

template <typename Visit>
void fields(Visit& visit, PairReading& reading) {
  visit("log_forget", reading.log_forget);
  visit("forget", reading.forget);
  visit("forward_survival", reading.forward_survival);
  visit("survives_text", reading.survives_text);
  visit("in_window", reading.in_window);
  visit("has_attention", reading.has_attention);
  visit("logit", reading.logit);
  visit("attention", reading.attention);
  visit("sink_share", reading.sink_share);
  visit("has_mixing", reading.has_mixing);
  visit("mixing", reading.mixing);
}

template <typename Visit>
void fields(Visit& visit, StatisticsOptions& options) {
  visit("with_attention", options.with_attention);
  visit("events", options.events);
  visit("rows", options.rows);
}

template <typename Visit>
void fields(Visit& visit, Quartiles& quartiles) {
  visit("lower", quartiles.lower);
  visit("median", quartiles.median);
  visit("upper", quartiles.upper);
  visit("cut_off_share", quartiles.cut_off_share);
}

template <typename Visit>
void fields(Visit& visit, ForgettingEvent& event) {
  visit("position", event.position);
  visit("forget_gate", event.forget_gate);
}

// Mass by distance stays where it is: 1 MB a head. What is made of it is a DistanceSummary.
template <typename Visit>
void fields(Visit& visit, DistanceProfile& profile) {
  visit("d50", profile.d50);
  visit("d90", profile.d90);
}

template <typename Visit>
void fields(Visit& visit, ProfileSketch& sketch) {
  visit("area", sketch.area);
}

template <typename Visit>
void fields(Visit& visit, DistanceSummary& summary) {
  visit("bins", summary.bins);
  visit("bins_without_first", summary.bins_without_first);
  visit("sketch", summary.sketch);
}

template <typename Visit>
void fields(Visit& visit, AttentionSpread& spread) {
  visit("entropy", spread.entropy);
  visit("mass_on_first", spread.mass_on_first);
  visit("mass_on_self", spread.mass_on_self);
  visit("mass_on_sink", spread.mass_on_sink);
  visit("mean_log_decay", spread.mean_log_decay);
  visit("distance", spread.distance);
  visit("distance_without_first", spread.distance_without_first);
  visit("rows_without_first", spread.rows_without_first);
  visit("rows_up_to_local", spread.rows_up_to_local);
  visit("rows_up_to_long", spread.rows_up_to_long);
  visit("square_without_first", spread.square_without_first);
  visit("on_repeats", spread.on_repeats);
  visit("repeats", spread.repeats);
}

template <typename Visit>
void fields(Visit& visit, SaliencyEvent& event) {
  visit("position", event.position);
  visit("saliency", event.saliency);
}

template <typename Visit>
void fields(Visit& visit, HeadSaliency& saliency) {
  visit("scale", saliency.scale);
  visit("absolute", saliency.absolute);
  visit("per_nat", saliency.per_nat);
  visit("events", saliency.events);
}

template <typename Visit>
void fields(Visit& visit, ProfileErrors& errors) {
  visit("d50", errors.d50);
  visit("d90", errors.d90);
  visit("mass", errors.mass);
  visit("within", errors.within);
}

template <typename Visit>
void fields(Visit& visit, SpreadErrors& errors) {
  visit("rows", errors.rows);
  visit("entropy", errors.entropy);
  visit("mass_on_first", errors.mass_on_first);
  visit("mass_on_self", errors.mass_on_self);
  visit("mass_on_sink", errors.mass_on_sink);
  visit("mean_log_decay", errors.mean_log_decay);
  visit("distance", errors.distance);
  visit("distance_without_first", errors.distance_without_first);
  visit("label_scores", errors.label_scores);
}

template <typename Visit>
void fields(Visit& visit, HeadStatistics& statistics) {
  fields(visit, static_cast<AttentionSpread&>(statistics));
  visit("layer", statistics.layer);
  visit("head", statistics.head);
  visit("rate_decay_time", statistics.rate_decay_time);
  visit("mean_log_gate", statistics.mean_log_gate);
  visit("gate_quantile", statistics.gate_quantile);
  visit("backward_horizon", statistics.backward_horizon);
  visit("forward_survival", statistics.forward_survival);
  visit("strongest_events", statistics.strongest_events);
  visit("channel_log_decay", statistics.channel_log_decay);
  visit("has_attention", statistics.has_attention);
  visit("label_scores", statistics.label_scores);
  visit("errors", statistics.errors);
  visit("saliency", statistics.saliency);
}

template <typename Visit>
void fields(Visit& visit, DistanceBin& bin) {
  visit("from", bin.from);
  visit("to", bin.to);
}

template <typename Visit>
void fields(Visit& visit, LogitMeans& means) {
  visit("distance", means.distance);
  visit("content", means.content);
  visit("decay", means.decay);
}

template <typename Visit>
void fields(Visit& visit, Locality& locality) {
  visit("uniform", locality.uniform);
  visit("decay_only", locality.decay_only);
  visit("content_only", locality.content_only);
  visit("both", locality.both);
}

template <typename Visit>
void fields(Visit& visit, DecaySplit& split) {
  visit("without_gate", split.without_gate);
  visit("without_content", split.without_content);
  visit("locality", split.locality);
  visit("locality_without_first", split.locality_without_first);
  visit("divergence", split.divergence);
  visit("logits", split.logits);
}

template <typename Visit>
void fields(Visit& visit, PruningBound& bound) {
  visit("largest_logit", bound.largest_logit);
  visit("threshold", bound.threshold);
  visit("first_kept", bound.first_kept);
  visit("entries", bound.entries);
  visit("skipped", bound.skipped);
}

}  // namespace foxscope

namespace foxscope::agent {

/// Words of an enumeration from a table {value, word}.
template <typename T, std::size_t N>
struct WordTable {
  std::pair<T, const char*> rows[N];

  [[nodiscard]] constexpr const char* word(T value) const {
    for (const auto& [known, word] : rows) {
      if (known == value) return word;
    }
    return "";
  }
  [[nodiscard]] T value(const std::string& wanted) const {
    for (const auto& [value, word] : rows) {
      if (wanted == word) return value;
    }
    throw ProtocolError(fmt::format("a message has a word that is not known here: {}", wanted.substr(0, 64)));
  }
};

template <>
struct WordOf<Quantity> {
  static std::string to_word(Quantity value) { return to_string(value); }
  static Quantity from_word(const std::string& word) { return quantity_from_string(word); }
};
template <>
struct WordOf<Reduction> {
  static std::string to_word(Reduction value) { return to_string(value); }
  static Reduction from_word(const std::string& word) { return reduction_from_string(word); }
};
template <>
struct WordOf<DType> {
  static std::string to_word(DType value) { return to_string(value); }
  static DType from_word(const std::string& word) { return dtype_from_string(word); }
};
template <>
struct WordOf<Mixer> {
  static std::string to_word(Mixer value) { return to_string(value); }
  static Mixer from_word(const std::string& word) {
    if (const auto mixer = parse_mixer(word)) return *mixer;
    fail_field("mixer", "is not known here");
  }
};
template <>
struct WordOf<Decay> {
  static std::string to_word(Decay value) { return to_string(value); }
  static Decay from_word(const std::string& word) {
    if (const auto decay = parse_decay(word)) return *decay;
    fail_field("decay", "is not known here");
  }
};
template <>
struct WordOf<FirstKey> {
  static constexpr WordTable<FirstKey, 2> kWords{{{FirstKey::counted, "counted"}, {FirstKey::left_out, "left_out"}}};
  static std::string to_word(FirstKey value) { return kWords.word(value); }
  static FirstKey from_word(const std::string& word) { return kWords.value(word); }
};
template <>
struct WordOf<MapLine::Along> {
  static constexpr WordTable<MapLine::Along, 3> kWords{
      {{MapLine::Along::row, "row"}, {MapLine::Along::column, "column"}, {MapLine::Along::diagonal, "diagonal"}}};
  static std::string to_word(MapLine::Along value) { return kWords.word(value); }
  static MapLine::Along from_word(const std::string& word) { return kWords.value(word); }
};
/// An array of a trace is called by its path in a run file (docs/files.md).
template <>
struct WordOf<TraceArray> {
  static std::string to_word(TraceArray value) { return spec_of(value).path; }
  static TraceArray from_word(const std::string& word) {
    for (const ArraySpec& spec : kTraceArrays) {
      if (word == spec.path) return spec.array;
    }
    fail_field("array", "is not known here");
  }
};

}  // namespace foxscope::agent
