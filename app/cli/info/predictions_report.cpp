#include "app/cli/info/predictions_report.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "app/cli/text_table.h"
#include "backend/base/count_text.h"
#include "backend/base/error.h"
#include "backend/base/index.h"
#include "backend/eval/predictions/predictions.h"
#include "backend/trace/run_origin.h"
#include "backend/trace/token_strings.h"

namespace foxscope::cli {
namespace {

using Json = nlohmann::ordered_json;
using TracePointer = std::shared_ptr<const Trace>;

/// A run, and the head of its model; none: it kept logits.
struct Predicting {
  TracePointer run;
  std::shared_ptr<const OutputHead> head;

  [[nodiscard]] std::string tokenString(std::int32_t id) const { return token_string(*run, head.get(), id); }
};

/// The models whose predictions can be told, each with its head where that is needed.
/// @returns nothing if the job was stopped
std::optional<std::vector<Predicting>> predictingOf(const RunFile& file, const PredictionsRequest& request,
                                                    const Job& job) {
  std::vector<Predicting> all;
  for (const TracePointer& run : file.traces) all.push_back({run, nullptr});
  const Engine engine;
  for (const std::string& checkpoint : request.checkpoints) {
    ModelRequest wanted;
    wanted.model = checkpoint;
    wanted.device = DeviceChoice::parse("cpu");
    const OpenedModel model = engine.open(wanted);
    bool made = false;
    for (Predicting& each : all) {
      const std::optional<bool> its = has_made(model, *each.run, job);
      if (!its) return std::nullopt;
      if (!*its) continue;
      made = true;
      each.head = std::make_shared<const OutputHead>(model, each.run->info().dtype);
    }
    if (made) continue;
    throw UsageError(
        fmt::format("--checkpoint {}: made none of the models of {}: its configuration or its weights are "
                    "others",
                    checkpoint, request.path));
  }
  const bool kept = std::ranges::any_of(all, [](const Predicting& each) { return keeps_predictions(*each.run); });
  if (!kept) {
    throw Error(fmt::format("{}: no model of it kept what predictions are made of: {}", request.path,
                            keep_remedy(all.front().run->info(), Keep::predictions, "--keep predictions")));
  }
  std::erase_if(all, [](const Predicting& each) {
    return prediction_source(*each.run, each.head != nullptr) == PredictionSource::none;
  });
  if (all.empty()) {
    throw Error(
        fmt::format("{}: holds states, and predictions need the head of the model too: give its checkpoint "
                    "folder with --checkpoint",
                    request.path));
  }
  return all;
}

struct Told {
  const Predicting* of = nullptr;
  Prediction prediction;
};

/// @returns nothing if the job was stopped
std::optional<std::vector<Told>> predictAll(const std::vector<Predicting>& all, const PredictionsRequest& request,
                                            const Job& job) {
  std::vector<Told> told;
  for (const Predicting& each : all) {
    for (const std::int64_t position : request.positions) {
      std::optional<Prediction> prediction = predict(*each.run, each.head.get(), position, request.top, job);
      if (!prediction) return std::nullopt;
      told.push_back({&each, std::move(*prediction)});
    }
  }
  return told;
}

double probability(float logProbability) { return std::exp(static_cast<double>(logProbability)); }

Json toldJson(const Told& told) {
  const Trace& run = *told.of->run;
  const std::int64_t position = told.prediction.position;
  const ScoredPosition& scored = told.prediction.scored;
  Json likeliest = Json::array();
  for (const ScoredToken& token : scored.top) {
    likeliest.push_back({{"id", token.id},
                         {"token", told.of->tokenString(token.id)},
                         {"p", probability(token.log_probability)},
                         {"log_p", token.log_probability}});
  }
  return {{"model", run.info().name},
          {"position", position},
          {"reads", read_string(*run.tokens(), position)},
          {"context", words_before(*run.tokens(), position)},
          {"token", predicted_string(*run.tokens(), position)},
          {"id", run.tokens()->id[index_of(position)]},
          {"p", probability(scored.log_probability)},
          {"log_p", scored.log_probability},
          {"rank", scored.rank},
          {"entropy", scored.entropy},
          {"likeliest", std::move(likeliest)}};
}

std::string quoted(const std::string& text) { return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace); }

std::string toldText(const Told& told) {
  const Trace& run = *told.of->run;
  const std::int64_t position = told.prediction.position;
  const ScoredPosition& scored = told.prediction.scored;
  std::string text = nameValueLines(
      {{"model", run.info().name},
       {"  position", fmt::format("{}, after {}", position, quoted(words_before(*run.tokens(), position)))},
       {"  came", fmt::format("{}: p {:.4g}, {} nats, rank {}", quoted(predicted_string(*run.tokens(), position)),
                              probability(scored.log_probability), fmt::format("{:.3f}", -scored.log_probability),
                              count_text(scored.rank))},
       {"  entropy", fmt::format("{:.3f} nats", scored.entropy)}});
  struct Row {
    std::int64_t rank = 0;
    ScoredToken token;
  };
  std::vector<Row> rows;
  for (const ScoredToken& token : scored.top) rows.push_back({std::ssize(rows) + 1, token});
  const std::int32_t came = run.tokens()->id[index_of(position)];
  const std::vector<TableColumn<Row>> columns{
      {{"  rank"}, [](const Row& row) { return fmt::format("{:>6}", row.rank); }},
      {{"p"}, [](const Row& row) { return fmt::format("{:.4f}", probability(row.token.log_probability)); }},
      {{"token"},
       [&](const Row& row) {
         return quoted(told.of->tokenString(row.token.id)) + (row.token.id == came ? "  came" : "");
       },
       TextTable::Align::left}};
  return text + tableText(columns, rows);
}

}  // namespace

std::string predictionsJson(const RunFile& file, const PredictionsRequest& request, const Job& job) {
  const auto all = predictingOf(file, request, job);
  const auto told = all ? predictAll(*all, request, job) : std::nullopt;
  if (!told) return {};
  Json description{{"kind", "predictions"}, {"path", request.path}, {"predictions", Json::array()}};
  for (const Told& each : *told) description["predictions"].push_back(toldJson(each));
  return description.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

std::string predictionsText(const RunFile& file, const PredictionsRequest& request, const Job& job) {
  const auto all = predictingOf(file, request, job);
  const auto told = all ? predictAll(*all, request, job) : std::nullopt;
  if (!told) return {};
  std::string text;
  for (const Told& each : *told) text += (text.empty() ? "" : "\n") + toldText(each);
  return text;
}

}  // namespace foxscope::cli
