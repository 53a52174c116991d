#include "app/cli/info/experts_report.h"

#include <cmath>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "app/cli/text_table.h"
#include "backend/base/count_text.h"
#include "backend/base/error.h"
#include "backend/eval/experts/expert_table.h"

namespace foxscope::cli {
namespace {

using Json = nlohmann::ordered_json;

std::vector<ExpertTable> tablesOf(const RunFile& file, const ExpertsRequest& request) {
  std::vector<ExpertTable> tables;
  bool kept = false;
  bool mixture = false;
  for (const auto& run : file.traces) {
    mixture = mixture || is_mixture(run->info()).value_or(true);
    if (!run->has(TraceArray::expert)) continue;
    kept = true;
    if (request.layer) {
      tables.push_back(expert_table(run, *request.layer));
      continue;
    }
    for (ExpertTable& table : expert_tables(run)) tables.push_back(std::move(table));
  }
  if (kept) return tables;
  if (!mixture) throw Error(fmt::format("{}: no model of it is a mixture of experts", request.path));
  throw Error(
      fmt::format("{}: no model of it kept its chosen experts: run it again with --keep experts", request.path));
}

std::string inQuotes(const std::string& text) {
  return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
}

Json useJson(const ExpertTable& table, const ExpertUse& use) {
  Json tokens = Json::array();
  for (const ExpertUse::Token& token : use.tokens) {
    tokens.push_back({{"token", table.string(token)}, {"id", token.id}, {"count", token.count}});
  }
  return {{"expert", use.expert},
          {"positions", use.positions},
          {"share", table.share(use)},
          {"heaviest", use.heaviest},
          {"heaviest_share", table.heaviest_share(use)},
          {"mean_weight", std::isnan(use.mean_weight) ? Json(nullptr) : Json(use.mean_weight)},
          {"tokens", std::move(tokens)}};
}

std::string tokensText(const ExpertTable& table, const ExpertUse& use) {
  std::string text;
  for (const ExpertUse::Token& token : use.tokens) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", inQuotes(table.string(token)), token.count);
  }
  return text;
}

std::string tableText(const ExpertTable& table) {
  const TraceInfo& info = table.run->info();
  std::string text = nameValueLines({{"model", info.name},
                                     {"  layer", std::to_string(table.layer)},
                                     {"  experts", fmt::format("{} of {} a token, {} tokens", info.chosen_experts,
                                                               table.experts.size(), count_text(info.length))}});
  const std::vector<TableColumn<ExpertUse>> columns{
      {{"  expert"}, [](const ExpertUse& use) { return fmt::format("{:>8}", use.expert); }},
      {{"read by"}, [&](const ExpertUse& use) { return fmt::format("{:.2f} %", 100 * table.share(use)); }},
      {{"heaviest"}, [&](const ExpertUse& use) { return fmt::format("{:.2f} %", 100 * table.heaviest_share(use)); }},
      {{"mean weight"},
       [](const ExpertUse& use) {
         return std::isnan(use.mean_weight) ? std::string("-") : fmt::format("{:.4f}", use.mean_weight);
       }},
      {{"tokens that read it most"},
       [&](const ExpertUse& use) { return tokensText(table, use); },
       TextTable::Align::left}};
  return text + cli::tableText(columns, table.experts);
}

}  // namespace

std::string expertsJson(const RunFile& file, const ExpertsRequest& request) {
  Json description{{"kind", "experts"}, {"path", request.path}, {"layers", Json::array()}};
  for (const ExpertTable& table : tablesOf(file, request)) {
    Json layer{{"model", table.run->info().name},
               {"layer", table.layer},
               {"positions", table.positions()},
               {"experts_per_token", table.run->info().chosen_experts},
               {"experts", Json::array()}};
    for (const ExpertUse& use : table.experts) layer["experts"].push_back(useJson(table, use));
    description["layers"].push_back(std::move(layer));
  }
  return description.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

std::string expertsCsv(const RunFile& file, const ExpertsRequest& request) { return csv_of(tablesOf(file, request)); }

std::string expertsText(const RunFile& file, const ExpertsRequest& request) {
  std::string text;
  for (const ExpertTable& table : tablesOf(file, request)) text += (text.empty() ? "" : "\n") + tableText(table);
  for (const auto& run : file.traces) {
    if (run->has(TraceArray::expert) || !is_mixture(run->info()).value_or(false)) continue;
    text += '\n' + nameValueLines({{"model", run->info().name}, {"  experts", kExpertsNotKept}});
  }
  return text;
}

}  // namespace foxscope::cli
