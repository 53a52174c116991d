#include "backend/model/session/run_tokens.h"

#include <algorithm>
#include <cassert>
#include <optional>
#include <string_view>

#include <fmt/format.h>

#include "backend/base/error.h"
#include "backend/base/log.h"
#include "backend/base/sha256.h"
#include "backend/model/layer/checks.h"
#include "backend/text/tokenizer.h"

namespace foxscope {
namespace {

/// Shifts right behind BOS: position p reads token p-1 and predicts token p.
void put_behind_bos(TokenTable& table, std::int32_t bos) {
  table.input_id = {bos};
  table.input_id.insert(table.input_id.end(), table.id.begin(), table.id.end() - 1);
}

template <typename T>
void cut(std::vector<T>& values, std::optional<std::int64_t> limit) {
  if (limit && std::ssize(values) > *limit) values.resize(static_cast<std::size_t>(*limit));
}

void read_text(const RunInput& input, std::optional<std::int64_t> limit, const Tokenizer& tokenizer,
               TokenTable& table) {
  const std::string_view content = input.text->content;
  Tokens tokens = tokenizer.encode(content);
  log_line(LogCategory::text, [&] {
    return fmt::format("{}: {} bytes are {} tokens{}", input.name, content.size(), tokens.size(),
                       limit && *limit < static_cast<std::int64_t>(tokens.size())
                           ? fmt::format(", of which the first {} are read", *limit)
                           : "");
  });
  table.id = std::move(tokens.id);
  table.byte_start = std::move(tokens.byte_start);
  table.byte_end = std::move(tokens.byte_end);
  cut(table.id, limit);
  cut(table.byte_start, limit);
  cut(table.byte_end, limit);
  table.string.reserve(table.id.size());
  for (std::size_t n = 0; n < table.id.size(); ++n) {
    const auto begin = static_cast<std::size_t>(table.byte_start[n]);
    table.string.push_back(
        replace_invalid_utf8(content.substr(begin, static_cast<std::size_t>(table.byte_end[n]) - begin)));
  }
}

void name_ids(const Tokenizer& tokenizer, TokenTable& table) {
  table.string.reserve(table.id.size());
  for (const std::int32_t id : table.id) {
    table.string.push_back(id < tokenizer.vocabulary_size() ? replace_invalid_utf8(tokenizer.token_bytes(id)) : "");
  }
}

}  // namespace

std::vector<std::int32_t> read_prompt(const OpenedModel& model, const RunInput& input) {
  std::vector<std::int32_t> ids = input.text ? model.tokenizer().encode(input.text->content).id : input.ids;
  if (!input.labels) ids.insert(ids.begin(), model.bos());
  check_any(ids, input.name);
  check_ids(ids, model.config.vocabulary_size, input.name);
  return ids;
}

std::shared_ptr<const Text> read_text_of(const RunInput& input, const TokenTable& tokens,
                                         std::optional<std::int64_t> limit) {
  if (!input.text) return nullptr;
  const bool cut = limit && std::ssize(tokens.id) == *limit && tokens.byte_end.back() < std::ssize(input.text->content);
  if (!cut && !input.text->sha256.empty()) return input.text;
  Text text = cut ? part_read(*input.text, tokens.byte_end.back()) : *input.text;
  text.sha256 = sha256(text.content);
  return std::make_shared<const Text>(std::move(text));
}

std::shared_ptr<const TokenTable> read_run_tokens(const OpenedModel& model, const RunInput& input,
                                                  std::optional<std::int64_t> limit) {
  const std::int64_t vocabulary = model.config.vocabulary_size;
  auto table = std::make_shared<TokenTable>();
  if (input.text) {
    read_text(input, limit, model.tokenizer(), *table);
  } else {
    table->id = input.labels.value_or(input.ids);
    cut(table->id, limit);
  }
  check_any(table->id, input.name);
  check_ids(table->id, vocabulary, input.labels ? input.name + ", labels" : input.name);
  if (input.labels) {
    if (input.labels->size() != input.ids.size()) {
      throw UsageError(fmt::format("{}: {} input_ids and {} labels: there must be as many of both", input.name,
                                   input.ids.size(), input.labels->size()));
    }
    table->input_id = input.ids;
    cut(table->input_id, limit);
    check_ids(table->input_id, vocabulary, input.name + ", input_ids");
  } else {
    put_behind_bos(*table, model.bos());
  }
  if (const Tokenizer* names = input.text ? nullptr : model.find_tokenizer()) name_ids(*names, *table);
  assert(table->input_id.size() == table->id.size());
  assert(table->byte_start.empty() || table->byte_start.size() == table->id.size());
  assert(table->string.empty() || table->string.size() == table->id.size());
  return table;
}

}  // namespace foxscope
