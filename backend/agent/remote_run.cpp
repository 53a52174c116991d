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
#include "backend/agent/kept_answers.h"
#include "backend/agent/late_check.h"
#include "backend/agent/remote.h"
#include "backend/agent/run_reference.h"
#include "backend/base/error.h"
#include "backend/base/index.h"
#include "backend/file/file_trace.h"
#include "backend/map/device/map_device.h"
#include "backend/map/map_shades.h"
#include "backend/map/maps_elsewhere.h"
#include "backend/map/statistics/distance_bins.h"
#include "backend/trace/row_source.h"

namespace foxscope::agent {
namespace {

/// Bytes of one answer that carries a part of a long array.
constexpr std::int64_t kArrayPiece = std::int64_t{16} << 20;
/// Queries and keys that are held, in pieces of so many rows.
constexpr std::int64_t kRowsOfPiece = 4096;
constexpr std::size_t kHeldPieces = 64;
/// Bytes of a long text, and tokens, that come in one answer.
constexpr std::int64_t kTextPiece = std::int64_t{16} << 20;
constexpr std::int64_t kTokenPiece = std::int64_t{1} << 19;
constexpr std::int64_t kMostText = std::int64_t{1} << 33;
/// A picture in fewer steps of its colours than there are is shown for so long before all are asked for, unless another
/// picture is wanted.
constexpr std::chrono::milliseconds kRest{150};
/// A map that took longer is not computed for nothing.
constexpr std::chrono::milliseconds kQuickMap{500};
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
    throw Error(fmt::format("{}: {}: install the same version on both machines",
                            RemotePath{remote->host(), run.path}.url(), problem));
  }
  template <typename T>
  [[nodiscard]] T taken(const Message& message, const char* name) const {
    try {
      return take<T>(message, name);
    } catch (const ProtocolError& error) {
      fail(error.what());
    }
  }
  /// @returns nothing if the job was stopped
  template <typename T>
  [[nodiscard]] std::optional<T> ask(const Message& request, const Job& job) const {
    const std::optional<Message> answer = remote->ask_kept(request, job);
    return answer ? std::optional(taken<T>(*answer, "answer")) : std::nullopt;
  }
  /// The same for no job but the thread's (AskingFor).
  template <typename T>
  [[nodiscard]] T ask(const Message& request) const {
    return std::move(ask<T>(request, Job{}).value());
  }
};

constexpr const char* kGatesInAnotherNumber = "gates came in another number";

