#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <utility>

#include <ATen/ATen.h>
#include <c10/util/Logging.h>
#include <fmt/format.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "backend/base/error.h"
#include "backend/model/collectives_torch.h"
#include "backend/model/current_device_torch.h"
#include "backend/model/device_errors_torch.h"
#include "backend/model/processes_torch.h"

namespace foxscope {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::minutes kMeeting(5);
constexpr std::chrono::seconds kBetweenSigns(2);
constexpr std::chrono::seconds kLongestSilence(30);
constexpr std::chrono::seconds kFarewell(60);     // of who hosts the store, until the others have left
constexpr std::chrono::seconds kUntilTold(5);     // of who fails, until the others know
constexpr std::chrono::hours kNoLimit(24 * 365);  // of the store's own: whom it waits for is watched
constexpr std::chrono::milliseconds kPoll(20);

const std::string kFailed = "failed";
const std::string kTold = "told";
const std::string kHere = "here";
const std::string kPosted = "posted";

std::vector<std::uint8_t> bytes_of(const std::string& text) { return {text.begin(), text.end()}; }
std::string text_of(const std::vector<std::uint8_t>& bytes) { return {bytes.begin(), bytes.end()}; }

/// What is said is ours: LibTorch's own lines of logs are for who asks for them.
void keep_torch_quiet() {
  constexpr int kFatal = 3;
  if (std::getenv("TORCH_CPP_LOG_LEVEL") == nullptr) FLAGS_caffe2_log_level = kFatal;
}

/// Waits until something holds.  @returns false if it did not within a time
template <typename Condition>
bool wait_until(std::chrono::milliseconds longest, const Condition& holds) {
  const auto end = Clock::now() + longest;
  while (!holds()) {
    if (Clock::now() > end) return false;
    std::this_thread::sleep_for(kPoll);
  }
  return true;
}

}  // namespace

TorchProcesses::TorchProcesses(const ProcessPlace& place, const Device& device, const std::string& remedy,
                               WorkLost lost)
    : Processes(place, device), remedy_(remedy), lost_(std::move(lost)) {
  keep_torch_quiet();
  connect();
  meet();
  try {
    backend_ = device.cuda ? make_nccl_backend(store_, place) : make_store_backend(store_, place);
  } catch (const c10::Error& error) {
    throw Error(fmt::format("{}: NCCL does not begin: {}", device.name(), first_line(error.what_without_backtrace())));
  }
  watch_ = std::jthread([this](const std::stop_token& stop) { watch(stop); });
}

TorchProcesses::~TorchProcesses() {
  watch_.request_stop();
  watch_.join();
  try {
    store_->add(key("left", place().rank), 1);
    if (!place().hosts_store) return;
    wait_until(kFarewell, [&] {
      for (int rank = 0; rank < place().count; ++rank) {
        if (store_->add(key("left", rank), 0) == 0) return false;
      }
      return true;
    });
  } catch (const c10::Error&) {
    return;  // who keeps the store has gone before
  }
}

std::string TorchProcesses::key(const char* what, int rank) const { return fmt::format("{}/{}", what, rank); }

template <typename Action>
auto TorchProcesses::in_store(const Action& action) const {
  try {
    return action();
  } catch (const c10::Error& error) {
    throw Error(fmt::format("process {} of {}: the store at {}:{} is gone: {}", place().rank, place().count,
                            place().host, place().port, first_line(error.what_without_backtrace())));
  }
}

void TorchProcesses::connect() {
  c10d::TCPStoreOptions options;
  options.port = static_cast<std::uint16_t>(place().port);
  options.isServer = place().hosts_store;
  options.waitWorkers = false;
  options.timeout = kMeeting;
  try {
    const auto store = c10::make_intrusive<c10d::TCPStore>(place().host, options);
    const std::string prefix = "foxscope/" + place().run;
    store_ = c10::make_intrusive<c10d::PrefixStore>(prefix, store);
    watched_ = c10::make_intrusive<c10d::PrefixStore>(prefix, store->clone());
  } catch (const c10::Error& error) {
    throw Error(fmt::format("process {} of {}: no store at {}:{} to meet the others at: {}", place().rank,
                            place().count, place().host, place().port, first_line(error.what_without_backtrace())));
  }
}

void TorchProcesses::meet() {
  in_store([&] {
    store_->add(kHere, 1);
    if (!wait_until(kMeeting, [&] { return store_->add(kHere, 0) >= place().count; })) {
      throw Error(fmt::format("process {} of {}: only {} have come within {} minutes: start all of them", place().rank,
                              place().count, store_->add(kHere, 0), kMeeting.count()));
    }
    store_->setTimeout(kNoLimit);
  });
}

