#include "backend/data/windows.h"

#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>

#include "backend/base/error.h"
#include "backend/base/index.h"
#include "backend/base/log.h"
#include "backend/base/sha256.h"
#include "backend/data/corpus.h"

namespace foxscope {
namespace {

constexpr const char* kCountStage = "counting tokens";
constexpr const char* kCutStage = "cutting windows";

void check_options(const WindowOptions& options) {
  if (options.length < 1) throw UsageError(fmt::format("--length {}: use a number of tokens from 1", options.length));
  if (options.windows && *options.windows < 1) {
    throw UsageError(fmt::format("--windows {}: use a number of windows from 1", *options.windows));
  }
}

/// Tokens of every document, into `windows` the numbers of the corpus.
/// @returns nothing if the job was stopped; 0 of a document that repeats the text of one before it
std::optional<std::vector<std::int64_t>> count_tokens(const std::filesystem::path& corpus, const Tokenizer& tokenizer,
                                                      std::int64_t length, Windows& windows, const Job& job) {
  CorpusReader reader(corpus);
  std::vector<std::int64_t> counts;
  std::set<std::string> known;  // SHA-256 of texts that have room for a window
  while (const auto document = reader.next()) {
    if (job.stopped()) return std::nullopt;
    std::int64_t& count = counts.emplace_back(std::ssize(tokenizer.encode(document->text).id));
    windows.corpus_tokens += count;
    if (count >= length && !known.insert(sha256(document->text)).second) {
      ++windows.repeated;
      count = 0;
    }
    windows.room += count / length;
    job.tell({reader.bytes_done(), reader.total_bytes(), "bytes", kCountStage});
  }
  windows.corpus_documents = std::ssize(counts);
  return counts;
}

std::int64_t number_of_windows(const std::filesystem::path& corpus, const WindowOptions& options,
                               const std::vector<std::int64_t>& counts, std::int64_t room) {
  if (room == 0) {
    const std::int64_t longest = counts.empty() ? 0 : std::ranges::max(counts);
    if (longest == 0) throw Error(fmt::format("{}: holds no text: name another corpus", corpus.string()));
    if (longest == 1) {
      throw Error(fmt::format("{}: no document has more than one token: give a longer text", corpus.string()));
    }
    throw Error(fmt::format("{}: no document is {} tokens long, the longest has {}: use a smaller --length",
                            corpus.string(), options.length, longest));
  }
  const std::int64_t number = options.windows.value_or(std::min(kDefaultWindows, room));
  if (number > room) {
    throw Error(
        fmt::format("{}: has room for {} windows of {} tokens that do not overlap, not for {}: use --windows {} or a "
                    "smaller --length",
                    corpus.string(), room, options.length, number, room));
  }
  return number;
}

/// Windows by document, step 2 of the rule. Place k belongs to the document in which the running sum of places passes
/// k.
std::map<std::size_t, std::int64_t> draw_documents(const std::vector<std::int64_t>& counts, std::int64_t length,
                                                   std::int64_t room, std::int64_t number, WindowRandom& random) {
  std::set<std::int64_t> taken;
  for (std::int64_t j = room - number; j < room; ++j) {
    const auto t = static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(j) + 1));
    if (!taken.insert(t).second) taken.insert(j);
  }
  std::map<std::size_t, std::int64_t> windows;
  std::size_t document = 0;
  std::int64_t places = counts.front() / length;  // of the documents up to this one
  for (const std::int64_t place : taken) {
    while (place >= places) places += counts[++document] / length;
    ++windows[document];
  }
  return windows;
}

/// Step 3 of the rule.
std::vector<std::int64_t> draw_starts(std::int64_t tokens, std::int64_t length, std::int64_t number,
                                      WindowRandom& random) {
  std::vector<std::int64_t> starts;
  const auto free = static_cast<std::uint64_t>(tokens - number * length);
  for (std::int64_t n = 0; n < number; ++n) starts.push_back(static_cast<std::int64_t>(random.below(free + 1)));
  std::sort(starts.begin(), starts.end());
  for (std::int64_t n = 0; n < number; ++n) starts[index_of(n)] += n * length;
  return starts;
}

bool is_continuation(char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U; }

/// The window's text, with the whole of the characters that it begins and ends in.
void take_text(const std::string& text, Window& window) {
  auto begin = static_cast<std::size_t>(window.byte_start);
  auto end = static_cast<std::size_t>(window.byte_end);
  while (begin > 0 && begin < end && is_continuation(text[begin])) --begin;
  while (end > begin && end < text.size() && is_continuation(text[end])) ++end;
  window.text = text.substr(begin, end - begin);
  window.text_start = static_cast<std::int64_t>(begin);
}

/// Where tokens [first, last] lie, from `origin` on.
std::vector<std::int32_t> positions(const std::vector<std::int64_t>& bytes, std::size_t first, std::size_t last,
                                    std::int64_t origin) {
  std::vector<std::int32_t> result;
  result.reserve(last - first + 1);
  for (std::size_t n = first; n <= last; ++n) result.push_back(static_cast<std::int32_t>(bytes[n] - origin));
  return result;
}

