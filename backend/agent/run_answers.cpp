#include "backend/agent/run_answers.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <exception>
#include <filesystem>
#include <future>
#include <limits>
#include <list>
#include <memory>
#include <mutex>
#include <stop_token>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "backend/agent/fields.h"
#include "backend/agent/file_answers.h"
#include "backend/agent/run_reference.h"
#include "backend/base/error.h"
#include "backend/base/index.h"
#include "backend/file/run_check.h"
#include "backend/file/run_file.h"
#include "backend/map/device/map_device.h"
#include "backend/map/map_shades.h"
#include "backend/map/map_stages.h"
#include "backend/map/statistics/gate_mean.h"
#include "backend/map/statistics/logit_profile.h"
#include "kernels/executor.h"

namespace foxscope::agent {
namespace {

constexpr std::size_t kOpenFiles = 8;
constexpr std::size_t kKnownArrays = 8;
constexpr std::size_t kKnownSpreads = 32;
/// Text and tokens of more bytes come in pieces behind the answer to "open".
constexpr std::size_t kMostAtOnce = std::size_t{16} << 20;
/// A map of fewer pixels is sent as it is, whatever it is for.
constexpr std::int64_t kShadedPixels = 1 << 16;
/// A picture of more bytes is sent in fewer steps of its colours, unless all are asked for: at 20 Mbit/s these take
/// 38 ms, so that with 50 ms there and back a picture comes a tenth of a second after it was computed.
constexpr std::size_t kPictureBytes = 95'000;
/// So many of 240 steps become one at most, and so many pixels in so many rows get one value.
constexpr int kMostJoined = 40;
constexpr int kLargestSquare = 4;
/// A stage of a map is sent when this share of its lines is done, and then whenever as many times more are.
constexpr std::int64_t kShareOfStages = 16;
constexpr std::int64_t kBetweenStages = 4;

struct OpenFile {
  RunReference run;
  RunCheck check = RunCheck::none;
  std::shared_ptr<const RunFile> file;
};

struct KnownArray {
  std::shared_ptr<const Trace> trace;
  TraceArray array = TraceArray::per_token_loss;
  int index = 0;
  std::shared_ptr<const ArrayValues> values;
};

/// The attention of a head, of which its split is made.
struct KnownSpread {
  std::shared_ptr<const Trace> trace;
  int layer = 0;
  int head = 0;
  std::shared_ptr<const AttentionSpread> spread;
};

/// The mean log gates of a run, which are computed in the background.
struct KnownGates {
  std::shared_ptr<const Trace> trace;
  std::shared_future<std::vector<double>> means;
};

/// The check of a whole file, which goes on in the background.
struct KnownCheck {
  std::shared_ptr<const RunFile> file;
  std::shared_future<std::vector<RunCheckReport>> reports;
};

/// Waits for what goes on in the background. @returns false if the job was stopped
template <typename T>
bool wait_for(const std::shared_future<T>& result, const Job& job) {
  constexpr std::chrono::milliseconds kBetweenLooks{2};
  while (result.wait_for(kBetweenLooks) != std::future_status::ready) {
    if (job.stopped()) return false;
  }
  return true;
}

/// The newest first, of which the last go.
template <typename T>
void keep_newest(std::list<T>& known, T newest, std::size_t most) {
  known.push_front(std::move(newest));
  if (known.size() > most) known.pop_back();
}

class RunAnswers {
 public:
  RunAnswers() = default;
  ~RunAnswers() { ending_.request_stop(); }
  RunAnswers(const RunAnswers&) = delete;
  RunAnswers& operator=(const RunAnswers&) = delete;

  void add_to(Agent& agent, const std::shared_ptr<RunAnswers>& self) {
    const auto add = [&](const char* word, std::optional<Message> (RunAnswers::*answer)(const Asked&)) {
      agent.answers(word, [self, answer](const Asked& asked) { return (self.get()->*answer)(asked); });
    };
    add("open", &RunAnswers::open);
    add("check", &RunAnswers::check);
    add("text", &RunAnswers::text);
    add("tokens", &RunAnswers::tokens);
    add("array", &RunAnswers::array);
    add("rows", &RunAnswers::rows);
    add("map", &RunAnswers::map);
    add("line", &RunAnswers::line);
    add("gates", &RunAnswers::gates);
    add("pair", &RunAnswers::pair);
    add("statistics", &RunAnswers::statistics);
    add("split", &RunAnswers::split);
    add("logits", &RunAnswers::logits);
    add("pruning", &RunAnswers::pruning);
  }

