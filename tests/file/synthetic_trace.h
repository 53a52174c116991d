#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backend/trace/recorder.h"

namespace foxscope::test {

/// What a made-up run looks like.
struct SyntheticRun {
  std::string name = "fox";
  int layers = 2;
  int heads = 4;
  int key_heads = 2;
  int head_dim = 8;
  std::int64_t length = 37;
  DType dtype = DType::float32;
  bool gated = true;
  bool with_text = true;
  std::int64_t window_size = 0;
  std::vector<std::int64_t> window_sizes = {};  ///< of each layer; empty: window_size
  double logit_cap = 0;
  unsigned seed = 1;
  KeepSet keep = {Keep::loss, Keep::gates, Keep::rows, Keep::query_key};
  std::int64_t vocabulary_size = 50;    ///< width of the logits, where kept
  int chosen_experts = 3;               ///< of a position, where kept
  std::vector<LayerMixer> mixers = {};  ///< where given: in place of layers, heads, key_heads and head_dim
};

/// A trace of random numbers that obey what a real one does: c never increases, row normalisers belong to q, k and c,
/// tokens cut a text into bytes, some of them in the middle of a character.
std::shared_ptr<const Trace> make_trace(const SyntheticRun& run);

/// A model with a layer of each kind of mixer, with extents of its own.
std::vector<LayerMixer> all_mixers();
/// Mixers that files of schema 2 lack, and a layer without one.
std::vector<LayerMixer> newer_mixers();
/// Two layers of softmax attention whose heads have sinks.
std::vector<LayerMixer> sink_mixers();
/// Two layers of softmax attention whose keys are passed on from position to position.
std::vector<LayerMixer> path_mixers();

}  // namespace foxscope::test
