#include "backend/agent/remote_run.h"

#include <algorithm>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "backend/agent/fields.h"
#include "backend/agent/remote.h"
#include "backend/agent/run_reference.h"
#include "backend/base/error.h"
#include "backend/base/index.h"
#include "backend/file/file_trace.h"
#include "backend/map/device/map_device.h"
#include "backend/map/maps_elsewhere.h"
#include "backend/trace/row_source.h"

namespace foxscope::agent {
namespace {

/// Bytes of one answer that carries a part of a long array.
constexpr std::int64_t kArrayPiece = std::int64_t{16} << 20;
/// Queries and keys that are held, in pieces of so many rows.
constexpr std::int64_t kRowsOfPiece = 4096;
constexpr std::size_t kHeldPieces = 64;
/// Numbers that no run goes beyond.
constexpr int kMostLayers = 1 << 14;
constexpr int kMostHeads = 1 << 20;
constexpr std::int64_t kMostLength = std::int64_t{1} << 31;
constexpr int kMostChannels = 1 << 20;

/// A run on another machine, as requests name it.
struct Place {
  std::shared_ptr<Remote> remote;
  RunReference run;
  std::string model;
  std::string device;

  [[nodiscard]] HeadReference head(int layer, int head, std::optional<int> gpu = std::nullopt) const {
    return {run, model, gpu ? fmt::format("cuda:{}", *gpu) : device, layer, head};
  }
  [[noreturn]] void fail(std::string_view problem) const {
    throw Error(fmt::format("{}: {}: {}: install the same version on both machines", remote->host().words(), run.path,
                            problem));
  }
  /// @returns nothing if the job was stopped
  template <typename T>
  [[nodiscard]] std::optional<T> ask(const Message& request, const Job& job) const {
    const std::optional<Message> answer = remote->ask(request, job);
    if (!answer) return std::nullopt;
    try {
      return take<T>(*answer, "answer");
    } catch (const ProtocolError& error) {
      fail(error.what());
    }
  }
};

/// Empty values of the type that an array has in memory.
ArrayValues values_for(const ArraySpec& spec) {
  switch (spec.number) {
    case ArrayNumber::float64:
      return std::vector<double>();
    case ArrayNumber::float16:
      return std::vector<std::uint16_t>();
    case ArrayNumber::int32:
      return std::vector<std::int32_t>();
    default:
      return std::vector<float>();
  }
}

class RemoteSource final : public RowSource, public MapsElsewhere {
 public:
  RemoteSource(Place place, TraceInfo info, const std::vector<KeptArray>& kept, std::vector<float> loss)
      : place_(std::move(place)), info_(std::move(info)) {
    for (const KeptArray& array : kept) kept_[{array.array, array.index}] = array.zero;
    loss_ = std::make_shared<const ArrayValues>(std::move(loss));
  }

  [[nodiscard]] bool has(TraceArray array, int index) const override { return kept_.contains({array, index}); }
  [[nodiscard]] bool is_zero(TraceArray array, int index) const override { return kept_.at({array, index}); }

  [[nodiscard]] std::shared_ptr<const ArrayValues> read(TraceArray array, int index) const override {
    if (!has(array, index)) return nullptr;
    if (array == TraceArray::per_token_loss) return loss_;
    return std::make_shared<const ArrayValues>(
        part(array, index, 0, static_cast<std::int64_t>(elements_of(spec_of(array), info_, index))));
  }

  [[nodiscard]] const ArrayValues& row(TraceArray array, int index, std::int64_t row) const override {
    const std::tuple key{array, index, row};
    {
      const std::lock_guard lock(mutex_);
      if (const auto found = rows_.find(key); found != rows_.end()) return *found->second;
    }
    const ArraySpec& spec = spec_of(array);
    const std::vector<std::uint64_t> shape = shape_of(spec, info_, index);
    const std::uint64_t rows = spec.repeat == Repeat::once ? shape[0] * shape[1] : shape[0];
    const auto size = static_cast<std::int64_t>(elements_of(spec, info_, index) / rows);
    ArrayValues values = is_zero(array, index) ? zeros(spec, size) : part(array, index, row * size, size);
    const std::lock_guard lock(mutex_);
    auto& held = rows_[key];
    if (!held) held = std::make_unique<const ArrayValues>(std::move(values));
    return *held;
  }

