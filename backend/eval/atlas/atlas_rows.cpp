#include "backend/eval/atlas/atlas_rows.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "backend/base/csv_field.h"
#include "backend/base/error.h"
#include "backend/base/index.h"
#include "backend/base/nearest_name.h"
#include "backend/map/statistics/distance_bins.h"
#include "backend/text/tokenizer.h"
#include "backend/trace/dtype.h"

namespace foxscope {
namespace {

using Fields = std::vector<AtlasField>;

/// Gives out rows of one model, each with the model's name and perhaps a head in front.
class ModelRows {
 public:
  ModelRows(const Atlas& atlas, const AtlasModel& model, const AtlasChoice& choice, const AtlasTable::Row& row)
      : atlas_(atlas), model_(model), choice_(choice), row_(row) {}

  [[nodiscard]] const Atlas& atlas() const { return atlas_; }
  [[nodiscard]] const AtlasModel& model() const { return model_; }
  [[nodiscard]] std::size_t head_count() const { return model_.sums.shape().head_count(); }

  /// Heads with a gate that rows are of.
  template <typename Body>
  void each_head(Body body) const {
    each_known_head([&](std::size_t place) {
      if (model_.has_gate(place)) body(place);
    });
  }
  /// Heads with a gate, or with attention that was measured, that rows are of.
  template <typename Body>
  void each_known_head(Body body) const {
    each_known([&](std::size_t place) {
      if (!choice_.head || head(place) == std::pair<std::int64_t, std::int64_t>(*choice_.head)) body(place);
    });
  }
  template <typename Body>
  void each_known(Body body) const {
    for (std::size_t place = 0; place < head_count(); ++place) {
      if (model_.has_gate(place) || model_.has_attention(place)) body(place);
    }
  }
  [[nodiscard]] std::pair<std::int64_t, std::int64_t> head(std::size_t place) const {
    const auto at = static_cast<std::int64_t>(place);
    return {at / model_.info.heads, at % model_.info.heads};
  }
  void give(std::size_t place, Fields fields) const {
    const auto [layer, number] = head(place);
    Fields all = {model_.info.name, layer, number};
    all.insert(all.end(), std::make_move_iterator(fields.begin()), std::make_move_iterator(fields.end()));
    row_(all);
  }