 private:
  std::optional<Message> open(const Asked& asked);
  std::optional<Message> check(const Asked& asked);
  std::optional<Message> text(const Asked& asked);
  std::optional<Message> tokens(const Asked& asked);
  std::optional<Message> array(const Asked& asked);
  std::optional<Message> rows(const Asked& asked);
  std::optional<Message> map(const Asked& asked);
  std::optional<Message> line(const Asked& asked);
  std::optional<Message> gates(const Asked& asked);
  std::optional<Message> pair(const Asked& asked);
  std::optional<Message> statistics(const Asked& asked);
  std::optional<Message> split(const Asked& asked);
  std::optional<Message> logits(const Asked& asked);
  std::optional<Message> pruning(const Asked& asked);

  std::shared_ptr<const RunFile> find_file(const RunReference& run, RunCheck check);
  std::shared_ptr<const RunFile> opened(const RunReference& run, RunCheck check, const Job& job);
  std::shared_ptr<const RunFile> file_of(const RunReference& run, const Job& job);
  HeadOf head_of(const Message& request, const char* name, const Job& job);
  std::optional<HeadOf> minus_of(const Asked& asked);
  std::shared_ptr<const ArrayValues> values_of(const std::shared_ptr<const Trace>& trace, TraceArray array, int index);
  std::shared_ptr<const AttentionSpread> spread_of(const HeadOf& head, const Job& job);
  void know_spread(const HeadOf& head, const AttentionSpread& spread);
  std::shared_future<std::vector<RunCheckReport>> check_of(const std::string& path,
                                                           const std::shared_ptr<const RunFile>& file);
  std::shared_future<std::vector<double>> gates_of(const std::shared_ptr<const Trace>& trace);
  std::optional<std::vector<double>> known_gates(const std::shared_ptr<const Trace>& trace);

