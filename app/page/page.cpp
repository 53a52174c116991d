#include "app/page/page.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <span>
#include <string_view>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "app/figure/curves/curve_palette.h"
#include "app/page/packed_bytes.h"
#include "app/page/page_parts.h"
#include "backend/base/error.h"
#include "backend/base/index.h"
#include "backend/base/sha256.h"
#include "backend/map/maps_elsewhere.h"
#include "backend/trace/decay_time.h"
#include "backend/trace/token_strings.h"

namespace foxscope::page {
namespace {

using Json = nlohmann::ordered_json;

/// The blocks of numbers of a page, by their place. What F and the losses need comes before all else, so that a browser
/// shows it while it reads the rest.
class Blocks {
 public:
  enum class When { first, later };
  std::size_t add(std::string_view bytes, When when, Alike alike = Alike::sequences) {
    (when == When::first ? m_first : m_later) +=
        fmt::format("<script id=\"block-{}\" type=\"text/plain\">{}</script>\n", m_count, packed(bytes, alike));
    return m_count++;
  }
  template <typename Number>
  std::size_t add(std::span<const Number> numbers, When when) {
    return add(bytePlanes(numbers), when);
  }
  [[nodiscard]] const std::string& first() const { return m_first; }
  [[nodiscard]] const std::string& later() const { return m_later; }