/// The first watches all others, and they it.
void TorchProcesses::watch(const std::stop_token& stop) {
  struct Sign {
    std::int64_t count = 0;
    Clock::time_point seen = Clock::now();
  };
  std::vector<Sign> signs(static_cast<std::size_t>(place().count));
  std::condition_variable_any wake;
  const auto end_with = [&](const std::string& message) {
    const std::lock_guard lock(mutex_);
    if (failing_ || stop.stop_requested()) return;
    try {
      watched_->add(key("left", place().rank), 1);  // who keeps the store need not wait
    } catch (const c10::Error&) {
      // Nobody keeps it any more.
    }
    lost_(message);
  };
  while (!stop.stop_requested()) {
    try {
      watched_->add(key("sign", place().rank), 1);
      if (watched_->check({kFailed})) {
        const std::string message = text_of(watched_->get(kFailed));
        watched_->add(kTold, 1);
        // The store goes with who hosts it.
        if (place().hosts_store) wait_until(kUntilTold, [&] { return watched_->add(kTold, 0) >= place().count; });
        end_with(first() ? message : "");
        return;
      }
      const int last = first() ? place().count - 1 : 0;
      for (int rank = first() ? 1 : 0; rank <= last; ++rank) {
        Sign& sign = signs[static_cast<std::size_t>(rank)];
        const std::int64_t count = watched_->add(key("sign", rank), 0);
        if (count != sign.count) sign = {count, Clock::now()};
        if (Clock::now() - sign.seen < kLongestSilence || watched_->add(key("left", rank), 0) > 0) continue;
        const std::string message = fmt::format("process {} of {} is lost, it gave no sign of life for {} s: {}", rank,
                                                place().count, kLongestSilence.count(), remedy_);
        if (first()) watched_->set(kFailed, bytes_of(message));
        end_with(speaks_without_first() || first() ? message : "");
        return;
      }
    } catch (const c10::Error&) {
      end_with(without_first());
      return;
    }
    std::unique_lock lock(mutex_);
    wake.wait_for(lock, stop, kBetweenSigns, [] { return false; });
  }
}

void TorchProcesses::fail(const std::string& message) {
  {
    const std::lock_guard lock(mutex_);
    failing_ = true;
  }
  bool known = false;
  try {
    const std::string whose = first() ? "" : fmt::format("process {} of {}: ", place().rank, place().count);
    store_->compareSet(kFailed, {}, bytes_of(whose + message));
    known = true;
    wait_until(kUntilTold, [&] { return store_->add(kTold, 0) >= place().count; });
  } catch (const c10::Error&) {
    // Where the first has gone before, this is why the work here failed; else it has gone since it knows.
    if (!known && !first()) lost_(without_first());
  }
}

std::string TorchProcesses::without_first() const {
  if (!speaks_without_first()) return "";
  return fmt::format("process 0 of {} is lost, and the store with it: {}", place().count, remedy_);
}

at::Tensor TorchProcesses::part(const at::Tensor& flat) const {
  const std::int64_t size = flat.numel() / place().count;
  return flat.narrow(0, place().rank * size, size);
}

void TorchProcesses::begin_sum(const at::Tensor& flat) {
  at::Tensor whole = flat;
  at::Tensor mine = part(flat);
  begun_.push_back(backend_->_reduce_scatter_base(mine, whole));
}

void TorchProcesses::begin_share(const at::Tensor& flat) {
  at::Tensor whole = flat;
  at::Tensor mine = part(flat);
  begun_.push_back(backend_->_allgather_base(whole, mine));
}

void TorchProcesses::finish() {
  for (const auto& work : begun_) work->wait();
  begun_.clear();
}

void TorchProcesses::add_up(at::Tensor& values) {
  std::vector<at::Tensor> tensors = {values};
  backend_->allreduce(tensors)->wait();
}

void TorchProcesses::send(at::Tensor& values, int rank) {
  std::vector<at::Tensor> tensors = {values};
  c10d::BroadcastOptions options;
  options.rootRank = rank;
  backend_->broadcast(tensors, options)->wait();
}

void TorchProcesses::add_up(std::span<double> values) {
  const at::Tensor host =
      at::from_blob(values.data(), {static_cast<std::int64_t>(values.size())}, at::TensorOptions(at::kDouble));
  with_device_errors(device(), "exchanging numbers with other processes", "use a smaller model", [&] {
    const c10::Device place = torch_device(device());
    const CurrentDevice current(place);
    at::Tensor all = host.to(place);
    add_up(all);
    host.copy_(all);
  });
}

std::vector<std::string> TorchProcesses::gather(const std::string& text) {
  const auto name = [](std::int64_t number, int rank) { return fmt::format("gather/{}/{}", number, rank); };
  return in_store([&] {
    std::vector<std::string> all;
    all.reserve(static_cast<std::size_t>(place().count));
    store_->set(name(gathered_, place().rank), bytes_of(text));
    for (int rank = 0; rank < place().count; ++rank) all.push_back(text_of(store_->get(name(gathered_, rank))));
    // Who has given this time has read all of the last.
    if (gathered_ > 0) store_->deleteKey(name(gathered_ - 1, place().rank));
    ++gathered_;
    return all;
  });
}

std::int64_t TorchProcesses::next_number(const std::string& name) {
  return in_store([&] { return store_->add("number/" + name, 1) - 1; });
}

void TorchProcesses::post(const std::string& text) {
  in_store([&] { store_->set(fmt::format("post/{}", store_->add(kPosted, 1) - 1), bytes_of(text)); });
}

std::optional<std::string> TorchProcesses::collect() {
  return in_store([&]() -> std::optional<std::string> {
    if (store_->add(kPosted, 0) == collected_) return std::nullopt;
    const std::string name = fmt::format("post/{}", collected_);
    std::string text = text_of(store_->get(name));
    store_->deleteKey(name);
    ++collected_;
    return text;
  });
}

std::unique_ptr<Processes> join_processes(const ProcessPlace& place, const Device& device, const std::string& remedy,
                                          WorkLost lost) {
  return std::make_unique<TorchProcesses>(place, device, remedy, std::move(lost));
}

}  // namespace foxscope
