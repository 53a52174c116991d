#include "backend/model/training/processes_torch.h"

#include <chrono>
#include <condition_variable>

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "backend/base/error.h"
#include "backend/model/training/life_signs.h"
#include "backend/model/training/nccl_backend_torch.h"
#include "backend/model/training/store_backend_torch.h"
#include "backend/model/weights/current_device_torch.h"
#include "backend/model/weights/device_errors_torch.h"

namespace foxscope {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kBetweenSigns(2);
constexpr std::chrono::seconds kFarewell(60);  // of who hosts the store, until the others have left
constexpr std::chrono::seconds kUntilTold(5);  // of who fails, until the others know

/// Bytes that go to the store at once. While it takes a value it answers nobody, and a large one takes it longer than a
/// sign of life may be late.
constexpr std::size_t kPostedPiece = std::size_t{1} << 20U;

const std::string kFailed = "failed";
const std::string kTold = "told";
const std::string kPosted = "posted";

std::vector<std::uint8_t> bytes_of(const std::string& text) { return {text.begin(), text.end()}; }
std::string text_of(const std::vector<std::uint8_t>& bytes) { return {bytes.begin(), bytes.end()}; }

/// Describes what decides how tensors are exchanged.
std::string described(const ProcessEvents& events, const Device& device) {
  return fmt::format("{}\nan exchange between {}", events.program, device.cuda ? "GPUs" : "CPUs");
}

}  // namespace

TorchProcesses::TorchProcesses(const DistributedConfig& distributed, const Device& device, const ProcessEvents& events)
    : Processes(distributed, device),
      remedy_(events.remedy),
      lost_(events.lost),
      rendezvous_(distributed, described(events, device), events.waiting),
      store_(rendezvous_.store()),
      watched_(rendezvous_.second_store()) {
  try {
    backend_ = device.cuda ? make_nccl_backend(store_, distributed) : make_store_backend(store_, distributed);
  } catch (const c10::Error& error) {
    throw Error(fmt::format("{}: NCCL does not begin: {}", device.name(), first_line(error.what_without_backtrace())));
  }
  watch_ = std::jthread([this](const std::stop_token& stop) { watch(stop); });
}

