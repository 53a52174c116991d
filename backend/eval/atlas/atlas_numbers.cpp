#include "backend/eval/atlas/atlas_numbers.h"

#include <algorithm>
#include <limits>
#include <string_view>
#include <utility>

#include "backend/eval/atlas/atlas_sums.h"

namespace foxscope {
namespace {

constexpr std::string_view kTimeOfDecay = "rate_decay_time";

void append(std::vector<AtlasNumber>& list, const std::vector<HeadNumber>& more) {
  for (const HeadNumber& number : more) {
    if (number.name != kTimeOfDecay) list.push_back({std::string(number.name), number.unit});
  }
}

/// The kinds of numbers that a head may have.
struct NumberKinds {
  bool channels = false;
  bool attention = false;
  bool sinks = false;
  bool split = false;
};

std::vector<AtlasNumber> numbers_of(const NumberKinds& kinds) {
  std::vector<AtlasNumber> list;
  HeadStatistics any;
  any.channel_log_decay = {-1};
  any.mass_on_sink = 0;
  append(list, gate_numbers(any));
  if (kinds.channels) append(list, spectrum_numbers(any));
  if (kinds.attention) append(list, attention_numbers(any));
  if (kinds.sinks) append(list, sink_numbers(any));
  if (kinds.split) append(list, split_numbers({}));
  return list;
}

std::vector<AtlasNumber> profiles_of(const NumberKinds& kinds) {
  std::vector<AtlasNumber> list;
  if (kinds.attention) list = {{"mass", "1"}, {"mass_without_first", "1"}};
  if (kinds.split) {
    list.insert(list.end(), {{"mass_without_gate", "1"},
                             {"mass_without_gate_without_first", "1"},
                             {"mass_without_content", "1"},
                             {"mass_without_content_without_first", "1"},
                             {"logit_content", "nats"},
                             {"logit_decay", "nats"}});
  }
  return list;
}

std::size_t count_masses(const std::vector<AtlasNumber>& profiles) {
  return static_cast<std::size_t>(
      std::ranges::count_if(profiles, [](const AtlasNumber& one) { return one.name.starts_with("mass"); }));
}

std::vector<AtlasNumber> with_units(const std::vector<std::string>& names, const std::vector<AtlasNumber>& known) {
  std::vector<AtlasNumber> list;
  for (const std::string& name : names) {
    const auto found = std::ranges::find(known, name, &AtlasNumber::name);
    list.push_back({name, found == known.end() ? "1" : found->unit});
  }
  return list;
}

}  // namespace

std::size_t gate_number_count() {
  static const std::size_t count = numbers_of({}).size();
  return count;
}

AtlasNumbers::AtlasNumbers(const TraceInfo& info, std::int64_t rows) {
  NumberKinds kinds;
  kinds.attention = rows != 0;
  for (int layer = 0; layer < info.layers; ++layer) {
    const LayerMixer mixer = info.mixer(layer);
    kinds.channels = kinds.channels || mixer.decays_by_channel();
    kinds.sinks = kinds.sinks || (rows != 0 && mixer.sinks);
    kinds.split = kinds.split || (rows == AtlasShape::kAllRows && mixer.has_softmax());
  }
  numbers = numbers_of(kinds);
  profiles = profiles_of(kinds);
  masses = count_masses(profiles);
}

AtlasNumbers::AtlasNumbers(const std::vector<std::string>& names, const std::vector<std::string>& profile_names) {
  const NumberKinds all{true, true, true, true};
  numbers = with_units(names, numbers_of(all));
  profiles = with_units(profile_names, profiles_of(all));
  masses = count_masses(profiles);
}

std::vector<HeadNumber> AtlasNumbers::of(const HeadMeasures& measures) const {
  std::vector<HeadNumber> all = gate_numbers(measures.statistics);
  const auto take = [&](std::vector<HeadNumber> more) {
    all.insert(all.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
  };
  take(spectrum_numbers(measures.statistics));
  if (measures.statistics.has_attention) take(attention_numbers(measures.statistics));
  take(sink_numbers(measures.statistics));
  if (measures.split) take(split_numbers(*measures.split));
  // Both lists are in one order.
  std::vector<HeadNumber> found;
  std::size_t at = 0;
  for (const AtlasNumber& number : numbers) {
    std::size_t here = at;
    while (here < all.size() && all[here].name != number.name) ++here;
    if (here == all.size()) {
      found.push_back({number.name, "", std::numeric_limits<double>::quiet_NaN()});
      continue;
    }
    found.push_back(std::move(all[here]));
    at = here + 1;
  }
  return found;
}

}  // namespace foxscope
