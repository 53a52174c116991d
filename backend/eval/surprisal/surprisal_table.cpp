#include "backend/eval/surprisal/surprisal_table.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "backend/base/csv_field.h"
#include "backend/base/error.h"
#include "backend/base/index.h"
#include "backend/eval/evaluation_file.h"
#include "backend/text/file_bytes.h"
#include "backend/text/json_reading.h"
#include "backend/text/pattern.h"
#include "backend/text/unicode/utf8.h"

namespace foxscope {
namespace {

std::string rank_text(std::int64_t rank) { return rank > 0 ? std::to_string(rank) : std::string(); }

std::string value_text(double value) { return std::isfinite(value) ? fmt::format("{}", value) : std::string(); }

/// Whether a word ends a sentence.
bool ends_sentence(std::string_view word) {
  constexpr std::u32string_view kClosing = U")]}\"'\u2019\u201D\u00BB\u300D";
  constexpr std::u32string_view kEnds = U".!?\u2026\u3002\uFF01\uFF1F";
  while (!word.empty()) {
    const std::size_t last = previous_character(word, word.size());
    const char32_t letter = character_at(word, last).code_point;
    if (kClosing.find(letter) == std::u32string_view::npos) return kEnds.find(letter) != std::u32string_view::npos;
    word = word.substr(0, last);
  }
  return false;
}

/// Strings of HDF5 end at a NUL.
std::vector<std::string> escaped(std::vector<std::string> strings) {
  for (std::string& one : strings) {
    for (std::size_t at = one.find('\0'); at != std::string::npos; at = one.find('\0', at)) one.replace(at, 1, "\\0");
  }
  return strings;
}

/// One number or text of each.
template <typename Row, typename Value>
std::vector<Value> column_of(const std::vector<Row>& rows, Value Row::*value) {
  std::vector<Value> values;
  for (const Row& row : rows) values.push_back(row.*value);
  return values;
}

class SurprisalFileWriter {
 public:
  SurprisalFileWriter(EvaluationWriter& file, const Surprisals& table) : file_(file), table_(table) {}

  void write() {
    file_.hdf5().strings("/documents", table_.documents);
    write_tokens();
    write_words();
  }

 private:
  template <typename T>
  void nats(const std::string& path, const std::vector<T>& values) {
    file_.column(path, values);
    file_.attribute(path, "units", "nats");
  }
  void gates(const std::string& path, const std::vector<float>& values) {
    const std::size_t count = table_.gate_names.size();
    if (count == 0) return;
    file_.hdf5().array(path, Element::float32, {values.size() / count, count}, values.data(), nullptr);
    file_.attribute(path, "columns", table_.gate_names);
  }
  void write_tokens() {
    file_.column("/tokens/document", table_.document);
    file_.column("/tokens/token", table_.token);
    file_.column("/tokens/word", table_.word);
    file_.column("/tokens/id", table_.id);
    file_.column("/tokens/byte_start", table_.byte_start);
    file_.column("/tokens/byte_end", table_.byte_end);
    file_.hdf5().strings("/tokens/string", escaped(table_.string));
    nats("/tokens/surprisal", table_.surprisal);
    nats("/tokens/entropy", table_.entropy);
    file_.column("/tokens/rank", table_.rank);
    gates("/tokens/gate", table_.gate);
    if (!table_.boundary.empty()) nats("/tokens/boundary", table_.boundary);
    file_.plottable("/tokens", "surprisal", {"."});
  }
  void write_words() {
    std::vector<WordNumbers> numbers;
    std::vector<float> gate;
    for (const SurprisalWord& word : table_.words) {
      for (const double one : numbers.emplace_back(numbers_of(table_, word)).gate) {
        gate.push_back(static_cast<float>(one));
      }
    }
    file_.column("/words/document", column_of(table_.words, &SurprisalWord::document));
    file_.column("/words/word", column_of(table_.words, &SurprisalWord::index));
    file_.column("/words/sentence", column_of(table_.words, &SurprisalWord::sentence));
    file_.column("/words/first_token", column_of(table_.words, &SurprisalWord::first));
    file_.column("/words/end_token", column_of(table_.words, &SurprisalWord::end));
    file_.column("/words/byte_start", column_of(table_.words, &SurprisalWord::byte_start));
    file_.column("/words/byte_end", column_of(table_.words, &SurprisalWord::byte_end));
    file_.hdf5().strings("/words/string", escaped(column_of(table_.words, &SurprisalWord::string)));
    nats("/words/surprisal", column_of(numbers, &WordNumbers::surprisal));
    nats("/words/entropy", column_of(numbers, &WordNumbers::entropy));
    file_.column("/words/rank", column_of(numbers, &WordNumbers::rank));
    gates("/words/gate", gate);
    if (!table_.boundary.empty()) {
      nats("/words/whole_word_surprisal", column_of(numbers, &WordNumbers::whole_word_surprisal));
    }
  }

