#include "backend/eval/experts/expert_table.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "backend/base/csv_field.h"
#include "backend/base/error.h"
#include "backend/base/number_ranges.h"
#include "backend/model/spec/model_config.h"
#include "backend/trace/mixer_text.h"
#include "backend/trace/token_strings.h"

namespace foxscope {
namespace {

/// A configuration that cannot be read is an error where its model is opened, and not here.
std::optional<ModelConfig> config_of(const TraceInfo& info) {
  if (info.config.empty()) return std::nullopt;
  try {
    return ModelConfig::from_json(info.config, info.name);
  } catch (const Error&) {
    return std::nullopt;
  }
}

int experts_in(const std::optional<ModelConfig>& config, int layer) {
  if (!config || layer < 0 || layer >= config->layers) return 0;
  const ExpertMixture* const mixture = config->mixture_at(layer);
  return mixture == nullptr ? 0 : mixture->experts;
}

std::vector<int> layers_with_experts(const Trace& run) {
  std::vector<int> layers;
  for (int layer = 0; layer < run.info().layers; ++layer) {
    if (has_experts(run, layer)) layers.push_back(layer);
  }
  return layers;
}

[[noreturn]] void refuse_without(const Trace& run, const std::string& where) {
  const std::vector<int> layers = layers_with_experts(run);
  throw Error(fmt::format("model '{}': {} no experts{}", run.info().name, where,
                          layers.empty() ? "" : ": layers with experts are " + ranges_text(layers)));
}

ExpertTable table_of(std::shared_ptr<const Trace> run, int layer) {
  std::vector<ExpertUse> use = expert_use(*run, layer, experts_of(run->info(), layer), ExpertTable::kTokens);
  return {std::move(run), layer, std::move(use)};
}

}  // namespace

std::optional<bool> is_mixture(const TraceInfo& info) {
  const std::optional<ModelConfig> config = config_of(info);
  return config ? std::optional(config->mixture.has_value()) : std::nullopt;
}

int experts_of(const TraceInfo& info, int layer) { return experts_in(config_of(info), layer); }

std::vector<std::string> layer_texts(const TraceInfo& info) {
  const bool all_mix = std::ranges::all_of(info.mixers, [](const LayerMixer& mixer) { return mixer.kind().mixes; });
  const std::optional<ModelConfig> config = all_mix ? std::nullopt : config_of(info);
  std::vector<std::string> texts;
  for (int layer = 0; layer < info.layers; ++layer) {
    const bool experts = !info.mixer(layer).kind().mixes && experts_in(config, layer) > 0;
    texts.push_back(experts ? "experts" : mixer_text(info, layer));
  }
  return texts;
}

double ExpertTable::share(const ExpertUse& use) const {
  return static_cast<double>(use.positions) / static_cast<double>(positions());
}

double ExpertTable::heaviest_share(const ExpertUse& use) const {
  return static_cast<double>(use.heaviest) / static_cast<double>(positions());
}

std::string ExpertTable::string(const ExpertUse::Token& token) const {
  return read_string(*run->tokens(), token.position);
}

ExpertTable expert_table(std::shared_ptr<const Trace> run, int layer) {
  static_cast<void>(run->experts(layer));  // says what is missing
  if (!has_experts(*run, layer)) refuse_without(*run, fmt::format("layer {} has", layer));
  return table_of(std::move(run), layer);
}

std::vector<ExpertTable> expert_tables(const std::shared_ptr<const Trace>& run) {
  static_cast<void>(run->experts(0));
  std::vector<ExpertTable> tables;
  for (const int layer : layers_with_experts(*run)) tables.push_back(table_of(run, layer));
  if (tables.empty()) refuse_without(*run, "its layers have");
  return tables;
}

std::string csv_of(std::span<const ExpertTable> tables) {
  std::string csv = "model,layer,expert,positions,share,heaviest,heaviest_share,mean_weight";
  for (std::size_t n = 1; n <= ExpertTable::kTokens; ++n)
    fmt::format_to(std::back_inserter(csv), ",token_{0},count_{0}", n);
  csv += '\n';
  for (const ExpertTable& table : tables) {
    for (const ExpertUse& use : table.experts) {
      fmt::format_to(std::back_inserter(csv), "{},{},{},{},{},{},{},{}", csv_field(table.run->info().name), table.layer,
                     use.expert, use.positions, table.share(use), use.heaviest, table.heaviest_share(use),
                     std::isnan(use.mean_weight) ? std::string() : fmt::format("{}", use.mean_weight));
      for (std::size_t n = 0; n < ExpertTable::kTokens; ++n) {
        if (n < use.tokens.size()) {
          fmt::format_to(std::back_inserter(csv), ",{},{}", csv_field(table.string(use.tokens[n])),
                         use.tokens[n].count);
        } else {
          csv += ",,";
        }
      }
      csv += '\n';
    }
  }
  return csv;
}

}  // namespace foxscope
