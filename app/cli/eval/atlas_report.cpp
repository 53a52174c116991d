#include "app/cli/eval/atlas_report.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "app/cli/text_table.h"
#include "app/cli/values.h"
#include "backend/base/count_text.h"
#include "backend/base/index.h"
#include "backend/base/plural.h"
#include "backend/text/tokenizer.h"

namespace foxscope::cli {
namespace {

using Json = nlohmann::ordered_json;
using enum TextTable::Align;

constexpr std::size_t kShownTokens = 4;

std::string numberCell(double value) {
  if (std::isnan(value)) return "-";
  if (std::isinf(value)) return "inf";
  return std::abs(value) < 100 ? fmt::format("{:.2f}", value) : count_text(std::llround(value));
}

std::string inQuotes(const std::string& text) {
  return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
}

/// The tokens of smallest mean log f among those that were read often enough.
std::string forgottenTokens(const AtlasModel& model, std::size_t place, const std::vector<std::int32_t>& tokens) {
  const HeadTokens head = tokens_of_head(model, place, tokens);
  std::vector<std::size_t> often;
  for (std::size_t n = 0; n < tokens.size(); ++n) {
    if (model.sums.at(AtlasSum::token_count)[index_of(tokens[n])] >= kFewestReadings) often.push_back(n);
  }
  const std::size_t shown = std::min(kShownTokens, often.size());
  std::ranges::partial_sort(often, often.begin() + static_cast<std::ptrdiff_t>(shown), {},
                            [&](std::size_t n) { return std::pair(head.mean_log_gate[n], n); });
  std::vector<std::string> names;
  for (std::size_t n = 0; n < shown; ++n) {
    names.push_back(model.token_strings.empty() ? std::to_string(tokens[often[n]])
                                                : inQuotes(spell_invalid_utf8(model.token_strings[often[n]])));
  }
  return fmt::format("{}", fmt::join(names, " "));
}

/// A ratio to chance of fewer resets says little.
constexpr double kFewestResets = 10;

/// The class whose share of resets exceeds chance most, where it is beyond chance and holds kFewestResets.
std::string strongestClass(const AtlasResets& resets, std::size_t place) {
  std::string text = "-";
  double most = 1;
  for (std::size_t n = 0; n < kResetClasses; ++n) {
    const std::size_t at = place * kResetClasses + n;
    if (resets.discovered[at] == 0 || !(resets.share[at] > most * resets.chance[at])) continue;
    if (resets.share[at] * static_cast<double>(resets.count[place]) < kFewestResets) continue;
    most = resets.share[at] / resets.chance[at];
    text = fmt::format("{} x {:.1f}", to_string(static_cast<BoundaryClass>(n)), most);
  }
  return text;
}

std::string modelText(const AtlasModel& model, bool text) {
  const auto windows = std::ssize(model.windows->tokens);
  const ErrorGroups documents = atlas_documents(model.sums);
  std::string result =
      fmt::format("{}, {} {} of up to {} {} from {} {}\n", model.info.name, windows, plural(windows, "window"),
                  count_text(model.info.length), plural(model.info.length, "token"), documents.count,
                  plural(documents.count, "document"));
  if (!model.forgets()) return result + "no layer forgets\n";
  const std::vector<HeadArray> numbers = atlas_head_numbers(model);
  const HeadArray& times = *find_array(numbers, "rate_decay_time");
  const AtlasResets resets = atlas_resets(model);
  const std::vector<std::int32_t> tokens = atlas_tokens(model.sums);
  std::vector<std::string> header = {"layer", "head", "decay time", "error", "resets"};
  std::vector<TextTable::Align> align(header.size(), right);
  if (text) {
    header.emplace_back("at, times chance");
    align.push_back(left);
  }
  header.emplace_back("forgets most at");
  align.push_back(left);
  TextTable table(header, align);
  for (std::size_t place = 0; place < model.sums.shape().head_count(); ++place) {
    if (!model.has_gate(place)) continue;
    const auto heads = index_of(model.info.heads);
    const double error = times.error[place];
    const double share = static_cast<double>(resets.count[place]) / static_cast<double>(model.positions());
    std::vector<std::string> cells = {std::to_string(place / heads), std::to_string(place % heads),
                                      numberCell(times.value[place]), std::isnan(error) ? "" : "±" + numberCell(error),
                                      fmt::format("{:.2f} %", 100 * share)};
    if (text) cells.push_back(strongestClass(resets, place));
    cells.push_back(forgottenTokens(model, place, tokens));
    table.addRow(std::move(cells));
  }
  return result + table.text() + errors_text(documents) + '\n';
}

}  // namespace

std::string atlasText(const Atlas& atlas) {
  std::vector<std::string> texts;
  for (const AtlasModel& model : atlas.models) texts.push_back(modelText(model, !atlas.corpus.documents.empty()));
  return fmt::format("{}", fmt::join(texts, "\n"));
}

std::string atlasJson(const std::string& path, std::int64_t bytes, const Atlas& atlas) {
  Json models = Json::array();
  for (const AtlasModel& model : atlas.models) {
    const ErrorGroups documents = atlas_documents(model.sums);
    models.push_back({{"model", model.info.name},
                      {"layers", model.info.layers},
                      {"heads", model.info.heads},
                      {"forgets", model.forgets()},
                      {"windows", model.windows->tokens.size()},
                      {"length", model.info.length},
                      {"positions", model.positions()},
                      {"tokens", atlas_tokens(model.sums).size()},
                      {"documents", documents.count},
                      {"effective_documents", documents.effective},
                      {"weights_sha256", model.info.weights_sha256}});
  }
  Json documents = Json::array();
  std::vector<std::int64_t> windows(atlas.corpus.documents.size());
  if (!windows.empty()) {
    for (const std::int32_t document : atlas.models.front().windows->document) ++windows[index_of(document)];
  }
  for (std::size_t n = 0; n < windows.size(); ++n) {
    const WindowDocument& document = atlas.corpus.documents[n];
    documents.push_back({{"name", document.name}, {"sha256", document.sha256}, {"windows", windows[n]}});
  }
  const Json description = {{"kind", "atlas of heads"},
                            {"path", path},
                            {"bytes", bytes},
                            {"created", atlas.created},
                            {"program_version", atlas.program_version},
                            {"command_line", atlas.command_line},
                            {"source", atlas.corpus.source},
                            {"seed", atlas.corpus.seed},
                            {"tables", AtlasTable::names()},
                            {"documents", std::move(documents)},
                            {"models", std::move(models)}};
  return description.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

std::string atlasTableText(const Atlas& atlas, const std::string& name, const AtlasChoice& choice) {
  const AtlasTable table(atlas, name, choice);
  const auto cell = [](const AtlasField& field) {
    if (const auto* text = std::get_if<std::string>(&field)) return *text;
    if (const auto* whole = std::get_if<std::int64_t>(&field)) return std::to_string(*whole);
    const double number = std::get<double>(field);
    return std::isnan(number) ? std::string("-") : fmt::format("{:.6g}", number);
  };
  std::optional<TextTable> lines;
  table.each_row([&](std::span<const AtlasField> fields) {
    if (!lines) {
      std::vector<TextTable::Align> align;
      for (const AtlasField& field : fields) align.push_back(std::holds_alternative<std::string>(field) ? left : right);
      lines.emplace(table.columns(), std::move(align));
    }
    std::vector<std::string> cells;
    for (const AtlasField& field : fields) cells.push_back(cell(field));
    lines->addRow(std::move(cells));
  });
  return lines ? lines->text() : fmt::format("{}: no rows\n", name);
}

std::string atlasTableCsv(const Atlas& atlas, const std::string& name, const AtlasChoice& choice) {
  std::string text;
  write_csv(AtlasTable(atlas, name, choice), [&](std::string_view piece) { text += piece; });
  return text;
}

std::string atlasTableJson(const Atlas& atlas, const std::string& name, const AtlasChoice& choice) {
  const AtlasTable table(atlas, name, choice);
  std::string text = "[";
  table.each_row([&](std::span<const AtlasField> fields) {
    Json row;
    for (std::size_t n = 0; n < fields.size(); ++n) {
      row[table.columns()[n]] = std::visit(
          [](const auto& value) -> Json {
            if constexpr (std::is_same_v<std::decay_t<decltype(value)>, double>)
              return jsonNumber(value);
            else
              return value;
          },
          fields[n]);
    }
    text += (text.size() > 1 ? ",\n " : "\n ") + row.dump(-1, ' ', false, Json::error_handler_t::replace);
  });
  return text + "\n]\n";
}

}  // namespace foxscope::cli