  [[nodiscard]] bool holds(const Trace& trace) const override {
    const auto* const other = dynamic_cast<const RemoteSource*>(&trace.source());
    return other != nullptr && other->place_.remote == place_.remote;
  }

  [[nodiscard]] std::optional<Image> map(const MapRequest& request, const Job& job) const override {
    Message message = request_of_head("map", request.head, request.minus);
    put(message, "map", request);
    auto image = place_.ask<Image>(message, job);
    if (image && (image->rows != request.pixel_rows || image->columns != request.pixel_columns ||
                  std::ssize(image->value) != image->rows * image->columns)) {
      place_.fail("a map came in another size than it was asked for");
    }
    return image;
  }

  [[nodiscard]] std::optional<std::vector<float>> line(const LineRequest& request, const Job& job) const override {
    Message message = request_of_head("line", request.head, request.minus);
    put(message, "line", request);
    auto values = place_.ask<std::vector<float>>(message, job);
    if (values && std::ssize(*values) != request.positions.size()) place_.fail("a line came in another length");
    return values;
  }

  [[nodiscard]] double mean_log_gate(int layer, int head) const override {
    const std::lock_guard lock(gates_mutex_);
    if (mean_log_gates_.empty()) {
      Message message = request_for("gates");
      put(message, "of", place_.head(0, 0));
      auto means = place_.ask<std::vector<double>>(message, {}).value();
      if (std::ssize(means) != std::int64_t{info_.layers} * info_.heads) place_.fail("gates came in another number");
      mean_log_gates_ = std::move(means);
    }
    return mean_log_gates_[index_of(layer * info_.heads + head)];
  }

  [[nodiscard]] PairReading pair(const HeadOf& head, std::int64_t query, std::int64_t key) const override {
    Message message = request_of_head("pair", head);
    put(message, "query", query);
    put(message, "key", key);
    return place_.ask<PairReading>(message, {}).value();
  }

  [[nodiscard]] std::optional<HeadStatistics> statistics(const HeadOf& head, const StatisticsOptions& options,
                                                         const Job& job) const override {
    Message message = request_of_head("statistics", head);
    put(message, "options", options);
    auto statistics = place_.ask<HeadStatistics>(message, job);
    if (!statistics) return std::nullopt;
    check_spread(*statistics);
    if (statistics->errors) check_errors(*statistics->errors);
    for (const ForgettingEvent& event : statistics->strongest_events) check_position(event.position);
    for (const SaliencyEvent& event :
         statistics->saliency ? statistics->saliency->events : std::vector<SaliencyEvent>())
      check_position(event.position);
    if (statistics->layer != head.layer || statistics->head != head.head)
      place_.fail("statistics of another head came");
    return statistics;
  }

  [[nodiscard]] std::optional<DecaySplit> split(const HeadOf& head, const AttentionSpread& spread,
                                                const Job& job) const override {
    Message message = request_of_head("split", head);
    put(message, "spread", spread);
    auto split = place_.ask<DecaySplit>(message, job);
    if (split) check_spread(split->without_gate);
    if (split) check_spread(split->without_content);
    return split;
  }

  [[nodiscard]] std::optional<std::vector<LogitMeans>> logits(const HeadOf& head, const Job& job) const override {
    return place_.ask<std::vector<LogitMeans>>(request_of_head("logits", head), job);
  }

  [[nodiscard]] std::optional<PruningBound> pruning(const HeadOf& head, double tolerance,
                                                    const Job& job) const override {
    Message message = request_of_head("pruning", head);
    put(message, "tolerance", tolerance);
    auto bound = place_.ask<PruningBound>(message, job);
    if (bound && std::ssize(bound->first_kept) != info_.length) place_.fail("a bound came in another length");
    for (const std::int64_t key : bound ? bound->first_kept : std::vector<std::int64_t>()) check_position(key);
    return bound;
  }

 private:
  static ArrayValues zeros(const ArraySpec& spec, std::int64_t size) {
    ArrayValues values = values_for(spec);
    std::visit([&](auto& numbers) { numbers.resize(index_of(size)); }, values);
    return values;
  }

