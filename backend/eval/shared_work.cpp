#include "backend/eval/shared_work.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include <fmt/format.h>

namespace foxscope {
namespace {

/// The header before what another process has made.
struct MadeHead {
  std::uint32_t model = 0;
  std::uint32_t part = 0;
};

}  // namespace

std::size_t SharedPieces::least(std::size_t mine) const {
  if (processes_ == nullptr) return mine;
  for (const std::string& words : processes_->gather(std::to_string(mine))) {
    mine = std::min<std::size_t>(mine, std::stoull(words));
  }
  return mine;
}

std::size_t SharedPieces::next(std::uint32_t list) {
  if (processes_ != nullptr) return static_cast<std::size_t>(processes_->next_number(fmt::format("piece/{}", list)));
  if (std::exchange(list_, list) != list) begun_ = 0;
  return begun_++;
}

void SharedPieces::post(std::uint32_t model, std::uint32_t part, std::span<const std::byte> made) const {
  const MadeHead head{model, part};
  std::string text(sizeof(head) + made.size(), '\0');
  std::memcpy(text.data(), &head, sizeof(head));
  std::memcpy(text.data() + sizeof(head), made.data(), made.size());
  processes_->post(text);
}

bool SharedPieces::collect(const std::function<bool()>& whole, const Take& take, const Job& job) const {
  if (processes_ == nullptr || !first()) return true;
  constexpr std::chrono::milliseconds kPause(20);
  while (!whole()) {
    if (job.stopped()) return false;
    bool any = false;
    for (auto made = processes_->collect(); made; made = processes_->collect()) {
      MadeHead head;
      std::memcpy(&head, made->data(), sizeof(head));
      take(head.model, head.part, std::as_bytes(std::span(*made)).subspan(sizeof(head)));
      any = true;
    }
    if (!any) std::this_thread::sleep_for(kPause);
  }
  return true;
}

SharedWork::SharedWork(Processes* processes, const Place& place, LossPartial::Found take, Together together)
    : SharedPieces(processes), take_(std::move(take)), together_(std::move(together)) {
  if (first()) partial_.emplace(place.output, place.fingerprint, place.start_anew, take_, place.note);
}

std::optional<std::filesystem::path> SharedWork::kept() const {
  return partial_ ? std::optional(partial_->path()) : std::nullopt;
}

void SharedWork::agree_on(std::vector<bool>& done) const {
  if (processes() == nullptr) return;
  std::string words;
  for (const bool piece : done) words += piece ? '1' : '0';
  words = processes()->gather(words).front();
  for (std::size_t piece = 0; piece < done.size(); ++piece) done[piece] = words[piece] == '1';
}

void SharedWork::add(std::uint32_t model, std::uint32_t row, std::span<const float> numbers) {
  if (!first()) return post(model, row, std::as_bytes(numbers));
  take_(model, row, numbers);
  partial_->append(model, row, numbers);
  if (together_) partial_->put_together(together_);
}

bool SharedWork::collect(const std::function<bool()>& whole, const Job& job) {
  const auto take = [this](std::uint32_t model, std::uint32_t row, std::span<const std::byte> made) {
    std::vector<float> numbers(made.size() / sizeof(float));
    std::memcpy(numbers.data(), made.data(), made.size());
    add(model, row, numbers);
  };
  return SharedPieces::collect(whole, take, job);
}

}  // namespace foxscope
