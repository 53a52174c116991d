#include "app/page/page_heads.h"

#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>

#include "backend/base/index.h"
#include "backend/map/statistics/gate_mean.h"
#include "backend/trace/decay_time.h"
#include "backend/trace/shown_heads.h"

namespace foxscope::page {
namespace {

using figure::HeadIndex;

constexpr double kBase64 = 4.0 / 3;
/// Bytes of a number of a rounded query or key, deflated; measured on the demo models.
constexpr double kBytesOfNumber = 1.5;
constexpr double kBytesOfToken = 24;  ///< its letters in JSON, losses of two models
constexpr double kBytesOfScript = 90e3;

bool keepsGates(const Trace& trace, int layer) {
  const LayerMixer mixer = trace.info().mixer(layer);
  return trace.has(mixer.sums_channels() ? TraceArray::cumulative_log_decay : TraceArray::cumulative_log_gate, layer);
}

/// Heads of one kind of layer, the fastest first where they forget.
using HeadsByKind = std::map<std::pair<std::string, bool>, std::vector<std::pair<double, HeadIndex>>>;

HeadsByKind headsByKind(const Trace& trace) {
  HeadsByKind kinds;
  const TraceInfo& info = trace.info();
  for (int layer = 0; layer < info.layers; ++layer) {
    const LayerMixer mixer = info.mixer(layer);
    const bool decays = forgets(info, layer) && keepsGates(trace, layer) && info.length > 1;
    for (int head = 0; head < mixer.heads; head += shown_step(mixer)) {
      const double time = decays ? decay_time(mean_log_gate(trace, layer, head)) : 0.0;
      kinds[{mixer_words(mixer), decays}].push_back({time, {layer, head}});
    }
  }
  for (auto& [kind, heads] : kinds) {
    std::ranges::stable_sort(heads, {}, [](const auto& head) { return head.first; });
  }
  return kinds;
}

std::vector<HeadIndex> spread(const Trace& trace, std::size_t count) {
  const HeadsByKind kinds = headsByKind(trace);
  std::vector<HeadIndex> chosen;
  std::size_t left = kinds.size();
  for (const auto& [kind, heads] : kinds) {
    const std::size_t share = (count - std::min(count, chosen.size()) + left - 1) / left;
    --left;
    const std::size_t taken = std::min(share, heads.size());
    for (std::size_t n = 0; n < taken; ++n) {
      chosen.push_back(heads[taken == 1 ? heads.size() / 2 : n * (heads.size() - 1) / (taken - 1)].second);
    }
  }
  return chosen;
}

}  // namespace

std::string why_no_decay(const TraceInfo& info, const Trace& trace, int layer) {
  if (std::string reason = why_not(info, layer, Quantity::forget); !reason.empty()) {
    return fmt::format("the {} forgets only what it overwrites, so it has no F", mixer_words(info.mixer(layer)));
  }
  if (forgets(info, layer) && !keepsGates(trace, layer)) return "the run did not keep gates (--keep gates)";
  return {};
}

std::string why_no_mixing(const TraceInfo& info, const Trace& trace, int layer) {
  const LayerMixer mixer = info.mixer(layer);
  const char* letter = mixer.has_softmax() ? "A" : "M";
  if (mixer.erases() && !mixer.erases_own_key()) {
    return fmt::format("a page does not hold {} of the mixer {}", letter, mixer_words(mixer));
  }
  if (!trace.has_attention(layer)) {
    return fmt::format("the run did not keep what {} is computed from (--keep gates,rows,qk)", letter);
  }
  if (forgets(info, layer) && !keepsGates(trace, layer)) return "the run did not keep gates (--keep gates)";
  if (info.length > kLongestMixing) {
    return fmt::format("a page holds {} of texts up to 16,384 tokens, and F of longer ones", letter);
  }
  return {};
}

std::vector<HeadGroup> groupsOf(const PageModel& model) {
  const TraceInfo& info = model.trace->info();
  std::map<std::pair<int, int>, std::vector<int>> by_key;
  for (const HeadIndex& head : model.heads) {
    if (!why_no_mixing(info, *model.trace, head.layer).empty()) continue;
    const LayerMixer mixer = info.mixer(head.layer);
    by_key[{head.layer, shared_head(mixer.heads, mixer.key_heads, head.head)}].push_back(head.head);
  }
  std::vector<HeadGroup> groups;
  for (const auto& [key, heads] : by_key) groups.push_back({model.trace, key.first, key.second, heads});
  return groups;
}

double pageBytes(const std::vector<PageModel>& models) {
  double bytes = kBytesOfScript;
  for (const PageModel& model : models) {
    const TraceInfo& info = model.trace->info();
    const auto length = static_cast<double>(info.length);
    bytes += length * kBytesOfToken;
    for (const HeadIndex& head : model.heads) {
      const LayerMixer mixer = info.mixer(head.layer);
      // Sums are float64, or float32 steps of each channel; normalisers and beta are float32.
      const double sums = mixer.sums_channels() ? 4.0 * mixer.head_dim : 8.0;
      bytes += kBase64 * length * (sums + 4);
    }
    for (const HeadGroup& group : groupsOf(model)) {
      const LayerMixer mixer = info.mixer(group.layer);
      std::set<int> queries;
      for (const int head : group.heads) queries.insert(shared_head(mixer.heads, mixer.query_heads, head));
      bytes += kBase64 * kBytesOfNumber * length * mixer.head_dim * static_cast<double>(queries.size() + 1);
    }
  }
  return bytes;
}

void chooseHeads(std::vector<PageModel>& models) {
  constexpr std::size_t kFewest = 2;
  const std::size_t share = std::max(kFewest, kChosenHeads / std::max<std::size_t>(1, models.size()));
  std::vector<PageModel> all = models;
  for (std::size_t count = share; count >= kFewest; --count) {
    for (std::size_t n = 0; n < models.size(); ++n) {
      if (models[n].heads.empty()) all[n].heads = spread(*models[n].trace, count);
    }
    if (pageBytes(all) <= kWantedPage) break;
  }
  models = std::move(all);
}

}  // namespace foxscope::page