  /// Numbers [begin, begin + size) of an array, in pieces.
  [[nodiscard]] ArrayValues part(TraceArray array, int index, std::int64_t begin, std::int64_t size) const {
    ArrayValues values = values_for(spec_of(array));
    std::visit(
        [&](auto& numbers) {
          using Number = typename std::decay_t<decltype(numbers)>::value_type;
          const std::int64_t most = kArrayPiece / static_cast<std::int64_t>(sizeof(Number));
          for (std::int64_t done = 0; done < size;) {
            const std::int64_t count = std::min(most, size - done);
            Message message = request_for("array");
            put(message, "of", place_.head(0, 0));
            put(message, "array", array);
            put(message, "index", index);
            put(message, "begin", begin + done);
            put(message, "count", count);
            const auto piece = place_.ask<std::vector<Number>>(message, {});
            if (std::ssize(*piece) != count) place_.fail("a part of an array came in another length");
            numbers.insert(numbers.end(), piece->begin(), piece->end());
            done += count;
          }
        },
        values);
    return values;
  }

  /// A request about a head, and perhaps the one whose entries are taken off.
  static Message request_of_head(const char* word, const HeadOf& head, const std::optional<HeadOf>& minus = {}) {
    const auto reference = [](const HeadOf& of) {
      const auto& source = dynamic_cast<const RemoteSource&>(of.trace->source());
      return source.place_.head(of.layer, of.head, of.gpu);
    };
    Message message = request_for(word);
    put(message, "head", reference(head));
    if (minus) put(message, "minus", reference(*minus));
    return message;
  }

  void check_position(std::int64_t position) const {
    if (position < 0 || position >= info_.length) place_.fail("a position beyond the text came");
  }
  void check_spread(const AttentionSpread& spread) const {
    for (const DistanceProfile* profile : {&spread.distance, &spread.distance_without_first}) {
      if (!profile->mass.empty() && std::ssize(profile->mass) != info_.length) {
        place_.fail("a distance profile came in another length");
      }
    }
  }
  void check_errors(const SpreadErrors& errors) const {
    const std::size_t bins = distance_bins(info_.length).size();
    for (const ProfileErrors* profile : {&errors.distance, &errors.distance_without_first}) {
      if (profile->mass.size() != bins || profile->within.size() != bins) {
        place_.fail("errors of a distance profile came in another length");
      }
    }
  }

  Place place_;
  TraceInfo info_;
  std::map<std::pair<TraceArray, int>, bool> kept_;  ///< whether all of it is 0
  std::shared_ptr<const ArrayValues> loss_;
  mutable std::mutex gates_mutex_;
  mutable std::vector<double> mean_log_gates_;  ///< [layers, H], once they are known
  mutable std::mutex mutex_;
  mutable std::map<std::tuple<TraceArray, int, std::int64_t>, std::unique_ptr<const ArrayValues>> rows_;
};

/// Queries, keys and values of a run on another machine, for what is computed here: a difference from a run that lies
/// elsewhere, a page, a copy of the run.
class RemoteQueryKeyStore final : public QueryKeyStore {
 public:
  RemoteQueryKeyStore(Place place, const TraceInfo& info, Parts parts)
      : QueryKeyStore(info, info.dtype, std::move(parts)), place_(std::move(place)) {}

  [[nodiscard]] const char* where() const override { return "another machine"; }

  [[nodiscard]] std::span<const std::byte> raw_rows(Part part, int layer, int head, std::int64_t begin,
                                                    std::int64_t end, std::vector<std::byte>& scratch) const override {
    const std::size_t row_bytes = index_of(channels(part, layer)) * size_of(dtype());
    scratch.resize(index_of(end - begin) * row_bytes);
    for (std::int64_t row = begin; row < end;) {
      const std::int64_t number = row / kRowsOfPiece;
      const std::int64_t first = number * kRowsOfPiece;
      const std::int64_t last = std::min(end, first + kRowsOfPiece);
      const std::shared_ptr<const std::vector<std::byte>> piece = rows_from(part, layer, head, number);
      std::copy_n(piece->begin() + (row - first) * static_cast<std::ptrdiff_t>(row_bytes),
                  (last - row) * static_cast<std::ptrdiff_t>(row_bytes),
                  scratch.begin() + (row - begin) * static_cast<std::ptrdiff_t>(row_bytes));
      row = last;
    }
    return scratch;
  }