  std::mutex mutex_;
  std::list<OpenFile> files_;
  std::list<KnownArray> arrays_;
  std::list<KnownSpread> spreads_;
  std::list<KnownCheck> checks_;  ///< ends what goes on when it goes
  std::list<KnownGates> gates_;   ///< likewise
  std::stop_source ending_;       ///< of work in the background
};

template <typename T>
Message answer_with(const T& value) {
  Message answer;
  put(answer, "answer", value);
  return answer;
}

template <typename T>
std::optional<Message> answer_with(const std::optional<T>& value) {
  if (!value) return std::nullopt;
  return answer_with(*value);
}

RunCheck check_from_word(const std::string& word) {
  if (word == "none") return RunCheck::none;
  if (word == "glance") return RunCheck::glance;
  if (word == "whole") return RunCheck::whole;
  throw Error(fmt::format("a run file is checked \"none\", \"glance\" or \"whole\", not \"{}\"", word));
}

std::vector<KeptArray> kept_arrays(const Trace& trace) {
  std::vector<KeptArray> kept;
  for (const ArraySpec& spec : kTraceArrays) {
    if (spec.storage == Storage::store) continue;
    for (int index = 0; index < count_of(spec, trace.info().layers); ++index) {
      if (!trace.has(spec.array, index)) continue;
      const bool sums = spec.array == TraceArray::cumulative_log_gate || spec.array == TraceArray::cumulative_log_decay;
      kept.push_back({spec.array, index, sums && trace.source().is_zero(spec.array, index)});
    }
  }
  return kept;
}

/// Bytes of a table, about.
std::size_t bytes_of(const TokenTable& tokens) {
  std::size_t bytes = tokens.id.size() * (2 * sizeof(std::int32_t) + sizeof(std::int64_t));
  for (const std::string& string : tokens.string) bytes += string.size();
  return bytes;
}

/// @param losses  whether they come with it
OpenedRun describe_run(const RunReference& run, const RunFile& file, bool losses) {
  OpenedRun opened;
  opened.run = run;
  opened.bytes = static_cast<std::int64_t>(std::filesystem::file_size(local_path(run.path)));
  opened.program_version = file.program_version;
  opened.command_line = file.command_line;
  opened.created = file.created;
  const Text* const text = file.traces.front()->text().get();
  std::size_t bytes = text == nullptr ? 0 : text->content.size();
  std::vector<const TokenTable*> tables;
  for (std::size_t n = 0; n < file.traces.size(); ++n) {
    const Trace& trace = *file.traces[n];
    OpenedTrace described;
    described.info = trace.info();
    described.check = file.checks[n];
    described.kept = kept_arrays(trace);
    for (const ArraySpec& spec : kTraceArrays) {
      if (spec.storage == Storage::store && trace.store_of(spec.array) != nullptr) {
        described.stored.push_back(spec.array);
      }
    }
    const std::span<const float> loss = trace.per_token_loss();
    bytes += loss.size_bytes();
    if (losses && bytes <= kMostAtOnce) described.loss.emplace(loss.begin(), loss.end());
    const TokenTable& tokens = *trace.tokens();
    const auto known = std::ranges::find_if(tables, [&](const TokenTable* table) { return *table == tokens; });
    described.tokens = static_cast<int>(known - tables.begin());
    if (known == tables.end()) {
      tables.push_back(&tokens);
      bytes += bytes_of(tokens);
    }
    opened.traces.push_back(std::move(described));
  }
  const bool at_once = bytes <= kMostAtOnce;
  if (text != nullptr) {
    opened.texts.push_back({at_once ? text->content : "", text->sha256, text->unread_bytes, text->cut_word});
    if (!at_once) opened.text_bytes = std::ssize(text->content);
  }
  for (const TokenTable* table : tables) {
    const Range all{0, std::ssize(table->id)};
    opened.tokens.push_back(at_once ? packed_tokens(*table, text, all) : OpenedTokens());
  }
  return opened;
}

std::shared_ptr<const RunFile> RunAnswers::find_file(const RunReference& run, RunCheck check) {
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find_if(files_, [&](const OpenFile& open) {
    return open.run.path == run.path && open.run.identity == run.identity && open.run.unchecked == run.unchecked &&
           open.run.rows == run.rows && open.check >= check;
  });
  if (found == files_.end()) return nullptr;
  files_.splice(files_.begin(), files_, found);
  return files_.front().file;
}

std::shared_ptr<const RunFile> RunAnswers::opened(const RunReference& run, RunCheck check, const Job& job) {
  if (auto known = find_file(run, check)) return known;
  const std::string path = local_path(run.path);
  auto file = run.rows ? RunFile::open(path, job, check) : RunFile::open(path, check);
  if (!file) return nullptr;
  auto shared = std::make_shared<const RunFile>(std::move(*file));
  const std::lock_guard lock(mutex_);
  keep_newest(files_, {run, check, shared}, kOpenFiles);
  return shared;
}

std::optional<Message> RunAnswers::open(const Asked& asked) {
  RunReference run;
  run.path = take<std::string>(asked.request, "path");
  if (take<bool>(asked.request, "or_describe", false)) {
    FileFacts facts = file_facts_of(local_path(run.path));
    if (facts.holds != "runs") return answer_with(facts);
  }
  const RunCheck check = check_from_word(take<std::string>(asked.request, "check"));
  run.unchecked = check == RunCheck::none;
  run.rows = take<bool>(asked.request, "rows", false);
  run.identity = file_identity(local_path(run.path));
  const auto file = opened(run, check, asked.job);
  if (!file) return std::nullopt;
  // Who uses a run after a glance waits for the rest before anything is kept.
  if (take<bool>(asked.request, "check_begins", false)) check_of(local_path(run.path), file);
  const bool shown = take<bool>(asked.request, "losses", false);
  // Who shows a run wants these next, to find the head that it shows first.
  for (std::size_t n = 0; shown && n < file->traces.size(); ++n) gates_of(file->traces[n]);
  OpenedRun described = describe_run(run, *file, shown);
  for (std::size_t n = 0; shown && n < file->traces.size(); ++n) {
    described.traces[n].mean_log_gates = known_gates(file->traces[n]);
  }
  return answer_with(described);
}

/// Holds the arrays of a file against one another, all of them, beside what is asked of it.
std::shared_future<std::vector<RunCheckReport>> RunAnswers::check_of(const std::string& path,
                                                                     const std::shared_ptr<const RunFile>& file) {
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find(checks_, file, &KnownCheck::file);
  if (found != checks_.end()) return found->reports;
  auto reports = std::async(std::launch::async, [path, file, stop = ending_.get_token()] {
                   std::vector<RunCheckReport> found_right;
                   for (const auto& trace : file->traces) {
                     found_right.push_back(check_run(*trace, path, kWholeCheck, stop));
                   }
                   return found_right;
                 }).share();
  keep_newest(checks_, {file, reports}, kOpenFiles);
  return reports;
}

std::optional<Message> RunAnswers::check(const Asked& asked) {
  const auto run = take<RunReference>(asked.request, "run");
  const auto reports = check_of(local_path(run.path), file_of(run, asked.job));
  if (!wait_for(reports, asked.job)) return std::nullopt;
  return answer_with(reports.get());
}

std::optional<Message> RunAnswers::text(const Asked& asked) {
  const auto run = take<RunReference>(asked.request, "run");
  const auto range = take<Range>(asked.request, "bytes");
  const auto file = file_of(run, asked.job);
  const auto& text = file->traces.front()->text();
  const std::int64_t size = text ? std::ssize(text->content) : 0;
  if (range.begin < 0 || range.begin > range.end || range.end > size) {
    throw Error(
        fmt::format("{}: has a text of {} bytes, and none from {} to {}", run.path, size, range.begin, range.end));
  }
  const auto bytes = std::as_bytes(std::span(text->content)).subspan(index_of(range.begin), index_of(range.size()));
  Message answer;
  answer.header["answer"] = {{"part", 0}};
  answer.parts.push_back({"uint8", {bytes.size()}, {bytes.begin(), bytes.end()}});
  return answer;
}

std::optional<Message> RunAnswers::tokens(const Asked& asked) {
  const HeadOf of = head_of(asked.request, "of", asked.job);
  const auto range = take<Range>(asked.request, "positions");
  if (range.begin < 0 || range.begin >= range.end || range.end > of.trace->info().length) {
    throw Error(fmt::format("model '{}' has {} tokens, and none from {} to {}", of.trace->info().name,
                            of.trace->info().length, range.begin, range.end));
  }
  return answer_with(packed_tokens(*of.trace->tokens(), of.trace->text().get(), range));
}

/// @throws RunChanged
void require_unchanged(const RunReference& run) {
  std::string identity;
  try {
    identity = file_identity(local_path(run.path));
  } catch (const Error& error) {
    throw RunChanged(error.what());
  }
  if (identity == run.identity) return;
  throw RunChanged(fmt::format("{}: has changed since it was opened: open it again", run.path));
}

/// The file of a later request, as it was opened; it may have been put aside since.
std::shared_ptr<const RunFile> RunAnswers::file_of(const RunReference& run, const Job& job) {
  require_unchanged(run);
  const auto file = opened(run, run.unchecked ? RunCheck::none : RunCheck::glance, job);
  if (!file) throw Error(fmt::format("{}: opening it was stopped", run.path));
  return file;
}

/// The run of a later request.
HeadOf RunAnswers::head_of(const Message& request, const char* name, const Job& job) {
  const auto reference = take<HeadReference>(request, name);
  const auto file = file_of(reference.run, job);
  HeadOf head{{file->trace(reference.model), gpu_chosen(DeviceChoice::parse(reference.device))},
              reference.layer,
              reference.head};
  return head;
}

std::optional<HeadOf> RunAnswers::minus_of(const Asked& asked) {
  if (!asked.request.header.contains("minus")) return std::nullopt;
  return head_of(asked.request, "minus", asked.job);
}

std::shared_ptr<const ArrayValues> RunAnswers::values_of(const std::shared_ptr<const Trace>& trace, TraceArray array,
                                                         int index) {
  const auto is_wanted = [&](const KnownArray& known) {
    return known.trace == trace && known.array == array && known.index == index;
  };
  {
    const std::lock_guard lock(mutex_);
    const auto found = std::ranges::find_if(arrays_, is_wanted);
    if (found != arrays_.end()) return found->values;
  }
  if (spec_of(array).storage == Storage::store || index < 0 ||
      index >= count_of(spec_of(array), trace->info().layers) || !trace->has(array, index)) {
    throw Error(fmt::format("model '{}' has no array {} {}", trace->info().name, spec_of(array).path, index));
  }
  auto values = trace->source().read(array, index);
  const std::lock_guard lock(mutex_);
  keep_newest(arrays_, {trace, array, index, values}, kKnownArrays);
  return values;
}

std::optional<Message> RunAnswers::array(const Asked& asked) {
  const HeadOf of = head_of(asked.request, "of", asked.job);
  const auto values = values_of(of.trace, take<TraceArray>(asked.request, "array"), take<int>(asked.request, "index"));
  const auto begin = take<std::int64_t>(asked.request, "begin");
  const auto count = take<std::int64_t>(asked.request, "count");
  return std::visit(
      [&](const auto& numbers) -> std::optional<Message> {
        if (begin < 0 || count < 0 || begin > std::ssize(numbers) || count > std::ssize(numbers) - begin) {
          throw Error(fmt::format("an array of {} numbers has no {} from {} on", numbers.size(), count, begin));
        }
        using Number = typename std::decay_t<decltype(numbers)>::value_type;
        Message answer;
        answer.header["answer"] = {{"part", 0}};
        answer.parts.push_back(Part::of(std::span<const Number>(numbers).subspan(index_of(begin), index_of(count))));
        return answer;
      },
      *values);
}

std::optional<Message> RunAnswers::rows(const Asked& asked) {
  const HeadOf of = head_of(asked.request, "of", asked.job);
  const auto array = take<TraceArray>(asked.request, "array");
  const Range rows = take<Range>(asked.request, "rows");
  of.trace->check_layer(of.layer);
  const QueryKeyStore* const store = of.trace->store_of(array);
  if (store == nullptr || of.head < 0 || of.head >= store->heads(array, of.layer) || rows.begin < 0 ||
      rows.end > of.trace->info().length || rows.begin > rows.end) {
    throw Error(fmt::format("model '{}' has no rows {} to {} of {} in layer {}, head {}", of.trace->info().name,
                            rows.begin, rows.end, spec_of(array).path, of.layer, of.head));
  }
  const std::uint64_t channels = index_of(store->channels(array, of.layer));
  if (index_of(rows.size()) * channels * size_of(store->dtype()) > kMostParts) {
    throw Error(fmt::format("rows {} to {} are more than fit into one answer", rows.begin, rows.end));
  }
  std::vector<std::byte> scratch;
  const std::span<const std::byte> bytes = store->raw_rows(array, of.layer, of.head, rows.begin, rows.end, scratch);
  Message answer;
  answer.header["answer"] = {{"part", 0}};
  answer.parts.push_back({to_string(store->dtype()), {index_of(rows.size()), channels}, {bytes.begin(), bytes.end()}});
  return answer;
}

/// Lines of a map that are done, of which the others follow.
Message stage_message(const MapStage& stage, const std::vector<std::int32_t>& lines, const MapRequest& request) {
  Image part{std::ssize(lines), stage.image.columns, {}};
  for (const std::int32_t line : lines) {
    const auto* const from = stage.image.value.data() + line * stage.image.columns;
    part.value.insert(part.value.end(), from, from + stage.image.columns);
  }
  Message message;
  put(message, "lines", lines);
  put(message, "stage", Shading(part, request).image());
  return message;
}

/// A picture in an answer, and the bytes that it takes.
struct SizedAnswer {
  Message message;
  std::size_t bytes = 0;

