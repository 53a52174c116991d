#include "app/cli/eval/eval_loss_summary.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "app/cli/console.h"
#include "app/cli/text_table.h"
#include "app/description/number_text.h"

namespace foxscope::cli {
namespace {

using Json = nlohmann::ordered_json;
using enum TextTable::Align;

double tokensPerSecond(const LossTiming& timing) {
  return timing.forward_seconds > 0 ? static_cast<double>(timing.tokens) / timing.forward_seconds : 0.0;
}

std::int64_t tokensOf(const EvaluatedModel& model) {
  return std::accumulate(model.losses.tokens.begin(), model.losses.tokens.end(), std::int64_t{0});
}

/// "-" where there is no number.
std::string estimateCell(const std::optional<Estimate>& estimate, int digits) {
  return estimate ? estimate_text(*estimate, digits) : "-";
}

void put(Json& object, const std::string& name, const std::optional<Estimate>& estimate) {
  const auto number = [](double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); };
  object[name] = estimate ? number(estimate->value) : Json(nullptr);
  object[name + "_error"] = estimate ? number(estimate->error) : Json(nullptr);
}

Json modelJson(const EvaluatedModel& model) {
  Json json{{"name", model.info.name}};
  put(json, "nats_per_token", model.nats_per_token());
  put(json, "bits_per_byte", model.bits_per_byte());
  put(json, "perplexity", model.perplexity());
  json["averaged"] = model.averaged;
  json["windows"] = model.losses.windows;
  json["documents"] = model.document_count();
  json["effective_documents"] = model.nats_per_token().over.effective;
  json["tokens"] = tokensOf(model);
  json["dtype"] = to_string(model.info.dtype);
  json["device"] = model.info.device;
  json["pruning_tolerance"] = model.info.pruning_tolerance;
  json["intervention"] = model.info.intervention;
  json["weights_sha256"] = model.info.weights_sha256;
  return json;
}

void addTiming(Json& json, const LossTiming& timing) {
  json["windows_resumed"] = timing.resumed;
  json["tokens_per_second"] = tokensPerSecond(timing);
  json["seconds"] = {{"load", timing.load_seconds}, {"forward", timing.forward_seconds}};
  json["attention_kernel"] = timing.attention_kernel;
}

std::string differenceTable(const LossEvaluation& evaluation) {
  TextTable table({"difference", "nats/token", "bits/byte"}, {left, right, right});
  const auto& models = evaluation.models;
  for (std::size_t a = 0; a < models.size(); ++a) {
    for (std::size_t b = a + 1; b < models.size(); ++b) {
      const LossDifference difference = loss_difference(models[a], models[b]);
      table.addRow({fmt::format("{} minus {}", models[a].info.name, models[b].info.name),
                    estimateCell(difference.nats_per_token, 4), estimateCell(difference.bits_per_byte, 4)});
    }
  }
  return table.text();
}

/// Names the groups of every error in the tables. Documents weigh by tokens in nats/token, and by bytes in bits/byte,
/// so that they may suffice for the one and not for the other: then each is named with its own reason.
std::string errorsOf(const LossEvaluation& evaluation) {
  using Errors = std::pair<std::string, ErrorGroups>;
  std::vector<Errors> all;
  for (const EvaluatedModel& model : evaluation.models) {
    const std::string name = evaluation.models.size() == 1 ? "" : model.info.name + ", ";
    all.emplace_back(name + "nats/token", model.nats_per_token().over);
    if (const auto bits = model.bits_per_byte()) all.emplace_back(name + "bits/byte", bits->over);
  }
  const bool known = all.front().second.suffice();
  if (std::ranges::all_of(all, [&](const Errors& each) { return each.second.suffice() == known; })) {
    return errors_text(all.front().second);
  }
  std::string text;
  for (const auto& [name, over] : all)
    text += fmt::format("{}{}: {}", text.empty() ? "" : "\n", name, errors_text(over));
  return text;
}

}  // namespace

std::string lossText(const LossEvaluation& evaluation, const std::vector<LossTiming>& timings) {
  std::vector<std::string> header = {"model",   "nats/token", "bits/byte", "perplexity",
                                     "windows", "documents",  "tokens"};
  std::vector<TextTable::Align> align = {left, right, right, right, right, right, right};
  if (!timings.empty()) {
    header.emplace_back("tokens/s");
    align.push_back(right);
  }
  TextTable table(header, align);
  for (std::size_t n = 0; n < evaluation.models.size(); ++n) {
    const EvaluatedModel& model = evaluation.models[n];
    std::vector<std::string> row = {model.info.name,
                                    estimateCell(model.nats_per_token(), 4),
                                    estimateCell(model.bits_per_byte(), 4),
                                    estimateCell(model.perplexity(), 2),
                                    model.averaged ? "averaged" : countText(model.losses.windows),
                                    model.averaged ? "-" : countText(model.document_count()),
                                    countText(tokensOf(model))};
    if (!timings.empty()) {
      row.push_back(timings[n].tokens > 0 ? countText(std::llround(tokensPerSecond(timings[n]))) : "-");
    }
    table.addRow(row);
  }
  std::string text = table.text();
  if (evaluation.models.size() > 1) text += '\n' + differenceTable(evaluation);
  const EvaluatedModel& first = evaluation.models.front();
  text += first.averaged ? "no errors: the losses are means over windows that are not known" : errorsOf(evaluation);
  return text + '\n';
}

std::string lossJson(const std::string& kind, const std::string& path, const LossEvaluation& evaluation,
                     const std::vector<LossTiming>& timings) {
  Json json;
  if (!kind.empty()) json["kind"] = kind;
  json[kind.empty() ? "output" : "path"] = path;
  json["source"] = evaluation.corpus.source;
  json["length"] = evaluation.models.front().losses.length;
  json["models"] = Json::array();
  for (std::size_t n = 0; n < evaluation.models.size(); ++n) {
    Json model = modelJson(evaluation.models[n]);
    if (!timings.empty()) addTiming(model, timings[n]);
    json["models"].push_back(std::move(model));
  }
  json["differences"] = Json::array();
  const auto& models = evaluation.models;
  for (std::size_t a = 0; a < models.size(); ++a) {
    for (std::size_t b = a + 1; b < models.size(); ++b) {
      const LossDifference difference = loss_difference(models[a], models[b]);
      Json entry{{"model", models[a].info.name}, {"minus", models[b].info.name}};
      put(entry, "nats_per_token", difference.nats_per_token);
      put(entry, "bits_per_byte", difference.bits_per_byte);
      json["differences"].push_back(std::move(entry));
    }
  }
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

}  // namespace foxscope::cli
