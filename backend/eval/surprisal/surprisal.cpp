#include "backend/eval/surprisal/surprisal.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "backend/base/index.h"
#include "backend/data/corpus.h"
#include "backend/model/layer/checks.h"
#include "backend/text/json_reading.h"
#include "backend/text/tokenizer.h"
#include "backend/text/unicode/utf8.h"
#include "backend/trace/recorder.h"
#include "backend/trace/trace.h"

namespace foxscope {
namespace {

/// Tokens of documents that are scored in one request: what is near in length shares a pass.
constexpr std::int64_t kTokensTogether = 65536;

/// A text's ids behind BOS, and what they predict.
struct BehindBos {
  std::vector<std::int32_t> read;
  std::vector<std::int32_t> labels;
  [[nodiscard]] ScoredText text() const { return {read, 0, std::ssize(read), labels}; }
};

BehindBos behind_bos(const std::vector<std::int32_t>& ids, std::int32_t bos) {
  BehindBos text{{bos}, ids};
  text.read.insert(text.read.end(), ids.begin(), ids.end() - 1);
  return text;
}

/// Tokens that end a text: BOS, which stands between texts, and eos_token_id of config.json, an id or a list of them.
std::vector<std::int64_t> text_ends(const OpenedModel& model, const TraceInfo& info) {
  std::vector<std::int64_t> ends = {model.bos()};
  const nlohmann::json config = nlohmann::json::parse(info.config, nullptr, /*allow_exceptions=*/false);
  const nlohmann::json* const ids = member(config, "eos_token_id");
  if (ids == nullptr) return ends;
  for (const nlohmann::json& id : ids->is_array() ? *ids : nlohmann::json::array({*ids})) {
    if (id.is_number_integer()) ends.push_back(id.get<std::int64_t>());
  }
  std::erase_if(ends, [&](std::int64_t id) { return id < 0 || id >= model.config.vocabulary_size; });
  return ends;
}

/// Which tokens of a vocabulary begin a new word, [V] 1 or 0: those that begin with white space, and those that end a
/// text. A token that begins with a part of a character is none.
std::vector<std::uint8_t> word_beginnings(const OpenedModel& model, const TraceInfo& info) {
  const Tokenizer& tokenizer = model.tokenizer();
  std::vector<std::uint8_t> begins(static_cast<std::size_t>(model.config.vocabulary_size));
  const std::int64_t named = std::min<std::int64_t>(model.config.vocabulary_size, tokenizer.vocabulary_size());
  for (std::int64_t id = 0; id < named; ++id) {
    const std::string token = replace_invalid_utf8(tokenizer.token_bytes(static_cast<std::int32_t>(id)));
    const bool space = !token.empty() && is_white_space(character_at(token, 0).code_point);
    begins[index_of(id)] = space ? 1 : 0;
  }
  for (const std::int64_t id : text_ends(model, info)) begins[index_of(id)] = 1;
  return begins;
}

/// Documents that wait for a request, whose tokens are in the table already.
class SurprisalReader {
 public:
  /// @param info  of the model, of any length
  SurprisalReader(const SurprisalRequest& request, const OpenedModel& model, const TraceInfo& info, CausalLM& lm)
      : request_(request), model_(model), info_(info), lm_(lm) {
    table_.model = info.name;
    if (request.ends == WordEnds::counted) beginnings_ = word_beginnings(model, info);
    for (int layer = 0; layer < info.layers; ++layer) {
      if (!forgets(info, layer)) continue;
      for (int head = 0; head < info.mixer(layer).heads; ++head) heads_.emplace_back(layer, head);
    }
    if (heads_.empty()) return;
    if (request.gates == GateColumns::mean) {
      table_.gate_names = {"gate"};
      return;
    }
    for (const auto& [layer, head] : heads_) table_.gate_names.push_back(fmt::format("gate_{}_{}", layer, head));
  }

