#include "app/cli/eval/eval_sweep_summary.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "app/cli/console.h"
#include "app/cli/text_table.h"
#include "app/cli/values.h"
#include "app/description/number_text.h"
#include "backend/base/index.h"
#include "backend/base/plural.h"

namespace foxscope::cli {
namespace {

using Json = nlohmann::ordered_json;
using enum TextTable::Align;

constexpr std::size_t kHeadsShown = 20;

/// " the" +1.23 at 17: a token with its change.
std::string tokenCell(const SweepEvaluation& sweep, const std::vector<TokenChange>& tokens) {
  if (tokens.empty()) return "-";
  const TokenChange& first = tokens.front();
  std::string where = fmt::format("{:+.2f} at {}", first.change, first.position);
  if (sweep.token.empty()) return where;
  const Json quoted = sweep.token[index_of(first.position)];
  return fmt::format("{} {}", quoted.dump(-1, ' ', false, Json::error_handler_t::replace), where);
}

Json tokensJson(const SweepEvaluation& sweep, const std::vector<TokenChange>& tokens) {
  Json list = Json::array();
  for (const TokenChange& token : tokens) {
    Json entry{{"position", token.position}};
    if (!sweep.token.empty()) entry["token"] = sweep.token[index_of(token.position)];
    entry["change"] = token.change;
    list.push_back(std::move(entry));
  }
  return list;
}

}  // namespace

std::string sweepText(const SweepEvaluation& sweep, std::optional<double> rate) {
  const std::vector<HeadChange> heads = sweep.changes(1);
  std::vector<Estimate> means;
  for (const HeadChange& head : heads) means.push_back(head.change.mean);
  const std::vector<bool> named = rate ? sweep.discovered(*rate) : std::vector<bool>();
  std::vector<std::size_t> order(heads.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::greater<>(), [&](std::size_t n) { return std::abs(means[n].value); });
  order.resize(std::min(order.size(), kHeadsShown));
  TextTable table({"layer", "head", "nats/token", rate ? fmt::format("at fdr {:g} %", 100 * *rate) : "beyond chance",
                   "perplexity", "hurts most", "helps most"},
                  {right, right, right, left, right, left, left});
  for (const std::size_t n : order) {
    const LossChange& change = heads[n].change;
    const bool marked = rate ? named[n] : beyond_chance(means[n]);
    table.addRow({std::to_string(heads[n].layer), std::to_string(heads[n].head), estimate_text(means[n], 5),
                  marked ? "yes" : "", fmt::format("x {:.4f}", change.perplexity_factor()),
                  tokenCell(sweep, change.hurt), tokenCell(sweep, change.helped)});
  }
  std::string text =
      fmt::format("{}: {:.4f} nats/token over {} {}; change by each head, {}\n", sweep.info.name, sweep.mean_loss(),
                  countText(sweep.info.length), plural(sweep.info.length, "token"), sweep.change.kind_words()) +
      table.text();
  if (heads.size() > order.size()) {
    const std::int64_t more = std::ssize(heads) - std::ssize(order);
    text += fmt::format("{} more {} less: --json has all\n", more, more == 1 ? "head changes" : "heads change");
  }
  text += errors_text(error_blocks(sweep.info.length)) + '\n';
  const std::string beyond = beyond_chance_text(means, rate.value_or(kChance));
  return beyond.empty() ? text : text + beyond + '\n';
}

std::string sweepJson(const std::string& kind, const std::string& path, const SweepEvaluation& sweep,
                      const SweepResult* result, std::optional<double> rate) {
  Json json;
  if (!kind.empty()) json["kind"] = kind;
  json[kind.empty() ? "output" : "path"] = path;
  json["name"] = sweep.info.name;
  json["change"] = sweep.change.kind_text();
  json["intervention"] = sweep.info.intervention;
  json["source"] = sweep.source;
  json["tokens"] = sweep.info.length;
  json["mean_loss"] = sweep.mean_loss();
  const ErrorGroups blocks = error_blocks(sweep.info.length);
  json["error_block"] = blocks.tokens;
  json["error_blocks"] = blocks.count;
  if (rate) json["fdr"] = *rate;
  json["dtype"] = to_string(sweep.info.dtype);
  json["device"] = sweep.info.device;
  json["weights_sha256"] = sweep.info.weights_sha256;
  if (result != nullptr) {
    json["heads_resumed"] = result->resumed;
    json["seconds"] = {{"load", result->timing.load_seconds}, {"forward", result->timing.forward_seconds}};
    json["attention_kernel"] = result->timing.attention_kernel;
  }
  const std::vector<bool> named = rate ? sweep.discovered(*rate) : std::vector<bool>();
  json["heads"] = Json::array();
  for (const HeadChange& head : sweep.changes()) {
    const LossChange& change = head.change;
    Json entry{{"layer", head.layer},
               {"head", head.head},
               {"change", jsonNumber(change.mean.value)},
               {"change_error", jsonNumber(change.mean.error)},
               {"p_value", jsonNumber(p_value(change.mean))},
               {"perplexity_factor", jsonNumber(change.perplexity_factor())},
               {"hurt", tokensJson(sweep, change.hurt)},
               {"helped", tokensJson(sweep, change.helped)}};
    if (rate) entry["discovered"] = static_cast<bool>(named[json["heads"].size()]);
    json["heads"].push_back(std::move(entry));
  }
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

}  // namespace foxscope::cli
