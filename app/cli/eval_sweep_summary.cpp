#include "app/cli/eval_sweep_summary.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "app/cli/console.h"
#include "app/cli/eval_loss_summary.h"
#include "app/cli/text_table.h"
#include "app/cli/values.h"
#include "app/description/number_text.h"

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
  const Json quoted = sweep.token[static_cast<std::size_t>(first.position)];
  return fmt::format("{} {}", quoted.dump(-1, ' ', false, Json::error_handler_t::replace), where);
}

Json tokensJson(const SweepEvaluation& sweep, const std::vector<TokenChange>& tokens) {
  Json list = Json::array();
  for (const TokenChange& token : tokens) {
    Json entry{{"position", token.position}};
    if (!sweep.token.empty()) entry["token"] = sweep.token[static_cast<std::size_t>(token.position)];
    entry["change"] = token.change;
    list.push_back(std::move(entry));
  }
  return list;
}

}  // namespace

std::string sweepText(const SweepEvaluation& sweep) {
  std::vector<HeadChange> heads = sweep.changes(1);
  const std::size_t count = heads.size();
  std::stable_sort(heads.begin(), heads.end(), [](const HeadChange& a, const HeadChange& b) {
    return std::abs(a.change.mean.value) > std::abs(b.change.mean.value);
  });
  heads.resize(std::min(heads.size(), kHeadsShown));
  TextTable table({"layer", "head", "nats/token", "perplexity", "hurts most", "helps most"},
                  {right, right, right, right, left, left});
  for (const HeadChange& head : heads) {
    const LossChange& change = head.change;
    table.addRow({std::to_string(head.layer), std::to_string(head.head), estimateText(change.mean, 5),
                  fmt::format("x {:.4f}", change.perplexity_factor()), tokenCell(sweep, change.hurt),
                  tokenCell(sweep, change.helped)});
  }
  std::string text = fmt::format("{}: {:.4f} nats/token over {} tokens; change by each head, {}\n", sweep.info.name,
                                 sweep.mean_loss(), countText(sweep.info.length), sweep.change.kind_words()) +
                     table.text();
  if (count > heads.size()) text += fmt::format("{} more heads change less: --json has all\n", count - heads.size());
  if (!heads.empty() && !std::isfinite(heads.front().change.mean.error)) {
    text += fmt::format("no errors: {} tokens are one block of the estimate, of at least {}\n", sweep.info.length,
                        heads.front().change.block);
  }
  return text;
}

std::string sweepJson(const std::string& kind, const std::string& path, const SweepEvaluation& sweep,
                      const SweepResult* result) {
  Json json;
  if (!kind.empty()) json["kind"] = kind;
  json[kind.empty() ? "output" : "path"] = path;
  json["name"] = sweep.info.name;
  json["change"] = sweep.change.kind_text();
  json["intervention"] = sweep.info.intervention;
  json["source"] = sweep.source;
  json["tokens"] = sweep.info.length;
  json["mean_loss"] = sweep.mean_loss();
  json["error_block"] = error_block_length(sweep.info.length);
  json["dtype"] = to_string(sweep.info.dtype);
  json["device"] = sweep.info.device;
  json["weights_sha256"] = sweep.info.weights_sha256;
  if (result != nullptr) {
    json["heads_resumed"] = result->resumed;
    json["seconds"] = {{"load", result->timing.load_seconds}, {"forward", result->timing.forward_seconds}};
    json["attention_kernel"] = result->timing.attention_kernel;
  }
  json["heads"] = Json::array();
  for (const HeadChange& head : sweep.changes()) {
    const LossChange& change = head.change;
    json["heads"].push_back({{"layer", head.layer},
                             {"head", head.head},
                             {"change", jsonNumber(change.mean.value)},
                             {"change_error", jsonNumber(change.mean.error)},
                             {"perplexity_factor", jsonNumber(change.perplexity_factor())},
                             {"hurt", tokensJson(sweep, change.hurt)},
                             {"helped", tokensJson(sweep, change.helped)}});
  }
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

}  // namespace foxscope::cli