  void add(const CorpusDocument& document) {
    Tokens tokens = model_.tokenizer().encode(document.text);
    Text text{document.text, ""};
    if (request_.limit && *request_.limit < std::ssize(tokens.id)) {
      const auto most = static_cast<std::size_t>(*request_.limit);
      tokens.id.resize(most);
      tokens.byte_start.resize(most);
      tokens.byte_end.resize(most);
      text = part_read(text, tokens.byte_end.back());
    }
    if (tokens.id.empty()) return;
    check_ids(tokens.id, model_.config.vocabulary_size, document.name);
    const std::int64_t index = std::ssize(table_.documents);
    table_.documents.push_back(document.name);
    add_words(text, index, tokens);
    BehindBos& waiting = waiting_.emplace_back(behind_bos(tokens.id, model_.bos()));
    // Whether a word begins behind the last token is asked of the position that reads it, which has no label.
    if (!beginnings_.empty()) waiting.read.push_back(tokens.id.back());
    waiting_tokens_ += std::ssize(tokens.id);
  }

  [[nodiscard]] bool full() const { return waiting_tokens_ >= kTokensTogether; }

  /// @returns false if the job was stopped
  bool flush(const Job& job) {
    if (waiting_.empty()) return true;
    ScoreRequest request{model_.options};
    request.distribution = true;
    request.marked = beginnings_;
    for (const BehindBos& text : waiting_) request.texts.push_back(text.text());
    const auto scores = lm_.score(request, job);
    if (!scores) return false;
    for (std::size_t n = 0; n < waiting_.size(); ++n) {
      const auto of_text = std::span((*scores)[n]).first(waiting_[n].labels.size());
      for (const ScoredPosition& position : of_text) {
        table_.surprisal.push_back(-position.log_probability);
        table_.entropy.push_back(position.entropy);
        table_.rank.push_back(position.rank);
        if (!beginnings_.empty()) table_.boundary.push_back(position.marked_log_probability);
      }
      if (!beginnings_.empty()) table_.boundary_end.push_back((*scores)[n].back().marked_log_probability);
      if (!table_.gate_names.empty() && !add_gates(waiting_[n], job)) return false;
    }
    waiting_.clear();
    waiting_tokens_ = 0;
    return true;
  }

  Surprisals finish() { return std::move(table_); }

 private:
  void add_words(const Text& text, std::int64_t index, const Tokens& tokens) {
    std::vector<SurprisalWord> words = words_of(text, request_.words);
    const std::int64_t before = std::ssize(table_.words);
    for (const std::int64_t word : give_tokens(words, text, tokens.byte_start, std::ssize(table_.id))) {
      table_.word.push_back(before + word);
    }
    for (std::size_t t = 0; t < tokens.size(); ++t) {
      table_.document.push_back(index);
      table_.token.push_back(static_cast<std::int64_t>(t));
      table_.id.push_back(tokens.id[t]);
      if (!beginnings_.empty()) table_.begins_word.push_back(beginnings_[index_of(tokens.id[t])] != 0);
      table_.byte_start.push_back(tokens.byte_start[t]);
      table_.byte_end.push_back(tokens.byte_end[t]);
      table_.string.push_back(replace_invalid_utf8(model_.tokenizer().token_bytes(tokens.id[t])));
    }
    for (SurprisalWord& one : words) {
      one.document = index;
      table_.words.push_back(std::move(one));
    }
  }