 private:
  struct Piece {
    std::tuple<Part, int, int, std::int64_t> key;
    std::shared_ptr<const std::vector<std::byte>> bytes;
  };

  [[nodiscard]] std::shared_ptr<const std::vector<std::byte>> rows_from(Part part, int layer, int head,
                                                                        std::int64_t number) const {
    const std::tuple key{part, layer, head, number};
    {
      const std::lock_guard lock(mutex_);
      const auto found = std::ranges::find(held_, key, &Piece::key);
      if (found != held_.end()) {
        held_.splice(held_.begin(), held_, found);
        return held_.front().bytes;
      }
    }
    const Range rows{number * kRowsOfPiece, std::min((number + 1) * kRowsOfPiece, shape().length)};
    Message message = request_for("rows");
    put(message, "of", place_.head(layer, head));
    put(message, "array", part);
    put(message, "rows", rows);
    std::optional<Message> answer = place_.remote->ask(message, {});
    const std::vector<std::uint64_t> expected{index_of(rows.size()), index_of(channels(part, layer))};
    if (answer->parts.size() != 1 || answer->parts[0].dtype != to_string(dtype()) ||
        answer->parts[0].shape != expected) {
      place_.fail("rows came in another shape");
    }
    auto bytes = std::make_shared<const std::vector<std::byte>>(std::move(answer->parts[0].bytes));
    const std::lock_guard lock(mutex_);
    held_.push_front({key, bytes});
    if (held_.size() > kHeldPieces) held_.pop_back();
    return bytes;
  }

