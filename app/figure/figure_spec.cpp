#include "app/figure/figure_spec.h"

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <initializer_list>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "backend/base/error.h"
#include "backend/text/json_reading.h"

namespace foxscope::figure {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr int kSchema = 1;
constexpr const char* kSchemaKey = "foxscope_figure";
constexpr std::size_t kMostBytes = 1 << 20;
constexpr std::size_t kMostPanels = 26;  ///< as many as there are letters
constexpr int kMostShare = 100;

FigureSpec::Value valueOf(const std::string& file, const std::string& option, const json& value) {
  if (value.is_boolean()) return value.get<bool>();
  std::vector<std::string> words;
  for (const json& entry : value.is_array() ? value : json::array({value})) {
    if (!entry.is_string() && !entry.is_number()) {
      refuseSpec(file, fmt::format("option \"{}\" is no text, number, or list of them", option));
    }
    words.push_back(entry.is_string() ? entry.get<std::string>() : entry.dump());
  }
  return words;
}

/// A file's JSON, of this version.
json parsedSpec(std::string_view text, const std::string& name) {
  check_json_bounds(text, name);
  refuse_repeated_keys(text, name);
  json spec = json::parse(text, nullptr, false);
  if (spec.is_discarded() || !spec.is_object()) refuseSpec(name, "this is no JSON object");
  const auto schema = spec.find(kSchemaKey);
  if (schema == spec.end() || !schema->is_number_integer()) {
    refuseSpec(name, fmt::format("it has no number \"{}\"", kSchemaKey));
  }
  if (schema->is_number_unsigned() && schema->get<std::uint64_t>() > kSchema) {
    throw Error(fmt::format("{}: this figure was written down for a newer version of foxscope: use that", name));
  }
  if (schema->get<std::int64_t>() != kSchema)
    refuseSpec(name, fmt::format("its \"{}\" is not {}", kSchemaKey, kSchema));
  return spec;
}

void requireKeys(const json& object, std::initializer_list<std::string_view> known, const std::string& name) {
  for (const auto& [key, value] : object.items()) {
    if (std::ranges::find(known, key) == known.end()) refuseSpec(name, fmt::format("\"{}\" is not known", key));
  }
}

std::vector<std::pair<std::string, FigureSpec::Value>> optionsOf(const json& spec, const std::string& name) {
  std::vector<std::pair<std::string, FigureSpec::Value>> read;
  const auto options = spec.find("options");
  if (options == spec.end()) return read;
  if (!options->is_object()) refuseSpec(name, "its options are no JSON object");
  for (const auto& [option, value] : options->items()) read.emplace_back(option, valueOf(name, option, value));
  return read;
}

FigureSpec specOf(const json& spec, const std::string& name) {
  const auto kind = spec.find("kind");
  if (kind == spec.end() || !kind->is_string()) refuseSpec(name, "it names no kind");
  return {kind->get<std::string>(), optionsOf(spec, name)};
}

FigurePart partOf(const json& panel, const std::string& name) {
  if (!panel.is_object()) refuseSpec(name, "a panel is no JSON object");
  requireKeys(panel, {"kind", "options", "files", "share"}, name);
  FigurePart part{specOf(panel, name)};
  if (const auto files = panel.find("files"); files != panel.end()) {
    for (const json& file : files->is_array() ? *files : json::array({*files})) {
      if (!file.is_string()) refuseSpec(name, "the files of a panel are no texts");
      part.files.push_back(file.get<std::string>());
    }
  }
  if (const auto share = panel.find("share"); share != panel.end()) {
    if (!share->is_number()) refuseSpec(name, "the share of a panel is no number");
    part.share = share->get<double>();
    if (!(part.share > 0 && part.share <= kMostShare)) {
      refuseSpec(name, fmt::format("the share of a panel is not above 0 and up to {}", kMostShare));
    }
  }
  return part;
}

ordered_json jsonOf(const std::vector<std::pair<std::string, FigureSpec::Value>>& options) {
  ordered_json object = ordered_json::object();
  for (const auto& [name, value] : options) {
    if (const bool* set = std::get_if<bool>(&value)) {
      object[name] = *set;
      continue;
    }
    const auto& values = std::get<std::vector<std::string>>(value);
    object[name] = values.size() == 1 ? ordered_json(values.front()) : ordered_json(values);
  }
  return object;
}

std::string written(const ordered_json& spec) {
  return spec.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace

void refuseSpec(const std::string& name, const std::string& why) {
  throw Error(fmt::format(
      R"({}: {}: a figure is written down as {{"{}": {}, "kind": "maps", "options": {{"width": "iclr"}}}}, with the )"
      "options of `foxscope figure KIND --help` without their dashes",
      name, why, kSchemaKey, kSchema));
}

FigureSpec FigureSpec::parse(std::string_view text, const std::string& name) {
  const json spec = parsedSpec(text, name);
  requireKeys(spec, {kSchemaKey, "kind", "options"}, name);
  return specOf(spec, name);
}

std::optional<FigureParts> FigureParts::parse(std::string_view text, const std::string& name) {
  const json page = parsedSpec(text, name);
  const auto panels = page.find("panels");
  if (panels == page.end()) return std::nullopt;
  requireKeys(page, {kSchemaKey, "panels", "options"}, name);
  FigureParts parts{{"panels", optionsOf(page, name)}, {}};
  if (!panels->is_array() || panels->empty()) refuseSpec(name, "its panels are no list");
  // A list without rows is one row.
  const bool rows = panels->front().is_array();
  std::size_t count = 0;
  for (const json& row : rows ? *panels : json::array({*panels})) {
    if (!row.is_array() || row.empty()) refuseSpec(name, "a row of its panels is no list of them");
    parts.rows.emplace_back();
    for (const json& panel : row) parts.rows.back().push_back(partOf(panel, name));
    count += row.size();
  }
  if (count > kMostPanels) refuseSpec(name, fmt::format("more than {} panels", kMostPanels));
  return parts;
}

std::string readSpec(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw Error(fmt::format("{}: no such file, or it cannot be read", path));
  std::string text;
  text.resize(kMostBytes + 1);
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (text.size() > kMostBytes) refuseSpec(path, "it is larger than 1 MB");
  return text;
}

bool FigureSpec::has(std::string_view name) const {
  return std::ranges::any_of(options, [&](const auto& option) { return option.first == name; });
}

std::vector<std::string> FigureSpec::list(std::string_view name) const {
  for (const auto& [option, value] : options) {
    if (option == name && !std::holds_alternative<bool>(value)) return std::get<std::vector<std::string>>(value);
  }
  return {};
}

std::string FigureSpec::text(std::string_view name, const char* otherwise) const {
  const std::vector<std::string> values = list(name);
  return values.empty() ? otherwise : values.back();
}

std::string FigureSpec::text() const {
  return written({{kSchemaKey, kSchema}, {"kind", kind}, {"options", jsonOf(options)}});
}

std::string FigureParts::text() const {
  ordered_json panels = ordered_json::array();
  for (const auto& row : rows) {
    ordered_json& line = panels.emplace_back(ordered_json::array());
    for (const FigurePart& part : row) {
      ordered_json& panel = line.emplace_back(ordered_json{{"kind", part.spec.kind}});
      if (!part.files.empty()) panel["files"] = part.files;
      if (part.share != 1) panel["share"] = part.share;
      panel["options"] = jsonOf(part.spec.options);
    }
  }
  return written({{kSchemaKey, kSchema}, {"panels", std::move(panels)}, {"options", jsonOf(page.options)}});
}

std::vector<std::string> FigureSpec::words() const {
  std::vector<std::string> words;
  for (const auto& [name, value] : options) {
    if (const bool* set = std::get_if<bool>(&value)) {
      if (*set) words.push_back("--" + name);
      continue;
    }
    for (const std::string& one : std::get<std::vector<std::string>>(value)) {
      // A word that begins like an option, or is empty, is joined with the option that it belongs to.
      if (one.empty() || one.starts_with('-')) {
        words.push_back(fmt::format("--{}={}", name, one));
      } else {
        words.insert(words.end(), {"--" + name, one});
      }
    }
  }
  return words;
}

}  // namespace foxscope::figure