 private:
  std::string m_first;
  std::string m_later;
  std::size_t m_count = 0;
};
using When = Blocks::When;

/// A text as HTML takes it between tags and in attributes.
std::string escaped(std::string_view text) {
  std::string html;
  for (const char letter : text) {
    switch (letter) {
      case '&':
        html += "&amp;";
        break;
      case '<':
        html += "&lt;";
        break;
      case '>':
        html += "&gt;";
        break;
      case '"':
        html += "&quot;";
        break;
      case '\'':
        html += "&#39;";
        break;
      default:
        html += static_cast<unsigned char>(letter) < 0x20 ? ' ' : letter;
    }
  }
  return html;
}

/// JSON as an element script takes it: no letter of it could end the element or begin a comment.
std::string scriptJson(const Json& json) {
  std::string text;
  for (const char letter : json.dump(-1, ' ', true, Json::error_handler_t::replace)) {
    switch (letter) {
      case '<':
        text += "\\u003c";
        break;
      case '>':
        text += "\\u003e";
        break;
      case '&':
        text += "\\u0026";
        break;
      default:
        text += letter;
    }
  }
  return text;
}

/// Puts a value in the place of each `{{name}}`. Values are not looked through again.
std::string filled(std::string_view html, const std::vector<std::pair<std::string_view, std::string>>& values) {
  std::string text;
  while (true) {
    const std::size_t begin = html.find("{{");
    if (begin == std::string_view::npos) return text.append(html);
    const std::size_t end = html.find("}}", begin);
    const std::string_view name = html.substr(begin + 2, end - begin - 2);
    const auto value = std::ranges::find(values, name, [](const auto& pair) { return pair.first; });
    text.append(html.substr(0, begin)).append(value->second);
    html.remove_prefix(end + 2);
  }
}

/// The hash by which a Content-Security-Policy allows a script or a style.
std::string policyHash(std::string_view content) {
  const std::string hex = sha256(content);
  std::string bytes;
  for (std::size_t n = 0; n < hex.size(); n += 2) {
    bytes += static_cast<char>(std::stoi(hex.substr(n, 2), nullptr, 16));
  }
  return base64(bytes);
}

/// The parts of a text that tokens stand for, which are the whole text together. A character belongs to the token that
/// has its first byte; another token of it has nothing.
std::vector<std::string> piecesOf(const Trace& trace) {
  const TokenTable& tokens = *trace.tokens();
  const std::size_t length = tokens.id.size();
  std::vector<std::string> pieces(length);
  if (!trace.text() || tokens.byte_start.size() != length) {
    for (std::size_t p = 0; p < length; ++p) pieces[p] = predicted_string(tokens, static_cast<std::int64_t>(p));
    return pieces;
  }
  const std::string& text = trace.text()->content;
  const auto boundary = [&](std::size_t token) {
    auto at = std::min(text.size(), index_of(std::max<std::int64_t>(0, tokens.byte_start[token])));
    while (at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0U) == 0x80U) ++at;
    return at;
  };
  std::size_t begin = 0;
  for (std::size_t p = 0; p < length; ++p) {
    const std::size_t end = p + 1 < length ? std::max(begin, boundary(p + 1)) : text.size();
    pieces[p] = text.substr(begin, end - begin);
    begin = end;
  }
  return pieces;
}

Json tokensJson(const Trace& trace) {
  const TokenTable& tokens = *trace.tokens();
  const std::size_t length = tokens.id.size();
  const std::vector<std::string> pieces = piecesOf(trace);
  std::vector<std::string> strings(length);
  for (std::size_t p = 0; p < length; ++p) strings[p] = predicted_string(tokens, static_cast<std::int64_t>(p));
  Json json{{"pieces", pieces},
            {"first", length > 0 ? read_string(tokens, 0) : ""},
            {"unread", trace.text() ? trace.text()->unread_bytes : 0}};
  if (strings != pieces) json["strings"] = strings;
  // Nearly always a position reads what the one before it predicts.
  bool shifted = true;
  for (std::size_t p = 1; p < length; ++p) shifted = shifted && tokens.input_id[p] == tokens.id[p - 1];
  if (!shifted) {
    for (std::size_t p = 0; p < length; ++p) json["reads"].push_back(read_string(tokens, static_cast<std::int64_t>(p)));
  }
  return json;
}

Json colourJson(const figure::Rgb& colour) { return Json::array({colour.red, colour.green, colour.blue}); }

Json mapJson(const figure::ColourMap& map) {
  Json json = Json::array();
  for (const figure::Rgb& colour : map) json.push_back(colourJson(colour));
  return json;
}

std::string cssColour(const figure::Rgb& colour) {
  return fmt::format("#{:02x}{:02x}{:02x}", colour.red, colour.green, colour.blue);
}

/// P of the channels of a head: rates of c; or float32 steps, where their sums are P to 1e-9 nats; or float64.
Json channelsJson(const Trace& trace, const figure::HeadIndex& head, Blocks& blocks) {
  const LayerMixer mixer = trace.info().mixer(head.layer);
  const std::size_t dim = index_of(mixer.head_dim);
  const ChannelSums sums = trace.cumulative_log_decay(head.layer, head.head);
  constexpr double kExact = 1e-9;
  std::vector<float> steps(sums.values.size());
  std::vector<double> sum(dim, 0.0);
  bool exact = true;
  for (std::size_t n = 0; n < steps.size(); ++n) {
    steps[n] = static_cast<float>(sums.values[n] - (n < dim ? 0.0 : sums.values[n - dim]));
    sum[n % dim] += double{steps[n]};
    exact = exact && std::abs(sum[n % dim] - sums.values[n]) <= kExact;
  }
  if (!exact) return {{"number", "float64"}, {"block", blocks.add(sums.values, When::first)}, {"channels", dim}};
  return {{"number", "float32"}, {"block", blocks.add(std::span<const float>(steps), When::first)}, {"channels", dim}};
}

Json vectorsJson(const RoundedVectors& vectors, Blocks& blocks) {
  const std::size_t bytes = vectors.bytes();
  return {{"block", blocks.add(bytePlanes(vectors.numbers, bytes), When::later, Alike::letters)},
          {"bytes", bytes},
          {"steps", vectors.steps}};
}

/// Where a head is and what F needs.
Json decayJson(const Trace& trace, const figure::HeadIndex& head, Blocks& blocks) {
  const TraceInfo& info = trace.info();
  const LayerMixer mixer = info.mixer(head.layer);
  Json json{{"layer", head.layer},
            {"head", head.head},
            {"kind", mixer_words(mixer)},
            {"softmax", mixer.has_softmax()},
            {"erases", mixer.erases()},
            {"window", window_of(info, head.layer)},
            {"scale", mixer.has_softmax() ? double{info.softmax_scale} : 1.0},
            {"cap", mixer.has_softmax() ? info.logit_cap : 0.0},
            {"c", nullptr},
            {"decay_time", nullptr}};
  if (std::string reason = why_no_decay(info, trace, head.layer); !reason.empty()) {
    json["no_decay"] = reason;
    return json;
  }
  if (!forgets(info, head.layer)) return json;
  const auto c = trace.cumulative_log_gate(head.layer, head.head);
  if (info.length > 1) {
    const double time = decay_time(mean_log_gate(c));
    if (std::isfinite(time)) json["decay_time"] = time;
  }
  if (mixer.sums_channels()) {
    json["decays"] = channelsJson(trace, head, blocks);
    return json;
  }
  json["c"] = blocks.add(c, When::first);
  if (mixer.has_rates()) {
    // P of channel n is rate_n c; the last position gives the rates most exactly.
    const ChannelSums sums = trace.cumulative_log_decay(head.layer, head.head);
    const std::size_t dim = index_of(mixer.head_dim);
    Json rates = Json::array();
    for (std::size_t n = 0; n < dim; ++n) {
      rates.push_back(c.back() == 0 ? 0.0 : sums.values[sums.values.size() - dim + n] / c.back());
    }
    json["decays"] = {{"rates", std::move(rates)}};
  }
  return json;
}

/// The heads of a model.
/// @param largest_error  of A, so far
/// @returns nothing if the job was stopped
std::optional<Json> headsJson(PageModel model, Blocks& blocks, double& largest_error, const Job& job) {
  model.trace.trace = computed_here(model.trace.trace);  // thousands of rows of each head are compared
  const Trace& trace = *model.trace;
  const TraceInfo& info = trace.info();
  Json heads = Json::array();
  for (const figure::HeadIndex& head : model.heads) heads.push_back(decayJson(trace, head, blocks));
  const auto jsonOf = [&](int layer, int head) -> Json& {
    return heads[index_of(std::ranges::find(model.heads, figure::HeadIndex{layer, head}) - model.heads.begin())];
  };
  for (const figure::HeadIndex& head : model.heads) {
    const std::string reason = why_no_mixing(info, trace, head.layer);
    if (!reason.empty()) jsonOf(head.layer, head.head)["no_mixing"] = reason;
  }
  const std::vector<HeadGroup> groups = groupsOf(model);
  for (std::size_t n = 0; n < groups.size(); ++n) {
    const HeadGroup& group = groups[n];
    job.tell(
        {static_cast<std::int64_t>(n), static_cast<std::int64_t>(groups.size()), "heads", "rounding queries and keys"});
    const auto rounded = round_group(group, job);
    if (!rounded) return std::nullopt;
    const LayerMixer mixer = info.mixer(group.layer);
    const Json keys = vectorsJson(rounded->keys, blocks);
    std::map<int, Json> queries;  // heads of some mixers share them
    for (std::size_t place = 0; place < group.heads.size(); ++place) {
      Json& json = jsonOf(group.layer, group.heads[place]);
      const int query_head = shared_head(mixer.heads, mixer.query_heads, group.heads[place]);
      if (!queries.contains(query_head)) queries[query_head] = vectorsJson(rounded->queries[place], blocks);
      json["q"] = queries[query_head];
      json["k"] = keys;
      json["lse"] = nullptr;
      json["beta"] = nullptr;
      if (mixer.has_softmax())
        json["lse"] = blocks.add(std::span<const float>(rounded->normalizers[place]), When::later);
      if (mixer.kind().writes_beta) json["beta"] = blocks.add(trace.beta(group.layer, group.heads[place]), When::later);
      json["error"] = rounded->errors[place];
      if (mixer.has_softmax()) largest_error = std::max(largest_error, rounded->errors[place]);
    }
  }
  return heads;
}

std::string descriptionOf(const TraceInfo& info) {
  std::string text = fmt::format("{}{}{} layers, {} heads, d = {}, {} on {}", info.model_type,
                                 info.model_type.empty() ? "" : ", ", info.layers, info.heads, info.head_dim,
                                 info.dtype == DType::bfloat16 ? "bfloat16" : "float32", info.device);
  if (info.pruning_tolerance > 0) text += fmt::format(", pruning tolerance {:g}", info.pruning_tolerance);
  if (!info.intervention.empty()) text += ", intervention " + info.intervention;
  if (info.unchecked) text += "; unchecked run file: its arrays may contradict one another";
  return text;
}

/// A head of the first model whose decay time is near a tenth of the text: its memory is seen.
std::size_t firstHead(const PageRequest& request, const Json& heads) {
  const PageModel& model = request.models.front();
  if (request.first) {
    const auto found = std::ranges::find(model.heads, *request.first);
    if (found != model.heads.end()) return index_of(found - model.heads.begin());
  }
  constexpr double kSeenShare = 0.1;
  const double wanted = std::log(kSeenShare * static_cast<double>(model.trace->info().length));
  std::size_t best = 0;
  double away = HUGE_VAL;
  for (std::size_t n = 0; n < heads.size(); ++n) {
    if (!heads[n]["decay_time"].is_number()) continue;
    const double distance = std::abs(std::log(heads[n]["decay_time"].get<double>()) - wanted);
    if (distance < away) {
      away = distance;
      best = n;
    }
  }
  return best;
}

/// The beginning of a text in one line.
std::string beginningOf(const Trace& trace) {
  constexpr std::size_t kMostTokens = 12;
  const TokenTable& tokens = *trace.tokens();
  const std::vector<std::string> pieces = piecesOf(trace);
  std::string text;
  for (std::size_t p = 0; p < std::min(kMostTokens, pieces.size()); ++p) text += pieces[p];
  std::string line;
  for (const char letter : text) {
    const bool blank = static_cast<unsigned char>(letter) <= 0x20;
    if (!blank) line += letter;
    if (blank && !line.empty() && line.back() != ' ') line += ' ';
  }
  while (line.ends_with(' ')) line.pop_back();
  return tokens.id.size() > kMostTokens ? line + " …" : line;
}

std::string titleOf(const PageRequest& request) {
  if (!request.title.empty()) return request.title;
  std::string names;
  for (const PageModel& model : request.models) names += (names.empty() ? "" : ", ") + model.name;
  return fmt::format("{} on “{}”", names, beginningOf(*request.models.front().trace));
}

void checkRequest(const PageRequest& request) {
  for (const PageModel& model : request.models) {
    for (const figure::HeadIndex& head : model.heads) figure::requireHead(model.trace->info(), head);
  }
  if (const double bytes = pageBytes(request.models); bytes > kLargestPage) {
    throw UsageError(
        fmt::format("the page would have {:.0f} MB, and a page has at most {:.0f} MB: choose fewer heads with --heads, "
                    "or run the models on a shorter text with --limit",
                    bytes / 1e6, kLargestPage / 1e6));
  }
}

std::string exactnessText(double largest_error) {
  std::string text = "F by its closed form, from sums of log gates in float64.";
  if (largest_error > 0) {
    text += fmt::format(
        " A from queries and keys that were rounded: no entry of the rows that were compared with the program's, {} or "
        "all, is off by more than {:.1e}.",
        kComparedRows, largest_error);
  }
  return text;
}

/// Each model's place in the list of token tables, which models of one tokenizer share.
std::size_t tokensPlace(const PageRequest& request, std::size_t model, std::vector<std::size_t>& shown) {
  const auto same = [&](std::size_t other) {
    return *request.models[other].trace->tokens() == *request.models[model].trace->tokens();
  };
  const auto found = std::ranges::find_if(shown, same);
  if (found != shown.end()) return index_of(found - shown.begin());
  shown.push_back(model);
  return shown.size() - 1;
}

}  // namespace