  /// f of every head that forgets where each token is read, which is one position after it was predicted.
  bool add_gates(const BehindBos& text, const Job& job) {
    std::vector<std::int32_t> read(text.read.begin(), text.read.begin() + std::ssize(text.labels));
    read.push_back(text.labels.back());
    std::vector<std::int32_t> labels = text.labels;
    labels.push_back(model_.bos());  // nobody asks for its loss
    TraceInfo info = info_;
    info.length = std::ssize(read);
    Recorder recorder(info, KeepSet{Keep::gates}, nullptr);
    Recorder* const recorders[] = {&recorder};
    if (!lm_.forward({model_.options, 1, info.length, read, labels}, recorders, job)) return false;
    const std::shared_ptr<const Trace> trace = recorder.finish(nullptr, nullptr);
    const std::size_t columns = table_.gate_names.size();
    const std::size_t begin = table_.gate.size();
    std::vector<double> sums(columns * text.labels.size());
    for (std::size_t n = 0; n < heads_.size(); ++n) {
      const std::span<const double> c = trace->cumulative_log_gate(heads_[n].first, heads_[n].second);
      const bool mean = request_.gates == GateColumns::mean;
      for (std::size_t t = 0; t < text.labels.size(); ++t) {
        const double f = std::exp(c[t + 1] - c[t]);
        sums[t * columns + (mean ? 0 : n)] += mean ? f / static_cast<double>(heads_.size()) : f;
      }
    }
    table_.gate.resize(begin + sums.size());
    std::ranges::transform(sums, table_.gate.begin() + static_cast<std::ptrdiff_t>(begin),
                           [](double f) { return static_cast<float>(f); });
    return true;
  }

  const SurprisalRequest& request_;
  const OpenedModel& model_;
  const TraceInfo& info_;
  CausalLM& lm_;
  std::vector<std::pair<int, int>> heads_;  ///< layer and head, of those that forget
  std::vector<std::uint8_t> beginnings_;    ///< of word_beginnings; empty: not asked for
  Surprisals table_;
  std::vector<BehindBos> waiting_;
  std::int64_t waiting_tokens_ = 0;
};

}  // namespace

std::optional<Surprisals> evaluate_surprisal(const OpenedModel& model, const SurprisalRequest& request,
                                             const Job& job) {
  check_limit(request.limit);
  CorpusReader corpus(request.corpus);
  const auto info = model.describe(1, job);
  if (!info) return std::nullopt;
  const auto lm = model.load(job);
  if (!lm) return std::nullopt;
  SurprisalReader reader(request, model, *info, *lm);
  Job quiet = job;  // progress is the corpus's
  quiet.report = nullptr;
  while (const std::optional<CorpusDocument> document = corpus.next()) {
    if (job.stopped()) return std::nullopt;
    reader.add(*document);
    if (!reader.full()) continue;
    if (!reader.flush(quiet)) return std::nullopt;
    job.tell({corpus.bytes_done(), corpus.total_bytes(), "bytes", "surprisal"});
  }
  if (!reader.flush(quiet)) return std::nullopt;
  Surprisals table = reader.finish();
  check_any(table.id, request.corpus.string());
  return table;
}

std::optional<MinimalPairs> evaluate_pairs(const OpenedModel& model, std::vector<MinimalPair> pairs, const Job& job) {
  std::vector<BehindBos> texts;
  for (std::size_t n = 0; n < pairs.size(); ++n) {
    for (const std::string* sentence : {&pairs[n].good, &pairs[n].bad}) {
      const std::vector<std::int32_t> ids = model.tokenizer().encode(*sentence).id;
      const std::string where = fmt::format("pair {}, a sentence", n);
      check_any(ids, where);
      check_ids(ids, model.config.vocabulary_size, where);
      texts.push_back(behind_bos(ids, model.bos()));
    }
  }
  const auto lm = model.load(job);
  if (!lm) return std::nullopt;
  ScoreRequest request{model.options};
  for (const BehindBos& text : texts) request.texts.push_back(text.text());
  const auto scores = lm->score(request, job);
  if (!scores) return std::nullopt;
  MinimalPairs result{model.request.name, std::move(pairs), {}};
  const auto sum = [&](std::size_t text) {
    double all = 0;
    for (const ScoredPosition& position : (*scores)[text]) all += static_cast<double>(position.log_probability);
    return all;
  };
  for (std::size_t n = 0; n < result.pairs.size(); ++n) {
    result.scores.push_back(
        {sum(2 * n), sum(2 * n + 1), std::ssize(texts[2 * n].labels), std::ssize(texts[2 * n + 1].labels)});
  }
  return result;
}

}  // namespace foxscope
