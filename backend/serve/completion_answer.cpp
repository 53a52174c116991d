#include "backend/serve/completion_answer.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <optional>
#include <span>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "backend/data/text_stream.h"
#include "backend/text/tokenizer.h"

namespace foxscope {
namespace {

constexpr std::size_t kLongestMessage = 400;

std::string json_string(std::string_view text) { return nlohmann::json(replace_invalid_utf8(text)).dump(); }

std::int64_t characters_in(std::string_view text) {
  return std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; });
}

std::string token_name(const Tokenizer* tokenizer, std::int32_t id) {
  if (tokenizer == nullptr || id >= tokenizer->vocabulary_size()) return fmt::format("token_id:{}", id);
  const std::string_view bytes = tokenizer->token_bytes(id);
  if (!find_invalid_utf8(bytes)) return std::string(bytes);
  std::string name = "bytes:";
  for (const char byte : bytes) name += fmt::format("\\x{:02x}", static_cast<unsigned char>(byte));
  return name;
}

/// log p as JSON: float32 as the double that it is. JSON has no infinity: a token that cannot come gets the lowest.
void put_number(std::string& out, float value) {
  const double finite = std::max(value, std::numeric_limits<float>::lowest());
  fmt::format_to(std::back_inserter(out), "{}", finite);
}

/// One entry of the four lists.
struct AnswerEntry {
  std::int32_t id = 0;
  const ScoredPosition* score = nullptr;  ///< null: nothing predicts it
  std::int64_t offset = 0;                ///< characters of the text before it
};

/// The text of a choice, and where its tokens begin in it.
class ChoiceText {
 public:
  explicit ChoiceText(const Tokenizer* tokenizer) {
    if (tokenizer != nullptr) stream_.emplace(*tokenizer);
  }
  void add_prompt(const std::vector<std::int32_t>& ids, const Tokenizer* tokenizer) {
    for (const std::int32_t id : ids) add(id);
    if (tokenizer == nullptr || ids.empty() || ids.front() >= tokenizer->vocabulary_size()) return;
    // A space that encode puts in front of a text is not the text's.
    const std::size_t within = tokenizer->decode_within({ids.front()}).size();
    const std::size_t alone = tokenizer->decode({ids.front()}).size();
    if (alone < within) front_ = within - alone;
  }
  void add(std::int32_t id) {
    offsets_.push_back(characters_);
    if (!stream_) return;
    const std::string piece = stream_->add(id);
    characters_ += characters_in(piece);
    text_ += piece;
  }
  void finish() {
    if (!stream_) return;
    text_ += stream_->finish();
    text_.erase(0, front_);
    characters_ = characters_in(text_);
  }
  [[nodiscard]] const std::string& text() const { return text_; }
  [[nodiscard]] std::int64_t offset(std::size_t token, std::int64_t all) const {
    return std::clamp<std::int64_t>(offsets_[token] - static_cast<std::int64_t>(front_), 0, all);
  }

 private:
  std::optional<TextStream> stream_;
  std::string text_;
  std::int64_t characters_ = 0;
  std::size_t front_ = 0;  ///< bytes, spaces
  std::vector<std::int64_t> offsets_;
};

/// The likeliest tokens and the actual one, which has the same number in both places. Two tokens of one name share a
/// key: it keeps the larger number, so that whether a token is the likeliest can be read from the numbers.
void put_top(std::string& out, const AnswerEntry& entry, int top, const TokenNames& names) {
  if (entry.score == nullptr) {
    out += "null";
    return;
  }
  std::vector<std::pair<const std::string*, float>> best;
  const auto put = [&](std::int32_t id, float value) {
    const std::string& name = names.json(id);
    const auto same = std::ranges::find_if(best, [&](const auto& one) { return *one.first == name; });
    if (same == best.end()) {
      best.emplace_back(&name, value);
    } else {
      same->second = std::max(same->second, value);
    }
  };
  for (const ScoredToken& token :
       std::span(entry.score->top).first(std::min(entry.score->top.size(), static_cast<std::size_t>(top)))) {
    put(token.id, token.log_probability);
  }
  put(entry.id, entry.score->log_probability);
  out += '{';
  for (std::size_t n = 0; n < best.size(); ++n) {
    if (n > 0) out += ',';
    out += *best[n].first;
    out += ':';
    put_number(out, best[n].second);
  }
  out += '}';
}

