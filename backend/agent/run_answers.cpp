#include "backend/agent/run_answers.h"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <list>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "backend/agent/fields.h"
#include "backend/agent/file_answers.h"
#include "backend/agent/run_reference.h"
#include "backend/base/error.h"
#include "backend/base/index.h"
#include "backend/file/run_file.h"
#include "backend/map/device/map_device.h"
#include "backend/map/statistics/gate_mean.h"
#include "backend/map/statistics/logit_profile.h"

namespace foxscope::agent {
namespace {

constexpr std::size_t kOpenFiles = 8;
constexpr std::size_t kKnownArrays = 8;

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

/// The newest first, of which the last go.
template <typename T>
void keep_newest(std::list<T>& known, T newest, std::size_t most) {
  known.push_front(std::move(newest));
  if (known.size() > most) known.pop_back();
}

class RunAnswers {
 public:
  void add_to(Agent& agent, const std::shared_ptr<RunAnswers>& self) {
    const auto add = [&](const char* word, std::optional<Message> (RunAnswers::*answer)(const Asked&)) {
      agent.answers(word, [self, answer](const Asked& asked) { return (self.get()->*answer)(asked); });
    };
    add("open", &RunAnswers::open);
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
  HeadOf head_of(const Message& request, const char* name, const Job& job);
  std::optional<HeadOf> minus_of(const Asked& asked);
  std::shared_ptr<const ArrayValues> values_of(const std::shared_ptr<const Trace>& trace, TraceArray array, int index);

  std::mutex mutex_;
  std::list<OpenFile> files_;
  std::list<KnownArray> arrays_;
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

OpenedRun describe_run(const RunReference& run, const RunFile& file) {
  OpenedRun opened;
  opened.run = run;
  opened.bytes = static_cast<std::int64_t>(std::filesystem::file_size(local_path(run.path)));
  opened.program_version = file.program_version;
  opened.command_line = file.command_line;
  opened.created = file.created;
  if (const auto& text = file.traces.front()->text()) opened.texts.push_back(*text);
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
    described.loss.assign(loss.begin(), loss.end());
    const TokenTable& tokens = *trace.tokens();
    const auto known = std::ranges::find_if(tables, [&](const TokenTable* table) { return *table == tokens; });
    described.tokens = static_cast<int>(known - tables.begin());
    if (known == tables.end()) tables.push_back(&tokens);
    opened.traces.push_back(std::move(described));
  }
  const Text* const text = file.traces.front()->text().get();
  for (const TokenTable* table : tables) opened.tokens.push_back(packed_tokens(*table, text));
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
  const RunCheck check = check_from_word(take<std::string>(asked.request, "check"));
  run.unchecked = check == RunCheck::none;
  run.rows = take<bool>(asked.request, "rows", false);
  run.identity = file_identity(local_path(run.path));
  const auto file = opened(run, check, asked.job);
  if (!file) return std::nullopt;
  return answer_with(describe_run(run, *file));
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

/// The run of a later request: of the file that was opened, which may have been put aside since.
HeadOf RunAnswers::head_of(const Message& request, const char* name, const Job& job) {
  const auto reference = take<HeadReference>(request, name);
  require_unchanged(reference.run);
  const auto file = opened(reference.run, reference.run.unchecked ? RunCheck::none : RunCheck::glance, job);
  if (!file) throw Error(fmt::format("{}: opening it was stopped", reference.run.path));
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

std::optional<Message> RunAnswers::map(const Asked& asked) {
  auto request = take<MapRequest>(asked.request, "map");
  request.head = head_of(asked.request, "head", asked.job);
  request.minus = minus_of(asked);
  if (request.pixel_rows > 0 && request.pixel_columns > 0 &&
      request.pixel_rows > static_cast<std::int64_t>(kMostParts / sizeof(float)) / request.pixel_columns) {
    throw UsageError(fmt::format("a map of {}x{} pixels is more than fits into one answer: ask for fewer rows",
                                 request.pixel_rows, request.pixel_columns));
  }
  return answer_with(compute_map(request, asked.job));
}

std::optional<Message> RunAnswers::line(const Asked& asked) {
  auto request = take<LineRequest>(asked.request, "line");
  request.head = head_of(asked.request, "head", asked.job);
  request.minus = minus_of(asked);
  return answer_with(line_entries(request, asked.job));
}

std::optional<Message> RunAnswers::gates(const Asked& asked) {
  const HeadOf of = head_of(asked.request, "of", asked.job);
  const TraceInfo& info = of.trace->info();
  std::vector<double> means(index_of(info.layers) * index_of(info.heads), std::numeric_limits<double>::quiet_NaN());
  for (int layer = 0; layer < info.layers; ++layer) {
    if (asked.job.stopped()) return std::nullopt;
    if (!of.trace->has(TraceArray::cumulative_log_gate, layer) &&
        !of.trace->has(TraceArray::cumulative_log_decay, layer)) {
      continue;
    }
    for (int head = 0; head < info.mixer(layer).heads; ++head) {
      means[index_of(layer * info.heads + head)] = mean_log_gate(*of.trace, layer, head);
    }
  }
  return answer_with(means);
}

std::optional<Message> RunAnswers::pair(const Asked& asked) {
  const HeadOf head = head_of(asked.request, "head", asked.job);
  return answer_with(
      pair_reading(head, take<std::int64_t>(asked.request, "query"), take<std::int64_t>(asked.request, "key")));
}

std::optional<Message> RunAnswers::statistics(const Asked& asked) {
  return answer_with(head_statistics(head_of(asked.request, "head", asked.job),
                                     take<StatisticsOptions>(asked.request, "options"), asked.job));
}

std::optional<Message> RunAnswers::split(const Asked& asked) {
  return answer_with(decay_split(head_of(asked.request, "head", asked.job),
                                 take<AttentionSpread>(asked.request, "spread"), asked.job));
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