  EvaluationWriter& file_;
  const Surprisals& table_;
};

constexpr double kNotKnown = std::numeric_limits<double>::quiet_NaN();

/// WordNumbers::whole_word_surprisal of a word that has tokens.
double whole_word_surprisal(const Surprisals& table, const SurprisalWord& word) {
  const auto first = static_cast<std::size_t>(word.first);
  const bool begins_text = table.token[first] == 0;
  if (!begins_text && !table.begins_word[first]) return kNotKnown;
  // A text's first word ends nothing: it begins without white space, unless there is some in front of it.
  const auto space = static_cast<double>(table.boundary[first]);
  double sum = table.begins_word[first] ? space : std::log1p(-std::exp(space));
  // White space at the end of a text belongs to its last word, and is no part of it.
  std::size_t t = first;
  for (; t < static_cast<std::size_t>(word.end) && table.byte_start[t] < word.byte_end; ++t) {
    sum += static_cast<double>(table.surprisal[t]);
  }
  if (t == first || table.byte_end[t - 1] > word.byte_end) return kNotKnown;
  const bool ends_text = t == table.tokens() || table.document[t] != word.document;
  return sum - static_cast<double>(ends_text ? table.boundary_end[index_of(word.document)] : table.boundary[t]);
}

std::vector<SurprisalWord> words_between_white_space(std::string_view text) {
  std::vector<SurprisalWord> words;
  std::int64_t sentence = 0;
  bool ended = false;
  int line_ends = 0;
  for (std::size_t position = 0; position < text.size();) {
    const Character character = character_at(text, position);
    if (is_white_space(character.code_point)) {
      line_ends += character.code_point == U'\n' ? 1 : 0;
      position += character.bytes;
      continue;
    }
    if (!words.empty() && (ended || line_ends > 1)) ++sentence;
    line_ends = 0;
    const std::size_t begin = position;
    while (position < text.size() && !is_white_space(character_at(text, position).code_point)) {
      position += character_at(text, position).bytes;
    }
    SurprisalWord& word = words.emplace_back();
    word.index = std::ssize(words) - 1;
    word.sentence = sentence;
    word.byte_start = static_cast<std::int64_t>(begin);
    word.byte_end = static_cast<std::int64_t>(position);
    word.string = std::string(text.substr(begin, position - begin));
    ended = ends_sentence(word.string);
  }
  return words;
}

/// A regular expression for the text from a place that is no white space to the next word boundary. A letter takes what
/// its rules join: marks and format characters, letters behind one of . ' : and their like, digits behind one of . , '
/// ; and theirs, connectors as _ is one. Ideographs, hiragana and the letters of scripts that dictionaries cut stand
/// alone, as what is no letter or digit does, each with its marks (\X). Left out is the quotation mark inside Hebrew
/// words.
std::string boundary_expression() {
  const std::string marks = R"([\p{M}\p{Cf}]*+)";
  const std::string letter = R"((?![\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}])[\p{L}\p{Nl}])";
  const std::string digit = R"([\p{Nd}\x{66B}])";
  const std::string connector = R"([\p{Pc}\x{202F}])";
  const std::string either = R"(['.\x{2018}\x{2019}\x{2024}\x{FE52}\x{FF07}\x{FF0E}])";
  const std::string between_letters =
      R"((?:[:\x{B7}\x{387}\x{55F}\x{5F4}\x{2027}\x{FE13}\x{FE55}\x{FF1A}]|)" + either + ')';
  const std::string between_digits =
      R"((?:[,;\x{37E}\x{589}\x{60C}\x{60D}\x{66C}\x{7F8}\x{2044}\x{FE10}\x{FE14}\x{FE50}\x{FE54}\x{FF0C}\x{FF1B}]|)" +
      either + ')';
  const std::string letters = letter + marks + "(?:" + between_letters + marks + "(?=" + letter + "))?";
  const std::string digits = digit + marks + "(?:" + between_digits + marks + "(?=" + digit + "))?";
  const std::string connectors = connector + marks;
  return "(?:" + letters + '|' + digits + '|' + connectors + R"()++|(?:\p{Katakana})" + marks + '|' + connectors +
         R"()++|\X)";
}

}  // namespace

std::vector<SurprisalWord> words_of(const Text& whole_text, WordRule rule) {
  const std::string_view text = whole_text.content;
  std::vector<SurprisalWord> between = words_between_white_space(text);
  if (!between.empty()) between.back().cut = whole_text.cut_word && between.back().byte_end == std::ssize(text);
  if (rule == WordRule::white_space) return between;
  static const Pattern pattern(boundary_expression());
  Matcher matcher(pattern);
  std::vector<SurprisalWord> words;
  for (const SurprisalWord& whole : between) {
    const auto end = static_cast<std::size_t>(whole.byte_end);
    for (auto begin = static_cast<std::size_t>(whole.byte_start); begin < end;) {
      const std::size_t next = std::min(matcher.match_end(text, begin).value_or(end), end);
      SurprisalWord& word = words.emplace_back(whole);
      word.index = std::ssize(words) - 1;
      word.byte_start = static_cast<std::int64_t>(begin);
      word.byte_end = static_cast<std::int64_t>(next);
      word.string = std::string(text.substr(begin, next - begin));
      word.cut = whole.cut && next == end;
      begin = next;
    }
  }
  return words;
}

std::vector<std::int64_t> give_tokens(std::vector<SurprisalWord>& words, const Text& text,
                                      std::span<const std::int64_t> byte_start, std::int64_t first) {
  if (words.empty()) words.push_back({0, 0, 0, 0, 0, 0, std::ssize(text.content), "", false});
  std::vector<std::int64_t> of_token;
  of_token.reserve(byte_start.size());
  std::size_t word = 0;
  for (std::size_t t = 0; t < byte_start.size(); ++t) {
    while (word + 1 < words.size() && words[word].byte_end <= byte_start[t]) ++word;
    const std::int64_t place = first + static_cast<std::int64_t>(t);
    // Behind a part of a text the white space is that before a word which was not read.
    const bool of_unread = text.unread_bytes > 0 && words[word].end > 0 && word + 1 == words.size() &&
                           words[word].byte_end <= byte_start[t];
    if (words[word].end == 0) words[word].first = place;
    if (!of_unread) words[word].end = place + 1;
    of_token.push_back(static_cast<std::int64_t>(word));
  }
  for (SurprisalWord& one : words) {
    if (one.end == 0) one.first = one.end = words.front().first;
  }
  return of_token;
}

WordNumbers numbers_of(const Surprisals& table, const SurprisalWord& word) {
  WordNumbers numbers;
  const std::size_t gates = table.gate_names.size();
  if (word.first == word.end || word.cut) {
    numbers.surprisal = numbers.entropy = kNotKnown;
    numbers.gate.assign(gates, kNotKnown);
    return numbers;
  }
  numbers.gate.resize(gates);
  for (auto t = static_cast<std::size_t>(word.first); t < static_cast<std::size_t>(word.end); ++t) {
    numbers.surprisal += static_cast<double>(table.surprisal[t]);
    numbers.entropy += static_cast<double>(table.entropy[t]);
    numbers.rank = std::max(numbers.rank, table.rank[t]);
    for (std::size_t g = 0; g < gates; ++g) {
      numbers.gate[g] += static_cast<double>(table.gate[t * gates + g]) / static_cast<double>(word.end - word.first);
    }
  }
  if (!table.boundary.empty()) numbers.whole_word_surprisal = whole_word_surprisal(table, word);
  return numbers;
}

std::string Surprisals::csv_of_tokens() const {
  std::string out = "document,sentence,word,token,id,string,byte_start,byte_end,surprisal,entropy,rank";
  for (const std::string& name : gate_names) out += ',' + name;
  out += '\n';
  for (std::size_t t = 0; t < tokens(); ++t) {
    const SurprisalWord& of = words[index_of(word[t])];
    fmt::format_to(std::back_inserter(out), "{},{},{},{},{},{},{},{},{},{},{}",
                   csv_field(documents[index_of(document[t])]), of.sentence,
                   of.is_word() ? std::to_string(of.index) : "", token[t], id[t], csv_field(string[t]), byte_start[t],
                   byte_end[t], value_text(surprisal[t]), value_text(entropy[t]), rank_text(rank[t]));
    for (std::size_t g = 0; g < gate_names.size(); ++g) out += ',' + value_text(gate[t * gate_names.size() + g]);
    out += '\n';
  }
  return out;
}

std::int64_t Surprisals::word_count() const {
  return std::ranges::count_if(words, [](const SurprisalWord& one) { return one.is_word(); });
}

std::string Surprisals::csv_of_words() const {
  std::string out = "document,sentence,word,string,byte_start,byte_end,tokens,surprisal,entropy,rank";
  for (const std::string& name : gate_names) out += ',' + name;
  if (!boundary.empty()) out += ",whole_word_surprisal";
  out += '\n';
  for (const SurprisalWord& of : words) {
    if (!of.is_word()) continue;
    const WordNumbers numbers = numbers_of(*this, of);
    fmt::format_to(std::back_inserter(out), "{},{},{},{},{},{},{},{},{},{}",
                   csv_field(documents[index_of(of.document)]), of.sentence, of.index, csv_field(of.string),
                   of.byte_start, of.byte_end, of.end - of.first, value_text(numbers.surprisal),
                   value_text(numbers.entropy), rank_text(numbers.rank));
    for (const double one : numbers.gate) out += ',' + value_text(one);
    if (!boundary.empty()) out += ',' + value_text(numbers.whole_word_surprisal);
    out += '\n';
  }
  return out;
}

void write_surprisal_file(const std::filesystem::path& path, const Surprisals& surprisals, const Provenance& provenance,
                          Overwrite overwrite) {
  EvaluationWriter file(path, provenance, overwrite, "eval_surprisal", "tokens");
  file.attribute("/", "model", surprisals.model);
  SurprisalFileWriter(file, surprisals).write();
  file.finish();
}

std::string MinimalPairs::csv() const {
  std::string out = "item,name,good,bad,difference,good_tokens,bad_tokens,right\n";
  for (std::size_t n = 0; n < pairs.size(); ++n) {
    const ScoredPair& score = scores[n];
    fmt::format_to(std::back_inserter(out), "{},{},{},{},{},{},{},{}\n", n, csv_field(pairs[n].name),
                   value_text(score.good), value_text(score.bad), value_text(score.good - score.bad), score.good_tokens,
                   score.bad_tokens, score.right() ? 1 : 0);
  }
  return out;
}

std::vector<MinimalPair> read_minimal_pairs(const std::filesystem::path& file) {
  const std::string content = read_input_bytes(file, "file of pairs", largest_text);
  std::vector<MinimalPair> pairs;
  std::size_t number = 0;
  for (std::size_t begin = 0; begin < content.size();) {
    const std::size_t end = std::min(content.find('\n', begin), content.size());
    const std::string_view line = std::string_view(content).substr(begin, end - begin);
    begin = end + 1;
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    const std::string name = fmt::format("{}, line {}", file.string(), number);
    const nlohmann::json object = parse_plain_members(line, name);
    const auto sentence = [&](const char* key) {
      const nlohmann::json* value = member(object, key);
      if (value == nullptr || !value->is_string()) {
        throw Error(fmt::format("{}: {} must be a string: a line is {{\"sentence_good\": ..., \"sentence_bad\": ...}}",
                                name, key));
      }
      return value->get<std::string>();
    };
    pairs.push_back({text_member(object, "UID", name), sentence("sentence_good"), sentence("sentence_bad")});
  }
  if (pairs.empty()) throw Error(fmt::format("{}: holds no pairs", file.string()));
  return pairs;
}

}  // namespace foxscope