  explicit SizedAnswer(const ShadedImage& image) : message(answer_with(image)), bytes(encoded(message).size()) {}
};

/// The finest picture that is small enough.
Message shaded_answer(const Image& image, const MapRequest& request, bool all_steps) {
  const Shading shading(image, request);
  const ShadedImage whole = shading.image();
  SizedAnswer answer(whole);
  SizedAnswer other(with_differences(whole));
  const bool differences = other.bytes < answer.bytes;
  if (differences) answer = std::move(other);
  if (all_steps) return std::move(answer.message);
  // A code for the levels of noise takes its full length; values that repeat themselves take less in each.
  const double each = static_cast<double>(answer.bytes) / std::max(shading.bits(1), 1e-9);
  for (int side = 1; answer.bytes > kPictureBytes && side <= kLargestSquare; ++side) {
    const double of_squares = each / (side * side);
    for (int joined = side == 1 ? 2 : 1; answer.bytes > kPictureBytes && joined <= kMostJoined;
         joined += 1 + joined / 8) {
      if (of_squares * shading.bits(joined) > kPictureBytes) continue;
      ShadedImage fewer = shading.image(joined, side);
      answer = SizedAnswer(differences && side == 1 ? with_differences(std::move(fewer)) : packed(std::move(fewer)));
    }
  }
  return std::move(answer.message);
}

std::optional<Image> map_in_stages(const MapRequest& request, const Asked& asked) {
  if (!take<bool>(asked.request, "stages", false)) return compute_map(request, asked.job);
  std::vector<std::uint8_t> sent;
  std::int64_t due = std::max<std::int64_t>(1, request.pixel_rows / kShareOfStages);
  const auto show = [&](const MapStage& stage) {
    const auto done = std::count(stage.done.begin(), stage.done.end(), 1);
    if (done < due) return;
    due = done * kBetweenStages;
    sent.resize(stage.done.size());
    std::vector<std::int32_t> lines;
    for (std::size_t line = 0; line < stage.done.size(); ++line) {
      if (stage.done[line] == 0 || sent[line] != 0) continue;
      sent[line] = 1;
      lines.push_back(static_cast<std::int32_t>(line));
    }
    asked.put_out(stage_message(stage, lines, request));
  };
  return compute_map_in_stages(request, asked.job, {show});
}

std::optional<Message> RunAnswers::map(const Asked& asked) {
  auto request = take<MapRequest>(asked.request, "map");
  request.head = head_of(asked.request, "head", asked.job);
  request.minus = minus_of(asked);
  if (request.pixel_rows > 0 && request.pixel_columns > 0 &&
      request.pixel_rows > static_cast<std::int64_t>(kMostParts / sizeof(float)) / request.pixel_columns) {
    throw UsageError(fmt::format("a map of {}x{} pixels is more than fits into one answer: ask for fewer rows",
                                 request.pixel_rows, request.pixel_columns));
  }
  if (!request.shades || request.pixel_rows * request.pixel_columns <= kShadedPixels) {
    return answer_with(compute_map(request, asked.job));
  }
  const auto image = map_in_stages(request, asked);
  if (!image) return std::nullopt;
  return shaded_answer(*image, request, take<bool>(asked.request, "all_steps", false));
}

std::optional<Message> RunAnswers::line(const Asked& asked) {
  auto request = take<LineRequest>(asked.request, "line");
  request.head = head_of(asked.request, "head", asked.job);
  request.minus = minus_of(asked);
  return answer_with(line_entries(request, asked.job));
}

/// The mean log gate of every head, [layers, H]; NaN where gates were not kept.
std::vector<double> mean_log_gates(const Trace& trace, const std::stop_token& stop) {
  const TraceInfo& info = trace.info();
  std::vector<double> means(index_of(info.layers) * index_of(info.heads), std::numeric_limits<double>::quiet_NaN());
  std::mutex failed_mutex;
  std::exception_ptr failed;
  const auto take_mean = [&](std::int64_t place, int /*thread*/) {
    const auto layer = static_cast<int>(place / info.heads);
    const auto head = static_cast<int>(place % info.heads);
    const bool kept =
        trace.has(TraceArray::cumulative_log_gate, layer) || trace.has(TraceArray::cumulative_log_decay, layer);
    if (!kept || head >= info.mixer(layer).heads || stop.stop_requested()) return;
    try {
      means[index_of(place)] = mean_log_gate(trace, layer, head);
    } catch (...) {
      const std::lock_guard lock(failed_mutex);
      failed = std::current_exception();
    }
  };
  // All cores unpack chunks of the file.
  kernels::ThreadPool().run(std::ssize(means), take_mean);
  if (failed) std::rethrow_exception(failed);
  return means;
}

std::shared_future<std::vector<double>> RunAnswers::gates_of(const std::shared_ptr<const Trace>& trace) {
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find(gates_, trace, &KnownGates::trace);
  if (found != gates_.end()) return found->means;
  auto means = std::async(std::launch::async, [trace, stop = ending_.get_token()] {
                 return mean_log_gates(*trace, stop);
               }).share();
  keep_newest(gates_, {trace, means}, kOpenFiles);
  return means;
}

/// The same if they are known by now; who asks for those that cannot be read is told why.
std::optional<std::vector<double>> RunAnswers::known_gates(const std::shared_ptr<const Trace>& trace) {
  const auto means = gates_of(trace);
  if (means.wait_for(std::chrono::seconds(0)) != std::future_status::ready) return std::nullopt;
  try {
    return means.get();
  } catch (const Error&) {
    return std::nullopt;
  }
}

std::optional<Message> RunAnswers::gates(const Asked& asked) {
  const auto means = gates_of(head_of(asked.request, "of", asked.job).trace);
  if (!wait_for(means, asked.job)) return std::nullopt;
  return answer_with(means.get());
}

std::optional<Message> RunAnswers::pair(const Asked& asked) {
  const HeadOf head = head_of(asked.request, "head", asked.job);
  return answer_with(
      pair_reading(head, take<std::int64_t>(asked.request, "query"), take<std::int64_t>(asked.request, "key")));
}

std::optional<Message> RunAnswers::statistics(const Asked& asked) {
  const HeadOf head = head_of(asked.request, "head", asked.job);
  auto statistics = head_statistics(head, take<StatisticsOptions>(asked.request, "options"), asked.job);
  if (!statistics) return std::nullopt;
  Message answer = answer_with(*statistics);
  if (statistics->has_attention) {
    if (!statistics->errors) know_spread(head, *statistics);  // of all rows
    put(answer, "distances", distance_summary(*statistics));
  }
  return answer;
}

void RunAnswers::know_spread(const HeadOf& head, const AttentionSpread& spread) {
  auto known = std::make_shared<const AttentionSpread>(spread);
  const std::lock_guard lock(mutex_);
  keep_newest(spreads_, {head.trace, head.layer, head.head, std::move(known)}, kKnownSpreads);
}

/// The attention of a head, which was asked for before as a rule. @returns null if the job was stopped
std::shared_ptr<const AttentionSpread> RunAnswers::spread_of(const HeadOf& head, const Job& job) {
  {
    const std::lock_guard lock(mutex_);
    const auto found = std::ranges::find_if(spreads_, [&](const KnownSpread& known) {
      return known.trace == head.trace && known.layer == head.layer && known.head == head.head;
    });
    if (found != spreads_.end()) return found->spread;
  }
  const auto statistics = head_statistics(head, {true, 0}, job);
  return statistics ? std::make_shared<const AttentionSpread>(*statistics) : nullptr;
}

std::optional<Message> RunAnswers::split(const Asked& asked) {
  const HeadOf head = head_of(asked.request, "head", asked.job);
  const auto spread = spread_of(head, asked.job);
  const auto split = spread ? decay_split(head, *spread, asked.job) : std::nullopt;
  if (!split) return std::nullopt;
  Message answer = answer_with(*split);
  put(answer, "distances_without_gate", distance_summary(split->without_gate));
  put(answer, "distances_without_content", distance_summary(split->without_content));
  return answer;
}

std::optional<Message> RunAnswers::logits(const Asked& asked) {
  return answer_with(logit_profile(head_of(asked.request, "head", asked.job), asked.job));
}

std::optional<Message> RunAnswers::pruning(const Asked& asked) {
  return answer_with(
      pruning_bound(head_of(asked.request, "head", asked.job), take<double>(asked.request, "tolerance"), asked.job));
}

}  // namespace

void add_run_answers(Agent& agent) {
  const auto answers = std::make_shared<RunAnswers>();
  answers->add_to(agent, answers);
}

}  // namespace foxscope::agent