template <typename Put>
void put_list(std::string& out, std::string_view name, const std::vector<AnswerEntry>& entries, const Put& put) {
  fmt::format_to(std::back_inserter(out), "\"{}\":[", name);
  for (std::size_t n = 0; n < entries.size(); ++n) {
    if (n > 0) out += ',';
    put(entries[n]);
  }
  out += ']';
}

void put_logprobs(std::string& out, const std::vector<AnswerEntry>& entries, int top, const TokenNames& names) {
  out += '{';
  put_list(out, "tokens", entries, [&](const AnswerEntry& entry) { out += names.json(entry.id); });
  out += ',';
  put_list(out, "token_logprobs", entries, [&](const AnswerEntry& entry) {
    if (entry.score == nullptr) {
      out += "null";
    } else {
      put_number(out, entry.score->log_probability);
    }
  });
  out += ',';
  put_list(out, "text_offset", entries, [&](const AnswerEntry& entry) { out += std::to_string(entry.offset); });
  out += ',';
  if (top == 0) {
    out += "\"top_logprobs\":null}";
    return;
  }
  put_list(out, "top_logprobs", entries, [&](const AnswerEntry& entry) { put_top(out, entry, top, names); });
  out += '}';
}

void put_choice(std::string& out, std::size_t index, const CompletionRequest& request, const Completion& completion,
                const ServedModel& model, const TokenNames& names) {
  const std::vector<std::int32_t>& prompt = request.prompts[index];
  ChoiceText echoed(model.tokenizer);
  if (request.echo) {
    echoed.add_prompt(prompt, model.tokenizer);
    echoed.finish();
  }
  ChoiceText added(model.tokenizer);
  for (const std::int32_t id : completion.ids) added.add(id);
  const std::string text = echoed.text() + completion.text;
  fmt::format_to(std::back_inserter(out), "{{\"index\":{},\"text\":{},\"finish_reason\":\"{}\",\"logprobs\":", index,
                 json_string(text), completion.stopped ? "stop" : "length");
  if (!request.logprobs) {
    out += "null}";
    return;
  }
  const std::int64_t before = characters_in(echoed.text());
  const std::int64_t all = characters_in(completion.text);
  std::vector<AnswerEntry> entries;
  const std::size_t unpredicted = adds_bos(prompt, model) ? 0 : 1;
  for (std::size_t n = 0; request.echo && n < prompt.size(); ++n) {
    entries.push_back(
        {prompt[n], n < unpredicted ? nullptr : &completion.prompt[n - unpredicted], echoed.offset(n, before)});
  }
  for (std::size_t n = 0; n < completion.ids.size(); ++n) {
    entries.push_back({completion.ids[n], &completion.added[n], before + added.offset(n, all)});
  }
  put_logprobs(out, entries, *request.logprobs, names);
  out += '}';
}

}  // namespace

TokenNames::TokenNames(const ServedModel& model) {
  names_.reserve(static_cast<std::size_t>(model.vocabulary_size));
  for (std::int32_t id = 0; id < model.vocabulary_size; ++id)
    names_.push_back(json_string(token_name(model.tokenizer, id)));
}

std::string completion_answer(const CompletionRequest& request, const std::vector<Completion>& completions,
                              const ServedModel& model, const TokenNames& names, std::string_view id,
                              std::int64_t created) {
  std::string out = fmt::format(R"({{"id":{},"object":"text_completion","created":{},"model":{},"choices":[)",
                                json_string(id), created, json_string(model.name));
  std::size_t read = 0;
  std::size_t added = 0;
  for (std::size_t n = 0; n < completions.size(); ++n) {
    if (n > 0) out += ',';
    put_choice(out, n, request, completions[n], model, names);
    read += request.prompts[n].size();
    added += completions[n].ids.size();
  }
  out += fmt::format(R"(],"usage":{{"prompt_tokens":{},"completion_tokens":{},"total_tokens":{}}}}})", read, added,
                     read + added);
  return out;
}

std::string error_answer(int status, std::string_view code, std::string_view message) {
  const char* type = status >= 500 ? "server_error" : status == 404 ? "not_found_error" : "invalid_request_error";
  std::string line = replace_invalid_utf8(message);
  if (line.size() > kLongestMessage) {
    std::size_t end = kLongestMessage - 3;
    while (end > 0 && (static_cast<unsigned char>(line[end]) & 0xC0U) == 0x80U) --end;
    line = line.substr(0, end) + "...";
  }
  return nlohmann::ordered_json{{"error", {{"message", line}, {"type", type}, {"code", code}}}}.dump();
}

}  // namespace foxscope