 private:
  const Atlas& atlas_;
  const AtlasModel& model_;
  const AtlasChoice& choice_;
  const AtlasTable::Row& row_;
};

std::string class_name(std::size_t n) { return to_string(static_cast<BoundaryClass>(n)); }

std::string token_string(const AtlasModel& model, const std::vector<std::int32_t>& tokens, std::int32_t id) {
  const auto found = std::ranges::lower_bound(tokens, id);
  if (model.token_strings.empty() || found == tokens.end() || *found != id) return {};
  return spell_invalid_utf8(model.token_strings[index_of(found - tokens.begin())]);
}

/// Names of the numbers of all models' heads.
std::vector<std::string> number_names(const Atlas& atlas) {
  std::vector<std::string> names;
  for (const AtlasModel& model : atlas.models) {
    for (const HeadArray& number : atlas_head_numbers(model)) {
      if (std::ranges::find(names, number.name) == names.end()) names.push_back(number.name);
    }
  }
  return names;
}

void head_rows(const ModelRows& rows) {
  const std::vector<HeadArray> numbers = atlas_head_numbers(rows.model());
  const AtlasResets resets = atlas_resets(rows.model());
  const auto positions = static_cast<double>(rows.model().positions());
  // The first model may have numbers that another one lacks.
  const std::vector<std::string> columns = number_names(rows.atlas());
  std::vector<std::vector<double>> of_rows;
  for (const std::string& name : columns) of_rows.push_back(row_errors(rows.model(), name));
  constexpr double kNothing = std::numeric_limits<double>::quiet_NaN();
  rows.each_known_head([&](std::size_t place) {
    Fields fields;
    for (std::size_t n = 0; n < columns.size(); ++n) {
      const HeadArray* const number = find_array(numbers, columns[n]);
      fields.emplace_back(number == nullptr ? kNothing : number->value[place]);
      fields.emplace_back(number == nullptr ? kNothing : number->error[place]);
      fields.emplace_back(of_rows[n].empty() ? kNothing : of_rows[n][place]);
    }
    const bool gated = rows.model().has_gate(place);
    const auto count = static_cast<double>(resets.count[place]);
    fields.emplace_back(gated ? count : kNothing);
    fields.emplace_back(gated ? count / positions : kNothing);
    rows.give(place, std::move(fields));
  });
}

void token_rows(const ModelRows& rows) {
  const std::vector<std::int32_t> tokens = atlas_tokens(rows.model().sums);
  const auto counts = rows.model().sums.at(AtlasSum::token_count);
  const HeadTokens heads = tokens_of_heads(rows.model(), tokens);
  const std::vector<std::int32_t> discovered = atlas_token_discoveries(heads.p_value);
  rows.each_known_head([&](std::size_t place) {
    for (std::size_t n = 0; n < tokens.size(); ++n) {
      const std::size_t at = place * tokens.size() + n;
      std::string string = token_string(rows.model(), tokens, tokens[n]);
      rows.give(place,
                {std::int64_t{tokens[n]}, std::move(string), counts[index_of(tokens[n])],
                 static_cast<double>(heads.mean_log_gate[at]), static_cast<double>(heads.error[at]), heads.p_value[at],
                 std::int64_t{discovered[at]}, std::int64_t{counts[index_of(tokens[n])] < kFewestReadings},
                 static_cast<double>(heads.share_below_half[at]),
                 heads.received.empty() ? std::numeric_limits<double>::quiet_NaN()
                                        : static_cast<double>(heads.received[at])});
    }
  });
}

void class_rows(const ModelRows& rows) {
  if (rows.atlas().corpus.documents.empty()) return;
  const std::vector<HeadArray> arrays = atlas_class_numbers(rows.model());
  rows.each_head([&](std::size_t place) {
    for (std::size_t n = 0; n < kBoundaryClasses; ++n) {
      Fields fields = {class_name(n), rows.model().sums.at(AtlasSum::class_count)[n]};
      for (const HeadArray& array : arrays) {
        fields.emplace_back(array.value[place * kBoundaryClasses + n]);
        fields.emplace_back(array.error[place * kBoundaryClasses + n]);
      }
      rows.give(place, std::move(fields));
    }
  });
}

void reset_rows(const ModelRows& rows) {
  if (rows.atlas().corpus.documents.empty()) return;
  const AtlasResets resets = atlas_resets(rows.model());
  rows.each_head([&](std::size_t place) {
    for (std::size_t n = 0; n < kResetClasses; ++n) {
      const std::size_t at = place * kResetClasses + n;
      rows.give(place, {class_name(n), resets.count[place], resets.share[at], resets.chance[at],
                        resets.chance_spread[at], resets.p_value[at], std::int64_t{resets.discovered[at]}});
    }
  });
}

void gap_rows(const ModelRows& rows) {
  rows.each_head([&](std::size_t place) {
    const auto gaps = rows.model().sums.row(AtlasSum::reset_gap, place);
    for (std::size_t bin = 0; bin < kGapBins; ++bin) {
      if (gaps[bin] == 0) continue;
      rows.give(place, {std::int64_t{1} << bin, (std::int64_t{2} << bin) - 1, gaps[bin]});
    }
  });
}

void histogram_rows(const ModelRows& rows) {
  rows.each_head([&](std::size_t place) {
    const auto histogram = rows.model().sums.row(AtlasSum::log_gate_histogram, place);
    for (std::size_t bin = 0; bin < kLogGateBins; ++bin) {
      if (histogram[bin] != 0) rows.give(place, {log_gate_bin(bin), histogram[bin]});
    }
  });
}

void passage_rows(const ModelRows& rows) {
  const AtlasModel& model = rows.model();
  const std::vector<std::int32_t> tokens = atlas_tokens(model.sums);
  const EvaluatedWindows& windows = *model.windows;
  const auto give_list = [&](std::size_t place, const char* kind, const std::vector<AtlasPlace>& list) {
    std::int64_t rank = 0;
    for (const AtlasPlace& one : list) {
      const auto window = index_of(one.window);
      const std::int64_t read = one.window * windows.length + one.position - 1;
      const std::int32_t id = windows.token_id[index_of(read)];
      const std::int32_t document = windows.document[window];
      std::string name = rows.atlas().corpus.documents.empty() ? std::string()
                                                               : rows.atlas().corpus.documents[index_of(document)].name;
      rows.give(place, {kind, rank++, one.window, std::int64_t{document}, std::move(name), one.position,
                        std::int64_t{id}, token_string(model, tokens, id), static_cast<double>(one.value),
                        static_cast<double>(from_float16(one.log_gate[index_of(kSurroundings)]))});
    }
  };
  rows.each_known_head([&](std::size_t place) {
    for (const AtlasPassages& passages : atlas_passages(model, place)) {
      give_list(place, passages.kind, passages.places);
    }
  });
}

void similarity_rows(const ModelRows& rows) {
  const auto missing = [&] {
    return std::vector<float>(rows.head_count() * rows.head_count(), std::numeric_limits<float>::quiet_NaN());
  };
  const std::vector<float> similarity = rows.model().forgets() ? atlas_similarity(rows.model()) : missing();
  std::vector<float> masses = attention_similarity(rows.model());
  if (masses.empty()) masses = missing();
  std::vector<std::int64_t> order(rows.head_count());
  const std::vector<std::int64_t> heads = similarity_order(rows.model().forgets() ? similarity : masses);
  for (std::size_t n = 0; n < heads.size(); ++n) order[index_of(heads[n])] = static_cast<std::int64_t>(n);
  rows.each_known_head([&](std::size_t a) {
    rows.each_known([&](std::size_t b) {
      const auto [layer, head] = rows.head(b);
      rows.give(a, {order[a], layer, head, order[b], static_cast<double>(similarity[a * rows.head_count() + b]),
                    static_cast<double>(masses[a * rows.head_count() + b])});
    });
  });
}

void first_similarity_rows(const ModelRows& rows) {
  const AtlasModel& first = rows.atlas().models.front();
  const std::vector<float> gates = similarity_with_first(rows.model(), first);
  const std::vector<float> masses = attention_similarity_with_first(rows.model(), first);
  const auto others = index_of(rows.model().sums.shape().first_heads);
  const auto value = [](const std::vector<float>& values, std::size_t at) {
    return values.empty() ? std::numeric_limits<double>::quiet_NaN() : static_cast<double>(values[at]);
  };
  rows.each_known_head([&](std::size_t a) {
    for (std::size_t b = 0; b < others; ++b) {
      if (!first.has_gate(b) && !first.has_attention(b)) continue;
      const auto at = static_cast<std::int64_t>(b);
      rows.give(a, {first.info.name, at / first.info.heads, at % first.info.heads, value(gates, a * others + b),
                    value(masses, a * others + b)});
    }
  });
}

void distance_rows(const ModelRows& rows) {
  const std::vector<HeadArray> profiles = atlas_profiles(rows.model());
  const std::vector<DistanceBin> bins = distance_bins(rows.model().info.length);
  for (const HeadArray& profile : profiles) {
    const std::vector<double> errors = row_errors(rows.model(), profile.name);
    rows.each_known_head([&](std::size_t place) {
      for (std::size_t n = 0; n < bins.size(); ++n) {
        const std::size_t at = place * bins.size() + n;
        rows.give(place, {profile.name, bins[n].from, bins[n].to, profile.value[at], profile.error[at],
                          errors.empty() ? std::numeric_limits<double>::quiet_NaN() : errors[at]});
      }
    });
  }
}

template <void (*Rows)(const ModelRows& rows)>
void rows_of(const Atlas& atlas, const AtlasModel& model, const AtlasChoice& choice, const AtlasTable::Row& row) {
  Rows(ModelRows(atlas, model, choice, row));
}

std::vector<std::string> head_columns(const Atlas& atlas) {
  std::vector<std::string> columns;
  for (const std::string& name : number_names(atlas)) {
    columns.insert(columns.end(), {name, name + "_error", name + "_row_error"});
  }
  columns.insert(columns.end(), {"resets", "share_below_half"});
  return columns;
}

void check_choice(const Atlas& atlas, const AtlasChoice& choice) {
  std::vector<std::string> names;
  bool model = false;
  bool head = false;
  for (const AtlasModel& one : atlas.models) {
    names.push_back(one.info.name);
    if (choice.model && *choice.model != one.info.name) continue;
    model = true;
    if (!choice.head) continue;
    const auto [layer, number] = *choice.head;
    head = head || (layer >= 0 && layer < one.info.layers && number >= 0 && number < one.info.mixer(layer).heads);
  }
  if (!model) {
    throw UsageError(fmt::format("--model {}: the atlas has {}{}", *choice.model, fmt::join(names, ", "),
                                 nearest_question(*choice.model, names)));
  }
  if (choice.head && !head) {
    throw UsageError(fmt::format("--head {}:{}: there is no such head: use the numbers of --table heads",
                                 choice.head->first, choice.head->second));
  }
}

}  // namespace

struct AtlasTable::Kind {
  const char* name;
  std::vector<std::string> columns;  ///< behind model, layer, head; empty: those of head_columns
  void (*rows)(const Atlas& atlas, const AtlasModel& model, const AtlasChoice& choice, const Row& row);
};

const std::vector<AtlasTable::Kind>& AtlasTable::kinds() {
  static const std::vector<Kind> kinds = {
      {"heads", {}, rows_of<head_rows>},
      {"distances",
       {"profile", "distance", "distance_end", "value", "value_error", "value_row_error"},
       rows_of<distance_rows>},
      {"tokens",
       {"id", "string", "count", "mean_log_gate", "mean_log_gate_error", "p_value", "discovered", "few",
        "share_below_half", "received"},
       rows_of<token_rows>},
      {"classes",
       {"token_class", "tokens", "mean_log_gate", "mean_log_gate_error", "gate_lower_quartile",
        "gate_lower_quartile_error", "gate_median", "gate_median_error", "gate_upper_quartile",
        "gate_upper_quartile_error", "share_below_half", "share_below_half_error"},
       rows_of<class_rows>},
      {"resets",
       {"token_class", "resets", "share", "chance", "chance_spread", "p_value", "discovered"},
       rows_of<reset_rows>},
      {"gaps", {"gap_begin", "gap_end", "count"}, rows_of<gap_rows>},
      {"histogram", {"minus_log_gate", "positions"}, rows_of<histogram_rows>},
      {"passages",
       {"kind", "rank", "window", "document", "name", "position", "id", "string", "value", "log_gate"},
       rows_of<passage_rows>},
      {"similarity",
       {"order", "other_layer", "other_head", "other_order", "correlation", "attention_correlation"},
       rows_of<similarity_rows>},
      {"first_similarity",
       {"first", "first_layer", "first_head", "correlation", "attention_correlation"},
       rows_of<first_similarity_rows>}};
  return kinds;
}

std::vector<std::string> AtlasTable::names() {
  std::vector<std::string> names;
  for (const Kind& kind : kinds()) names.emplace_back(kind.name);
  return names;
}

AtlasTable::AtlasTable(const Atlas& atlas, std::string_view name, AtlasChoice choice)
    : atlas_(atlas), kind_(nullptr), choice_(std::move(choice)) {
  for (const Kind& kind : kinds()) {
    if (name == kind.name) kind_ = &kind;
  }
  if (kind_ == nullptr) {
    throw UsageError(fmt::format("\"{}\" is no table of an atlas: use {}", name, fmt::join(names(), ", ")));
  }
  check_choice(atlas, choice_);
  columns_ = {"model", "layer", "head"};
  const std::vector<std::string> more = kind_->columns.empty() ? head_columns(atlas) : kind_->columns;
  columns_.insert(columns_.end(), more.begin(), more.end());
}

void AtlasTable::each_row(const Row& row) const {
  for (const AtlasModel& model : atlas_.models) {
    if (choice_.model && *choice_.model != model.info.name) continue;
    kind_->rows(atlas_, model, choice_, row);
  }
}

void write_csv(const AtlasTable& table, const std::function<void(std::string_view text)>& write) {
  constexpr std::size_t kWriteBytes = 1 << 20;
  std::string text = fmt::format("{}\n", fmt::join(table.columns(), ","));
  table.each_row([&](std::span<const AtlasField> fields) {
    for (std::size_t n = 0; n < fields.size(); ++n) {
      if (n > 0) text += ',';
      if (const auto* const whole = std::get_if<std::int64_t>(&fields[n])) {
        text += std::to_string(*whole);
      } else if (const auto* const number = std::get_if<double>(&fields[n])) {
        if (!std::isnan(*number)) text += fmt::format("{}", *number);
      } else {
        text += csv_field(std::get<std::string>(fields[n]));
      }
    }
    text += '\n';
    if (text.size() < kWriteBytes) return;
    write(text);
    text.clear();
  });
  write(text);
}

}  // namespace foxscope