  Place place_;
  mutable std::mutex mutex_;
  mutable std::list<Piece> held_;  ///< the one used last comes first
};

void require_between(const Place& place, const char* what, std::int64_t value, std::int64_t least, std::int64_t most) {
  if (value < least || value > most) place.fail(fmt::format("{} is {}, not {} to {}", what, value, least, most));
}

/// Checks what a reader of run files would have checked.
void check_sizes(const Place& place, const OpenedTrace& opened) {
  const TraceInfo& info = opened.info;
  if (!is_model_name(info.name)) place.fail("a model has a name that no run file can have");
  require_between(place, "the number of layers", info.layers, 1, kMostLayers);
  require_between(place, "the number of heads", info.heads, 1, kMostHeads);
  require_between(place, "the number of key heads", info.key_heads, 0, info.heads);
  require_between(place, "the number of heads of all layers", std::int64_t{info.layers} * info.heads, 1, kMostHeads);
  require_between(place, "the number of channels", info.head_dim, 0, kMostChannels);
  require_between(place, "the number of tokens", info.length, 1, kMostLength);
  require_between(place, "the vocabulary", info.vocabulary_size, 0, kMostLength);
  require_between(place, "the size of a hidden state", info.hidden_size, 0, kMostLength);
  require_between(place, "the number of experts", info.chosen_experts, 0, kMostChannels);
  require_between(place, "the window", info.window_size, 0, std::numeric_limits<std::int64_t>::max());
  const auto fits = [&](std::size_t size) { return size == 0 || size == index_of(info.layers); };
  if (!fits(info.mixers.size()) || !fits(info.window_sizes.size()) || !fits(info.forgetting.size())) {
    place.fail("a list by layer has another length than there are layers");
  }
  for (const std::int64_t window : info.window_sizes) {
    require_between(place, "a window", window, 0, std::numeric_limits<std::int64_t>::max());
  }
  for (const LayerMixer& mixer : info.mixers) {
    if (const std::string problem = mixer_problem(mixer); !problem.empty()) place.fail(problem);
    for (const MixerExtent& extent : kMixerExtents) {
      require_between(place, extent.name, mixer.*extent.member, 0, kMostHeads);
    }
  }
  if (info.mixers.empty() && (info.key_heads == 0 ? !opened.stored.empty() : info.heads % info.key_heads != 0)) {
    place.fail("heads cannot share so many key heads");
  }
  if (!opened.loss.empty() && std::ssize(opened.loss) != info.length) place.fail("losses came in another length");
  for (const KeptArray& kept : opened.kept) {
    const ArraySpec& spec = spec_of(kept.array);
    if (spec.storage == Storage::store || kept.index < 0 || kept.index >= count_of(spec, info.layers) ||
        (spec.repeat == Repeat::layers && !belongs_to(spec, info.mixer(kept.index)))) {
      place.fail("an array is said to be there that the run cannot have");
    }
  }
  for (const TraceArray array : opened.stored) {
    if (spec_of(array).storage != Storage::store || info.head_dim == 0) place.fail("queries are of no size");
  }
}

}  // namespace

RunFile run_of_answer(const RemoteHost& host, const Message& answer, const std::string& device) {
  Place place{Remote::at(host), {}, "", device};
  OpenedRun opened;
  try {
    opened = take<OpenedRun>(answer, "answer");
  } catch (const ProtocolError& error) {
    place.fail(error.what());
  }
  place.run = opened.run;
  RunFile run;
  run.program_version = opened.program_version;
  run.command_line = opened.command_line;
  run.created = opened.created;
  std::shared_ptr<const Text> text;
  if (!opened.texts.empty()) text = std::make_shared<const Text>(std::move(opened.texts.front()));
  std::vector<std::shared_ptr<const TokenTable>> tokens;
  try {
    for (OpenedTokens& table : opened.tokens) {
      tokens.push_back(std::make_shared<const TokenTable>(unpacked_tokens(std::move(table), text.get())));
    }
  } catch (const ProtocolError& error) {
    place.fail(error.what());
  }
  std::set<std::string> names;
  for (OpenedTrace& trace : opened.traces) {
    place.model = trace.info.name;
    check_sizes(place, trace);
    if (!names.insert(place.model).second) place.fail("two models have one name");
    if (trace.tokens < 0 || index_of(trace.tokens) >= tokens.size()) place.fail("a model's tokens are missing");
    if (std::ssize(tokens[index_of(trace.tokens)]->id) != trace.info.length) {
      place.fail("a list of tokens came in another length");
    }
    auto source = std::make_unique<const RemoteSource>(place, trace.info, trace.kept, std::move(trace.loss));
    std::shared_ptr<const QueryKeyStore> store;
    if (!trace.stored.empty()) store = std::make_shared<RemoteQueryKeyStore>(place, trace.info, trace.stored);
    run.checks.push_back(trace.check);
    run.traces.push_back(std::make_shared<const Trace>(trace.info, text, tokens[index_of(trace.tokens)],
                                                       std::move(source), std::move(store)));
  }
  if (run.traces.empty()) place.fail("there is no run in it");
  return run;
}

namespace {

/// Opens a run file on another machine.
/// @param rows  whether row normalisers that it lacks are computed there
std::optional<RunFile> open_there(const std::string& path, RunCheck check, bool rows, const Job& job,
                                  const std::string& device) {
  const RemotePath there = parse_remote_path(path);
  Message request = request_for("open");
  put(request, "path", there.path);
  put(request, "check", std::string(check == RunCheck::none ? "none" : check == RunCheck::glance ? "glance" : "whole"));
  put(request, "rows", rows);
  const std::optional<Message> answer = Remote::at(there.host)->ask(request, job);
  if (!answer) return std::nullopt;
  return run_of_answer(there.host, *answer, device);
}

}  // namespace

std::optional<int> gpu_for(const std::string& path, const std::string& device) {
  const DeviceChoice choice = DeviceChoice::parse(device);
  return is_remote(path) ? std::nullopt : gpu_chosen(choice);
}

std::optional<RunFile> open_run(const std::string& path, RunCheck check, const Job& job, const std::string& device) {
  if (!is_remote(path)) return RunFile::open(path, job, check);
  return open_there(path, check, /*rows=*/true, job, device);
}

RunFile open_run(const std::string& path, RunCheck check, const std::string& device) {
  if (!is_remote(path)) return RunFile::open(path, check);
  return open_there(path, check, /*rows=*/false, Job{}, device).value();
}

}  // namespace foxscope::agent