std::optional<std::string> makePage(const PageRequest& request, const Job& job) {
  checkRequest(request);
  Blocks blocks;
  Json models = Json::array();
  std::vector<std::size_t> tokens;
  double largest_error = 0;
  for (std::size_t n = 0; n < request.models.size(); ++n) {
    const PageModel& model = request.models[n];
    const Trace& trace = *model.trace;
    const TraceInfo& info = trace.info();
    Json json{{"name", model.name},
              {"length", info.length},
              {"description", descriptionOf(info)},
              {"weights_sha256", info.weights_sha256},
              {"colour",
               {cssColour(figure::curveColour(model.colour, figure::Ground::light)),
                cssColour(figure::curveColour(model.colour, figure::Ground::dark))}},
              {"tokens", tokensPlace(request, n, tokens)},
              {"loss", nullptr}};
    if (!trace.per_token_loss().empty()) json["loss"] = blocks.add(trace.per_token_loss(), When::first);
    auto heads = headsJson(model, blocks, largest_error, job);
    if (!heads) return std::nullopt;
    json["heads"] = std::move(*heads);
    models.push_back(std::move(json));
  }
  const std::string title = titleOf(request);
  const bool unchecked =
      std::ranges::any_of(request.models, [](const PageModel& model) { return model.trace->info().unchecked; });
  const Trace& first = *request.models.front().trace;
  Json data{
      {"foxscope_page", 1},
      {"program", "foxscope " FOXSCOPE_VERSION},
      {"command", request.command},
      {"run_command", request.run_command},
      {"text_sha256", first.text() ? first.text()->sha256 : ""},
      {"exactness", exactnessText(largest_error)},
      {"first", firstHead(request, models.front()["heads"])},
      {"pin", nullptr},
      {"mark", unchecked ? "Made of a run file that was not checked: its arrays may contradict one another." : ""},
      {"colours", {{"plain", mapJson(figure::viridis())}, {"signed", mapJson(figure::diverging())}}},
      {"models", std::move(models)},
      {"tokens", Json::array()}};
  if (request.pin) data["pin"] = {{"query", request.pin->first}, {"key", request.pin->second}};
  for (const std::size_t model : tokens) data["tokens"].push_back(tokensJson(*request.models[model].trace));
  return filled(pageHtml(), {{"title", escaped(title)},
                             {"program", "foxscope " FOXSCOPE_VERSION},
                             {"script_hash", policyHash(pageScript())},
                             {"style_hash", policyHash(pageStyle())},
                             {"icon", base64(pageIcon())},
                             {"style", std::string(pageStyle())},
                             {"script", std::string(pageScript())},
                             {"first_blocks", blocks.first()},
                             {"blocks", blocks.later()},
                             {"data", scriptJson(data)}});
}

}  // namespace foxscope::page