/// How many mean log gates a run has.
std::int64_t gate_count(const TraceInfo& info) { return std::int64_t{info.layers} * info.heads; }

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
  /// Losses and mean log gates that did not come with it are asked for when they are first wanted.
  RemoteSource(Place place, OpenedTrace opened)
      : place_(std::move(place)),
        info_(std::move(opened.info)),
        mean_log_gates_(std::move(opened.mean_log_gates).value_or(std::vector<double>())) {
    for (const KeptArray& array : opened.kept) kept_[{array.array, array.index}] = array.zero;
    if (opened.loss) loss_ = std::make_shared<const ArrayValues>(std::move(*opened.loss));
  }

  [[nodiscard]] bool has(TraceArray array, int index) const override { return kept_.contains({array, index}); }
  [[nodiscard]] bool is_zero(TraceArray array, int index) const override { return kept_.at({array, index}); }

  [[nodiscard]] std::shared_ptr<const ArrayValues> read(TraceArray array, int index) const override {
    if (!has(array, index)) return nullptr;
    if (array == TraceArray::per_token_loss && loss_) return loss_;
    return std::make_shared<const ArrayValues>(
        part(array, index, 0, static_cast<std::int64_t>(elements_of(spec_of(array), info_, index))));
  }

  [[nodiscard]] bool has_rows(TraceArray /*array*/, int /*index*/) const override { return true; }
  [[nodiscard]] bool waits() const override { return true; }

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

  [[nodiscard]] bool has_gates_here(int layer, int head) const override {
    {
      const std::lock_guard lock(mutex_);
      if (rows_.contains({TraceArray::cumulative_log_gate, layer, head})) return true;
    }
    return KeptAnswers::all().has(place_.remote->host(), request_of_gates(layer, head));
  }

  [[nodiscard]] std::optional<Image> map(const MapRequest& request, const Job& job,
                                         const MapStages* stages) const override {
    const auto begin = std::chrono::steady_clock::now();
    Message message = request_of_map(request);
    const bool in_stages = stages != nullptr && stages->show;
    message.header["stages"] = in_stages;
    if (!in_stages) message.header["all_steps"] = true;
    Image shown{request.pixel_rows, request.pixel_columns, {}};
    std::vector<std::uint8_t> done;
    const auto show = [&](const Message& part) {
      if (!in_stages) return;
      take_stage(part, shown, done);
      stages->show({shown, done});
    };
    auto image = ask_for_map(message, request, job, show);
    if (!image) return std::nullopt;
    const bool quick = std::chrono::steady_clock::now() - begin < kQuickMap;
    if (image->second < kColourSteps && in_stages) {
      done.assign(index_of(request.pixel_rows), 1);
      stages->show({image->first, done});
      if (!place_.remote->wait_until_idle(kRest, job.stop)) return std::nullopt;
      message.header["stages"] = false;
      message.header["all_steps"] = true;
      image = ask_for_map(message, request, job, {});
      if (!image) return std::nullopt;
    }
    if (request.shades && quick) guess_around(request, in_stages);
    return std::move(image->first);
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
      auto means = place_.ask<std::vector<double>>(message);
      if (std::ssize(means) != gate_count(info_)) place_.fail(kGatesInAnotherNumber);
      mean_log_gates_ = std::move(means);
    }
    return mean_log_gates_[index_of(layer * info_.heads + head)];
  }

  [[nodiscard]] PairReading pair(const HeadOf& head, std::int64_t query, std::int64_t key) const override {
    Message message = request_of_head("pair", head);
    put(message, "query", query);
    put(message, "key", key);
    return place_.ask<PairReading>(message);
  }

  [[nodiscard]] std::optional<HeadStatistics> statistics(const HeadOf& head, const StatisticsOptions& options,
                                                         const Job& job) const override {
    Message message = request_of_head("statistics", head);
    put(message, "options", options);
    const auto answer = place_.remote->ask_kept(message, job);
    if (!answer) return std::nullopt;
    std::optional statistics = place_.taken<HeadStatistics>(*answer, "answer");
    if (statistics->errors) check_errors(*statistics->errors);
    if (statistics->has_attention) keep_distances(head, SpreadOf::attention, *answer, "distances");
    for (const ForgettingEvent& event : statistics->strongest_events) check_position(event.position);
    for (const SaliencyEvent& event :
         statistics->saliency ? statistics->saliency->events : std::vector<SaliencyEvent>())
      check_position(event.position);
    if (statistics->layer != head.layer || statistics->head != head.head)
      place_.fail("statistics of another head came");
    return statistics;
  }

  [[nodiscard]] std::optional<DecaySplit> split(const HeadOf& head, const Job& job) const override {
    const auto answer = place_.remote->ask_kept(request_of_head("split", head), job);
    if (!answer) return std::nullopt;
    keep_distances(head, SpreadOf::without_gate, *answer, "distances_without_gate");
    keep_distances(head, SpreadOf::without_content, *answer, "distances_without_content");
    return place_.taken<DecaySplit>(*answer, "answer");
  }

  [[nodiscard]] DistanceSummary distances(const HeadOf& head, SpreadOf which) const override {
    const std::lock_guard lock(mutex_);
    const auto found = distances_.find({head.layer, head.head, which});
    if (found == distances_.end()) place_.fail("attention by distance is missing");
    return found->second;
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
            const Message message = request_of_array(array, index, begin + done, count);
            const auto piece = place_.ask<std::vector<Number>>(message);
            if (std::ssize(piece) != count) place_.fail("a part of an array came in another length");
            numbers.insert(numbers.end(), piece.begin(), piece.end());
            done += count;
          }
        },
        values);
    return values;
  }

  [[nodiscard]] Message request_of_array(TraceArray array, int index, std::int64_t begin, std::int64_t count) const {
    Message message = request_for("array");
    put(message, "of", place_.head(0, 0));
    put(message, "array", array);
    put(message, "index", index);
    put(message, "begin", begin);
    put(message, "count", count);
    return message;
  }

  [[nodiscard]] Message request_of_gates(int layer, int head) const {
    return request_of_array(TraceArray::cumulative_log_gate, layer, head * info_.length, info_.length);
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

  static Message request_of_map(const MapRequest& request) {
    Message message = request_of_head("map", request.head, request.minus);
    put(message, "map", request);
    return message;
  }

  void require_size(const Image& image, std::int64_t rows, std::int64_t columns) const {
    if (image.rows != rows || image.columns != columns || std::ssize(image.value) != rows * columns) {
      place_.fail("a map came in another size than it was asked for");
    }
  }

  /// A map and the steps of its colours, kColourSteps of an exact one; 1 where its pixels come in squares.
  [[nodiscard]] std::optional<std::pair<Image, int>> ask_for_map(const Message& message, const MapRequest& request,
                                                                 const Job& job, const Connection::Output& show) const {
    std::optional<Message> answer = place_.remote->ask_kept(message, job, show);
    if (!answer) return std::nullopt;
    const auto& fields_of_answer = answer->header["answer"];
    const bool colours = fields_of_answer.is_object() && fields_of_answer.contains("levels");
    auto image =
        colours ? unshaded(*answer, "answer") : std::pair(place_.taken<Image>(*answer, "answer"), kColourSteps);
    require_size(image.first, request.pixel_rows, request.pixel_columns);
    return image;
  }

  [[nodiscard]] std::pair<Image, int> unshaded(const Message& message, const char* name) const {
    try {
      const auto image = take<ShadedImage>(message, name);
      return {image_of(image), image.side > 1 ? 1 : image.steps};
    } catch (const Error& error) {
      place_.fail(error.what());
    }
  }

  /// Lines of a map that are done before the others.
  void take_stage(const Message& part, Image& shown, std::vector<std::uint8_t>& done) const {
    const auto lines = place_.taken<std::vector<std::int32_t>>(part, "lines");
    const Image image = unshaded(part, "stage").first;
    require_size(image, std::ssize(lines), shown.columns);
    done.resize(index_of(shown.rows));
    shown.value.resize(index_of(shown.rows * shown.columns), std::numeric_limits<float>::quiet_NaN());
    for (std::size_t n = 0; n < lines.size(); ++n) {
      if (lines[n] < 0 || lines[n] >= shown.rows) place_.fail("a line beyond the map came");
      std::copy_n(image.value.begin() + static_cast<std::ptrdiff_t>(n) * shown.columns, shown.columns,
                  shown.value.begin() + lines[n] * shown.columns);
      done[index_of(lines[n])] = 1;
    }
  }

  /// Guesses what comes after a picture: c of the head, the same picture of the heads beside it, and the places beside.
  void guess_around(const MapRequest& request, bool in_stages) const {
    std::vector<Message> guesses;
    const HeadOf& head = request.head;
    const bool gates =
        has(TraceArray::cumulative_log_gate, head.layer) && !is_zero(TraceArray::cumulative_log_gate, head.layer);
    if (gates && !has_gates_here(head.layer, head.head)) {
      guesses.push_back(request_of_gates(head.layer, head.head));
    }
    const auto add = [&](const MapRequest& next) {
      guesses.push_back(request_of_map(next));
      guesses.back().header["stages"] = in_stages;
      if (!in_stages) guesses.back().header["all_steps"] = true;
    };
    for (const int step : {1, -1}) {
      MapRequest next = request;
      next.head.head += step;
      if (!request.minus && next.head.head >= 0 && next.head.head < info_.mixer(head.layer).heads) add(next);
    }
    for (const int step : {1, -1}) {
      MapRequest next = request;
      if (next.by_distance()) continue;
      const std::int64_t by = step * std::max<std::int64_t>(1, std::min(next.rows.size(), next.columns.size()) / 2);
      next.rows = {next.rows.begin + by, next.rows.end + by};
      next.columns = {next.columns.begin + by, next.columns.end + by};
      const bool inside = std::min(next.rows.begin, next.columns.begin) >= 0 &&
                          std::max(next.rows.end, next.columns.end) <= info_.length;
      if (inside) add(next);
    }
    place_.remote->guess(std::move(guesses));
  }

  void keep_distances(const HeadOf& head, SpreadOf which, const Message& answer, const char* name) const {
    auto summary = place_.taken<DistanceSummary>(answer, name);
    const std::size_t bins = distance_bins(info_.length).size();
    if (summary.bins.size() != bins || summary.bins_without_first.size() != bins) {
      place_.fail("attention by distance came in another length");
    }
    const std::lock_guard lock(mutex_);
    distances_[{head.layer, head.head, which}] = std::move(summary);
  }

  void check_position(std::int64_t position) const {
    if (position < 0 || position >= info_.length) place_.fail("a position beyond the text came");
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
  mutable std::map<std::tuple<int, int, SpreadOf>, DistanceSummary> distances_;  ///< by layer and head
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
  if (opened.mean_log_gates && std::ssize(*opened.mean_log_gates) != gate_count(info)) {
    place.fail(kGatesInAnotherNumber);
  }
  const bool no_loss = !opened.loss || opened.loss->empty();
  if (!no_loss && std::ssize(*opened.loss) != info.length) place.fail("losses came in another length");
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

namespace {

/// Text and tokens of a run.
struct TextAndTokens {
  std::shared_ptr<const Text> text;
  std::vector<std::shared_ptr<const TokenTable>> tokens;
};

/// Takes text and tokens from the answer to "open", which holds them all.
TextAndTokens text_of(const Place& place, OpenedRun& opened) {
  TextAndTokens whole;
  if (!opened.texts.empty()) whole.text = std::make_shared<const Text>(std::move(opened.texts.front()));
  try {
    for (const OpenedTokens& part : opened.tokens) {
      auto table = std::make_shared<TokenTable>();
      unpack_tokens(part, whole.text.get(), *table);
      whole.tokens.push_back(std::move(table));
    }
  } catch (const ProtocolError& error) {
    place.fail(error.what());
  }
  return whole;
}

/// Asked for piece by piece, where they are too long for the answer.
TextAndTokens ask_for_text(Place place, OpenedRun& opened) {
  TextAndTokens whole;
  const std::int64_t size = opened.text_bytes.value_or(0);
  require_between(place, "the number of bytes of the text", size, 0, kMostText);
  if (!opened.texts.empty()) {
    Text text = std::move(opened.texts.front());
    text.content.clear();
    while (std::ssize(text.content) < size) {
      const std::int64_t begin = std::ssize(text.content);
      const Range bytes{begin, std::min(size, begin + kTextPiece)};
      Message request = request_for("text");
      put(request, "run", place.run);
      put(request, "bytes", bytes);
      const auto piece = place.ask<std::vector<std::uint8_t>>(request);
      if (std::ssize(piece) != bytes.size()) place.fail("a part of the text came in another length");
      text.content.append(reinterpret_cast<const char*>(piece.data()), piece.size());
    }
    whole.text = std::make_shared<const Text>(std::move(text));
  }
  for (std::size_t n = 0; n < opened.tokens.size(); ++n) {
    const auto trace = std::ranges::find(opened.traces, static_cast<int>(n), &OpenedTrace::tokens);
    if (trace == opened.traces.end()) place.fail("tokens of no model came");
    place.model = trace->info.name;
    require_between(place, "the number of tokens", trace->info.length, 1, kMostLength);
    auto table = std::make_shared<TokenTable>();
    while (std::ssize(table->id) < trace->info.length) {
      const std::int64_t begin = std::ssize(table->id);
      const Range positions{begin, std::min(trace->info.length, begin + kTokenPiece)};
      Message request = request_for("tokens");
      put(request, "of", place.head(0, 0));
      put(request, "positions", positions);
      const auto piece = place.ask<OpenedTokens>(request);
      try {
        unpack_tokens(piece, whole.text.get(), *table);
        if (std::ssize(table->id) != positions.end) throw ProtocolError("a part of the tokens came in another length");
      } catch (const ProtocolError& error) {
        place.fail(error.what());
      }
    }
    whole.tokens.push_back(std::move(table));
  }
  return whole;
}

RunFile run_of(Place place, OpenedRun opened, const TextAndTokens& whole) {
  RunFile run;
  run.program_version = opened.program_version;
  run.command_line = opened.command_line;
  run.created = opened.created;
  const auto& [text, tokens] = whole;
  std::set<std::string> names;
  for (OpenedTrace& trace : opened.traces) {
    place.model = trace.info.name;
    check_sizes(place, trace);
    if (!names.insert(place.model).second) place.fail("two models have one name");
    if (trace.tokens < 0 || index_of(trace.tokens) >= tokens.size()) place.fail("a model's tokens are missing");
    if (std::ssize(tokens[index_of(trace.tokens)]->id) != trace.info.length) {
      place.fail("a list of tokens came in another length");
    }
    std::shared_ptr<const QueryKeyStore> store;
    if (!trace.stored.empty()) store = std::make_shared<RemoteQueryKeyStore>(place, trace.info, trace.stored);
    run.checks.push_back(trace.check);
    const TraceInfo info = trace.info;
    const auto& own_tokens = tokens[index_of(trace.tokens)];
    auto source = std::make_unique<const RemoteSource>(place, std::move(trace));
    run.traces.push_back(std::make_shared<const Trace>(info, text, own_tokens, std::move(source), std::move(store)));
  }
  if (run.traces.empty()) place.fail("there is no run in it");
  return run;
}

/// Asks to open a run file after a glance.
/// @param rows  whether row normalisers that it lacks are computed there
Message request_to_open(const RemotePath& there, RunCheck check, bool rows) {
  Message request = request_for("open");
  put(request, "path", there.path);
  put(request, "check", std::string(check == RunCheck::none ? "none" : "glance"));
  put(request, "rows", rows);
  return request;
}

/// The run of an answer to "open".
RunFile opened_there(const std::shared_ptr<Remote>& remote, const Message& answer, const std::string& device) {
  Place place{remote, {}, "", device};
  auto opened = place.taken<OpenedRun>(answer, "answer");
  place.run = opened.run;
  const TextAndTokens whole = opened.text_bytes ? ask_for_text(place, opened) : text_of(place, opened);
  return run_of(place, std::move(opened), whole);
}

/// Checks all of a run that was opened after a glance.
void check_there(Remote& remote, const RunReference& run, const Job& job) {
  Message request = request_for("check");
  put(request, "run", run);
  (void)remote.ask_behind(request, job);
}

/// Looks whether a file is still the one that was opened from an answer of another time.
void require_unchanged(Remote& remote, const RemotePath& path, const Message& opened, const RunReference& run,
                       const Job& job) {
  Message request = request_for("stat");
  put(request, "path", path.path);
  const auto answer = remote.ask_behind(request, job);
  if (!answer || take<FileFacts>(*answer, "answer").identity == run.identity) return;
  KeptAnswers::all().forget_older(path.host, opened);
  throw Error(
      fmt::format("{}: has changed since it was last opened, and is shown as it was then: open it again", path.url()));
}

RunReference reference_of(const Message& answer) { return take<OpenedRun>(answer, "answer").run; }

std::optional<RunFile> open_there(const std::string& path, RunCheck check, bool rows, const Job& job,
                                  const std::string& device) {
  const RemotePath there = parse_remote_path(path);
  const auto remote = Remote::at(there.host);
  Message request = request_to_open(there, check, rows);
  if (check == RunCheck::whole) request.header["check_begins"] = true;
  const std::optional<Message> answer = remote->ask(request, job);
  if (!answer) return std::nullopt;
  RunFile run = opened_there(remote, *answer, device);
  if (check == RunCheck::whole) {
    check_late(remote, LateCheck::at_once, [reference = reference_of(*answer)](Remote& asked, const Job& running) {
      check_there(asked, reference, running);
    });
  }
  return run;
}

}  // namespace

RunFile run_of_answer(const RemoteHost& host, const Message& answer, const std::string& device) {
  Place place{Remote::at(host), {}, "", device};
  auto opened = place.taken<OpenedRun>(answer, "answer");
  place.run = opened.run;
  const TextAndTokens whole = text_of(place, opened);
  return run_of(place, std::move(opened), whole);
}

std::optional<OpenedThere> open_path(const std::string& path, RunCheck check, const Job& job,
                                     const std::string& device) {
  const RemotePath there = parse_remote_path(path);
  const auto remote = Remote::at(there.host);
  Message request = request_to_open(there, check, /*rows=*/true);
  request.header["losses"] = true;
  request.header["or_describe"] = true;
  std::optional<Message> answer = KeptAnswers::all().find_older(there.host, request);
  const bool older = answer.has_value();
  if (!older) answer = remote->ask(request, job);
  if (!answer) return std::nullopt;
  answer->header.erase("id");
  const auto& fields_of_answer = answer->header["answer"];
  if (!fields_of_answer.is_object() || !fields_of_answer.contains("traces")) {
    return OpenedThere{Place{remote, {}, "", device}.taken<FileFacts>(*answer, "answer"), std::nullopt};
  }
  OpenedThere opened{{"file", 0, 0, "", "runs", there.path}, opened_there(remote, *answer, device)};
  const RunReference reference = reference_of(*answer);
  opened.facts.identity = reference.identity;
  if (!older) KeptAnswers::all().keep_older(there.host, request, *answer);
  check_late(remote, LateCheck::when_idle, [=](Remote& asked, const Job& running) {
    if (older) require_unchanged(asked, there, request, reference, running);
    if (check == RunCheck::whole) check_there(asked, reference, running);
  });
  return opened;
}

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
