#include "backend/trace/mixers/layer_mixer.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "backend/base/index.h"

namespace foxscope {
namespace {

constexpr std::array<const char*, kDecays> kDecayNames = {"none", "head", "channel", "rates"};

}  // namespace

const char* to_string(Mixer mixer) { return kind_of(mixer).name; }

std::optional<Mixer> parse_mixer(std::string_view name) {
  const auto* const found =
      std::ranges::find(kMixerKinds, name, [](const MixerKind& kind) { return std::string_view(kind.name); });
  if (found == kMixerKinds.end()) return std::nullopt;
  return found->mixer;
}

const char* to_string(Decay decay) { return kDecayNames[index_of(decay)]; }

std::optional<Decay> parse_decay(std::string_view name) {
  const auto* const found = std::ranges::find(kDecayNames, name);
  if (found == kDecayNames.end()) return std::nullopt;
  return static_cast<Decay>(found - kDecayNames.begin());
}

LayerMixer attention_layer(int heads, int key_heads, int head_dim) {
  LayerMixer mixer;
  mixer.heads = mixer.query_heads = heads;
  mixer.key_heads = mixer.value_heads = key_heads;
  mixer.head_dim = mixer.value_dim = head_dim;
  return mixer;
}

std::string mixer_problem(const LayerMixer& mixer) {
  if (!mixer.kind().mixes) {
    return mixer == LayerMixer{.mixer = mixer.mixer, .decay = Decay::none} ? "" : "a layer without a mixer has heads";
  }
  if (mixer.heads < 1) return "there are no heads";
  for (const auto& [heads, what] : {std::pair(mixer.query_heads, "query"), std::pair(mixer.key_heads, "key"),
                                    std::pair(mixer.value_heads, "value")}) {
    if (heads < 1 || mixer.heads % heads != 0) {
      return fmt::format("{} heads cannot share {} {} heads", mixer.heads, heads, what);
    }
  }
  if (mixer.steps() > 1 && (mixer.key_heads != mixer.heads || mixer.value_heads != mixer.heads)) {
    return fmt::format("{} heads that are steps cannot share keys or values", mixer.heads);
  }
  if (mixer.head_dim < 1 || mixer.value_dim < 1) return "a head has no channels";
  if (mixer.kind().words[index_of(mixer.decay)] == nullptr) {
    return fmt::format("{} cannot have a decay by {}", to_string(mixer.mixer), to_string(mixer.decay));
  }
  return {};
}

const char* mixer_words(const LayerMixer& mixer) {
  if (mixer.path) return "PaTH attention";
  const char* const words = mixer.kind().words[index_of(mixer.decay)];
  return words != nullptr ? words : mixer.kind().name;
}

}  // namespace foxscope
