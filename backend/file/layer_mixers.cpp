#include "backend/file/layer_mixers.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "backend/base/error.h"
#include "backend/file/hdf5/hdf5_heap.h"
#include "backend/file/run_sizes.h"
#include "backend/text/tokenizer.h"

namespace foxscope {
namespace {

constexpr std::int64_t kMostExtent = 65'536;

std::string group_of_layer(const std::string& model, int layer) { return fmt::format("{}/layers/{:02}", model, layer); }

/// A word of a list that this program knows.
template <typename Word>
Word read_word(const Hdf5Object& layer, const char* attribute, Hdf5Heap& heap,
               std::optional<Word> (*parse)(std::string_view)) {
  const std::string name = layer.text_attribute(attribute, heap).value_or("");
  const std::optional<Word> word = parse(name);
  if (word) return *word;
  const std::string where = layer.path() + "@" + attribute;
  if (find_invalid_utf8(name)) layer.file().fail_damaged(where, "is not UTF-8");
  layer.file().fail_damaged(where, fmt::format("is '{}', which is not known", name));
}

LayerMixer read_mixer(const Hdf5Object& layer, Hdf5Heap& heap) {
  LayerMixer mixer;
  mixer.mixer = read_word<Mixer>(layer, "mixer", heap, parse_mixer);
  mixer.decay = read_word<Decay>(layer, "decay", heap, parse_decay);
  const std::int64_t least = mixer.kind().mixes ? 1 : 0;
  for (const MixerExtent& extent : kMixerExtents) {
    const std::int64_t value = layer.integer_attribute(extent.name).value_or(0);
    if (value < least || value > kMostExtent) {
      layer.file().fail_damaged(layer.path() + "@" + extent.name,
                                fmt::format("is {}, not from {} to {}", value, least, kMostExtent));
    }
    mixer.*extent.member = static_cast<int>(value);
  }
  const std::int64_t sinks = layer.integer_attribute("sinks").value_or(0);
  if (sinks != 0 && (sinks != 1 || !mixer.has_softmax())) {
    layer.file().fail_damaged(layer.path() + "@sinks", fmt::format("is {}, not 0, or 1 of softmax attention", sinks));
  }
  mixer.sinks = sinks == 1;
  const std::int64_t path = layer.integer_attribute("path").value_or(0);
  if (path != 0 && (path != 1 || !mixer.has_softmax())) {
    layer.file().fail_damaged(layer.path() + "@path", fmt::format("is {}, not 0, or 1 of softmax attention", path));
  }
  mixer.path = path == 1;
  if (const std::string problem = mixer_problem(mixer); !problem.empty()) {
    layer.file().fail_damaged(layer.path(), problem);
  }
  return mixer;
}

}  // namespace

void write_mixers(Hdf5Writer& writer, const std::string& group, const TraceInfo& info) {
  std::vector<std::string> names;
  for (int layer = 0; layer < info.layers; ++layer) {
    const LayerMixer mixer = info.mixer(layer);
    names.emplace_back(to_string(mixer.mixer));
    const std::string of_layer = group_of_layer(group, layer);
    // Attention has a decay where it forgets; a linear mixer's says which arrays it has.
    const bool undecayed = mixer.has_softmax() && !forgets(info, layer);
    writer.attribute(of_layer, "mixer", to_string(mixer.mixer));
    writer.attribute(of_layer, "decay", to_string(undecayed ? Decay::none : mixer.decay));
    for (const MixerExtent& extent : kMixerExtents) {
      writer.attribute(of_layer, extent.name, std::int64_t{mixer.*extent.member});
    }
    if (mixer.sinks) writer.attribute(of_layer, "sinks", std::int64_t{1});
    if (mixer.path) writer.attribute(of_layer, "path", std::int64_t{1});
  }
  writer.attribute(group, "mixers", names);
}

void write_attention(Hdf5Writer& writer, const std::string& group, const TraceInfo& info) {
  if (info.logit_cap > 0) writer.attribute(group, "logit_cap", info.logit_cap);
  if (!has_windows_by_layer(info)) return;
  for (int layer = 0; layer < info.layers; ++layer) {
    writer.attribute(group_of_layer(group, layer), "window_size", window_of(info, layer));
  }
}

void read_attention(const Hdf5Object& model, TraceInfo& info) {
  info.logit_cap = model.real_attribute("logit_cap").value_or(0);
  if (!(info.logit_cap >= 0) || !std::isfinite(info.logit_cap)) {
    model.file().fail_damaged(model.path() + "@logit_cap", fmt::format("is {}, not 0 or above", info.logit_cap));
  }
  const std::optional<Hdf5Object> layers = model.find("layers");
  if (!layers) return;
  std::vector<std::int64_t> windows;
  for (int layer = 0; layer < info.layers; ++layer) {
    const std::optional<Hdf5Object> of_layer = layers->find(fmt::format("{:02}", layer));
    const std::int64_t window =
        of_layer ? of_layer->integer_attribute("window_size").value_or(info.window_size) : info.window_size;
    if (window < 0 || window > kMostWindow) {
      model.file().fail_damaged(of_layer->path() + "@window_size",
                                fmt::format("is {}, not from 0 to {}", window, kMostWindow));
    }
    windows.push_back(window);
  }
  const auto differs = [&](std::int64_t window) { return window != info.window_size; };
  if (std::ranges::any_of(windows, differs)) info.window_sizes = std::move(windows);
}

void read_mixers(const Hdf5Object& model, Hdf5Heap& heap, TraceInfo& info, const FaultyMixer& faulty) {
  const bool gated = model.integer_attribute("gated").value_or(1) != 0;
  info.forgetting.assign(static_cast<std::size_t>(info.layers), gated);
  if (!model.has_attribute("mixers")) return;
  const std::optional<Hdf5Object> layers = model.find("layers");
  if (!layers) model.file().fail_damaged(model.path() + "/layers", "is missing");
  std::vector<std::optional<LayerMixer>> read;
  std::optional<LayerMixer> known;
  for (int layer = 0; layer < info.layers; ++layer) {
    try {
      read.emplace_back(read_mixer(layers->child(fmt::format("{:02}", layer)), heap));
      known = read.back();
    } catch (const Error& error) {
      if (!faulty) throw;
      faulty(layer, error);
      read.emplace_back();
    }
  }
  if (!known) return;
  std::vector<LayerMixer> mixers;
  mixers.reserve(read.size());
  for (const std::optional<LayerMixer>& found : read) {
    LayerMixer mixer = found.value_or(*known);
    info.forgetting[mixers.size()] = gated && mixer.decays();
    if (mixer.has_softmax()) mixer.decay = LayerMixer().decay;
    mixers.push_back(mixer);
  }
  info.set_mixers(std::move(mixers));
}

}  // namespace foxscope
