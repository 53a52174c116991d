#include "backend/model/run_tokens.h"

#include <algorithm>
#include <cassert>
#include <optional>
#include <string_view>

#include <fmt/format.h>

#include "backend/base/error.h"
#include "backend/base/log.h"
#include "backend/model/checks.h"
#include "backend/model/run_settings.h"
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

void read_text(const RunRequest& request, const Tokenizer& tokenizer, TokenTable& table) {
  const std::string_view content = request.input.text->content;
  Tokens tokens = tokenizer.encode(content);
  log_line(LogCategory::text, [&] {
    return fmt::format("{}: {} bytes are {} tokens{}", request.input.name, content.size(), tokens.size(),
                       request.limit && *request.limit < static_cast<std::int64_t>(tokens.size())
                           ? fmt::format(", of which the first {} are read", *request.limit)
                           : "");
  });
  table.id = std::move(tokens.id);
  table.byte_start = std::move(tokens.byte_start);
  table.byte_end = std::move(tokens.byte_end);
  cut(table.id, request.limit);
  cut(table.byte_start, request.limit);
  cut(table.byte_end, request.limit);
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

bool has_tokenizer(const Checkpoint& checkpoint) {
  return std::filesystem::exists(checkpoint.folder() / "tokenizer.json") ||
         std::filesystem::exists(checkpoint.folder() / "vocab.json");
}

std::vector<std::int32_t> read_prompt(const RunRequest& request, const Checkpoint& checkpoint,
                                      const Tokenizer* tokenizer) {
  const RunInput& input = request.input;
  std::vector<std::int32_t> ids = input.text ? tokenizer->encode(input.text->content).id : input.ids;
  if (!input.labels) ids.insert(ids.begin(), choose_bos(request, checkpoint, tokenizer));
  if (ids.empty()) throw Error(fmt::format("{}: holds no input_ids: a prompt needs at least one", input.name));
  check_ids(ids, checkpoint.config().vocabulary_size, input.name);
  return ids;
}

std::shared_ptr<const TokenTable> read_run_tokens(const RunRequest& request, const Checkpoint& checkpoint) {
  const RunInput& input = request.input;
  std::optional<Tokenizer> tokenizer;
  if (input.text || has_tokenizer(checkpoint)) tokenizer = Tokenizer::load(checkpoint.folder());
  const std::int64_t vocabulary = checkpoint.config().vocabulary_size;
  auto table = std::make_shared<TokenTable>();
  if (input.text) {
    read_text(request, *tokenizer, *table);
  } else {
    table->id = input.labels.value_or(input.ids);
    cut(table->id, request.limit);
  }
  if (table->id.empty()) {
    throw Error(fmt::format("{}: holds no tokens: a run needs at least one", input.name));
  }
  check_ids(table->id, vocabulary, input.labels ? input.name + ", labels" : input.name);
  if (input.labels) {
    if (input.labels->size() != input.ids.size()) {
      throw UsageError(fmt::format("{}: {} input_ids and {} labels: there must be as many of both", input.name,
                                   input.ids.size(), input.labels->size()));
    }
    table->input_id = input.ids;
    cut(table->input_id, request.limit);
    check_ids(table->input_id, vocabulary, input.name + ", input_ids");
  } else {
    put_behind_bos(*table, choose_bos(request, checkpoint, tokenizer ? &*tokenizer : nullptr));
  }
  if (!input.text && tokenizer) name_ids(*tokenizer, *table);
  assert(table->input_id.size() == table->id.size());
  assert(table->byte_start.empty() || table->byte_start.size() == table->id.size());
  assert(table->string.empty() || table->string.size() == table->id.size());
  return table;
}

}  // namespace foxscope