TorchProcesses::~TorchProcesses() {
  watch_.request_stop();
  watch_.join();
  try {
    store_->add(key("left", distributed().rank), 1);
    if (!distributed().hosts_store) return;
    wait_until(kFarewell, [&] {
      for (int rank = 0; rank < distributed().world_size; ++rank) {
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
  return in_store_of(distributed(), action);
}

/// The first watches all others, and they it.
void TorchProcesses::watch(const std::stop_token& stop) {
  LifeSigns signs(distributed().world_size, Clock::now());
  std::condition_variable_any wake;
  const auto end_with = [&](const std::string& message) {
    const std::lock_guard lock(mutex_);
    if (failing_ || stop.stop_requested()) return;
    try {
      watched_->add(key("left", distributed().rank), 1);  // who keeps the store need not wait
    } catch (const c10::Error&) {
      // The store is gone with its last keeper.
    }
    lost_(message);
  };
  while (!stop.stop_requested()) {
    try {
      watched_->add(key("sign", distributed().rank), 1);
      if (watched_->check({kFailed})) {
        const std::string message = text_of(watched_->get(kFailed));
        watched_->add(kTold, 1);
        // The store goes with who hosts it.
        if (distributed().hosts_store)
          wait_until(kUntilTold, [&] { return watched_->add(kTold, 0) >= distributed().world_size; });
        end_with(first() ? message : "");
        return;
      }
      if (first()) rendezvous_.answer_latecomers();
      signs.look(Clock::now());
      const int last = first() ? distributed().world_size - 1 : 0;
      for (int rank = first() ? 1 : 0; rank <= last; ++rank) {
        const std::int64_t count = watched_->add(key("sign", rank), 0);
        if (!signs.is_lost(rank, count, Clock::now()) || watched_->add(key("left", rank), 0) > 0) continue;
        const std::string message = fmt::format("process {} of {} is lost, it gave no sign of life for {} s: {}", rank,
                                                distributed().world_size, LifeSigns::kLongestSilence.count(), remedy_);
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
    const std::string whose =
        first() ? "" : fmt::format("process {} of {}: ", distributed().rank, distributed().world_size);
    store_->compareSet(kFailed, {}, bytes_of(whose + message));
    known = true;
    wait_until(kUntilTold, [&] { return store_->add(kTold, 0) >= distributed().world_size; });
  } catch (const c10::Error&) {
    // Where the first has gone before, this is why the work here failed; else it has gone since it knows.
    if (!known && !first()) lost_(without_first());
  }
}

std::string TorchProcesses::without_first() const {
  if (!speaks_without_first()) return "";
  return fmt::format("process 0 of {} is lost, and the store with it: {}", distributed().world_size, remedy_);
}

at::Tensor TorchProcesses::part(const at::Tensor& flat) const {
  const std::int64_t size = flat.numel() / distributed().world_size;
  return flat.narrow(0, distributed().rank * size, size);
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

void TorchProcesses::require_same_numbers(const at::Tensor& flat, const std::string& what) {
  const auto bits = at::sum(flat.view(at::kInt), at::kLong).item<std::int64_t>();
  require_same(this, fmt::format("{} of {} numbers, whose bits add up to {}", what, flat.numel(), bits));
}

void TorchProcesses::add_up(std::span<double> values) {
  const at::Tensor host =
      at::from_blob(values.data(), {static_cast<std::int64_t>(values.size())}, at::TensorOptions(at::kDouble));
  with_device_errors(device(), "exchanging numbers with other processes", "use a smaller model", [&] {
    const c10::Device target = torch_device(device());
    const CurrentDevice current(target);
    at::Tensor all = host.to(target);
    add_up(all);
    host.copy_(all);
  });
}

std::vector<std::string> TorchProcesses::gather(const std::string& text) {
  const auto name = [](std::int64_t number, int rank) { return fmt::format("gather/{}/{}", number, rank); };
  return in_store([&] {
    std::vector<std::string> all;
    all.reserve(static_cast<std::size_t>(distributed().world_size));
    store_->set(name(gathered_, distributed().rank), bytes_of(text));
    for (int rank = 0; rank < distributed().world_size; ++rank)
      all.push_back(text_of(store_->get(name(gathered_, rank))));
    // A process that has given this time has read all of the last.
    if (gathered_ > 0) store_->deleteKey(name(gathered_ - 1, distributed().rank));
    ++gathered_;
    return all;
  });
}

std::int64_t TorchProcesses::next_number(const std::string& name) {
  return in_store([&] { return store_->add("number/" + name, 1) - 1; });
}

void TorchProcesses::post(const std::string& text) {
  in_store([&] {
    const std::string name = fmt::format("piece/{}/{}", distributed().rank, posted_++);
    const std::size_t pieces = (text.size() + kPostedPiece - 1) / kPostedPiece;
    for (std::size_t n = 0; n < pieces; ++n) {
      store_->set(fmt::format("{}/{}", name, n), bytes_of(text.substr(n * kPostedPiece, kPostedPiece)));
    }
    store_->set(fmt::format("post/{}", store_->add(kPosted, 1) - 1), bytes_of(fmt::format("{} {}", pieces, name)));
  });
}

std::optional<std::string> TorchProcesses::collect() {
  return in_store([&]() -> std::optional<std::string> {
    if (store_->add(kPosted, 0) == collected_) return std::nullopt;
    const std::string post = fmt::format("post/{}", collected_);
    const std::string told = text_of(store_->get(post));
    const std::size_t blank = told.find(' ');
    std::string text;
    for (std::size_t n = 0, pieces = std::stoull(told.substr(0, blank)); n < pieces; ++n) {
      const std::string name = fmt::format("{}/{}", told.substr(blank + 1), n);
      text += text_of(store_->get(name));
      store_->deleteKey(name);
    }
    store_->deleteKey(post);
    ++collected_;
    return text;
  });
}

std::unique_ptr<Processes> join_processes(const DistributedConfig& distributed, const Device& device,
                                          const ProcessEvents& events) {
  return std::make_unique<TorchProcesses>(distributed, device, events);
}

}  // namespace foxscope