Window cut_window(const CorpusDocument& document, const Tokens& tokens, std::int64_t start, std::int64_t length) {
  Window window;
  const auto first = static_cast<std::size_t>(start);
  const std::size_t last = first + static_cast<std::size_t>(length) - 1;
  window.token_start = start;
  window.byte_start = tokens.byte_start[first];
  window.byte_end = tokens.byte_end[last];
  window.ids.assign(tokens.id.begin() + start, tokens.id.begin() + start + length);
  take_text(document.text, window);
  window.id_start = positions(tokens.byte_start, first, last, window.text_start);
  window.id_end = positions(tokens.byte_end, first, last, window.text_start);
  return window;
}

}  // namespace

std::string_view Window::whole_characters() const {
  auto begin = static_cast<std::size_t>(byte_start - text_start);
  auto end = static_cast<std::size_t>(byte_end - text_start);
  while (begin < end && is_continuation(text[begin])) ++begin;
  while (end > begin && end < text.size() && is_continuation(text[end])) --end;
  return std::string_view(text).substr(begin, end - begin);
}

std::uint64_t WindowRandom::below(std::uint64_t bound) {
  const std::uint64_t surplus = (std::uint64_t{0} - bound) % bound;  // 2^64 mod bound
  while (true) {
    const std::uint64_t draw = generator_();
    if (draw <= ~std::uint64_t{0} - surplus) return draw % bound;
  }
}

std::optional<Windows> choose_windows(const std::filesystem::path& corpus, const Tokenizer& tokenizer,
                                      const WindowOptions& options, const Job& job) {
  check_options(options);
  Windows result;
  const auto counts = count_tokens(corpus, tokenizer, options.length, result, job);
  if (!counts) return std::nullopt;
  const std::int64_t number = number_of_windows(corpus, options, *counts, result.room);
  log_line(LogCategory::eval, [&] {
    const auto shorter = std::count_if(counts->begin(), counts->end(), [&](auto n) { return n < options.length; });
    return fmt::format(
        "{}: {} documents of {} tokens, {} of them shorter than a window or repeated and skipped; {} windows of {} "
        "drawn from room for {}",
        corpus.string(), counts->size(), result.corpus_tokens, shorter, number, options.length, result.room);
  });
  WindowRandom random(options.seed);
  const auto drawn = draw_documents(*counts, options.length, result.room, number, random);

  CorpusReader reader(corpus);
  for (std::size_t index = 0; result.windows.size() < static_cast<std::size_t>(number); ++index) {
    const auto document = reader.next();
    if (job.stopped()) return std::nullopt;
    if (!document) break;
    const auto found = drawn.find(index);
    if (found == drawn.end()) continue;
    const Tokens tokens = tokenizer.encode(document->text);
    if (static_cast<std::int64_t>(tokens.size()) != (*counts)[index]) break;
    for (const std::int64_t start : draw_starts((*counts)[index], options.length, found->second, random)) {
      result.windows.push_back(cut_window(*document, tokens, start, options.length));
      result.windows.back().document = static_cast<std::int32_t>(result.documents.size());
    }
    result.documents.push_back({document->name, sha256(document->text)});
    job.tell({static_cast<std::int64_t>(result.windows.size()), number, "windows", kCutStage});
  }
  if (result.windows.size() < static_cast<std::size_t>(number)) {
    throw Error(fmt::format("{}: the corpus changed while it was read: run again", corpus.string()));
  }
  return result;
}

Windows cut_windows(const Windows& windows, const Tokenizer& chosen_with, const Tokenizer& other) {
  Windows result = windows;
  bool equal = true;
  for (Window& window : result.windows) {
    std::string text(window.whole_characters());
    const Tokens tokens = other.encode(text);
    equal = equal && tokens.id == chosen_with.encode(text).id;
    window.token_start = -1;
    window.text_start += window.whole_characters().data() - window.text.data();
    window.text = std::move(text);
    window.byte_start = window.text_start;
    window.byte_end = window.text_start + static_cast<std::int64_t>(window.text.size());
    window.ids = tokens.id;
    window.id_start.assign(tokens.byte_start.begin(), tokens.byte_start.end());
    window.id_end.assign(tokens.byte_end.begin(), tokens.byte_end.end());
  }
  if (equal) return windows;
  for (std::size_t n = 0; n < result.windows.size(); ++n) {
    if (!result.windows[n].ids.empty()) continue;
    const Window& window = windows.windows[n];
    throw Error(
        fmt::format("{}: bytes {} to {} are a window without a whole character, in which the tokenizer of "
                    "another model has no token: use a larger --length, or another --seed",
                    windows.documents[index_of(window.document)].name, window.byte_start, window.byte_end - 1));
  }
  return result;
}

std::vector<TokenClassSet> window_classes(const Window& window, const WordCounts& counts) {
  const std::vector<std::int64_t> start(window.id_start.begin(), window.id_start.end());
  const std::vector<std::int64_t> end(window.id_end.begin(), window.id_end.end());
  return token_classes(window.text, {start, end}, counts);
}

std::vector<std::int32_t> input_ids(const std::vector<std::int32_t>& labels, std::int32_t bos) {
  if (labels.empty()) return {};
  std::vector<std::int32_t> ids{bos};
  ids.insert(ids.end(), labels.begin(), labels.end() - 1);
  return ids;
}

}  // namespace foxscope
