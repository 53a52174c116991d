#include "backend/eval/shared_work.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include <fmt/format.h>

namespace foxscope {
namespace {

/// Before the numbers of a row that another process gives.
struct RowHead {
  std::uint32_t model = 0;
  std::uint32_t row = 0;
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

bool SharedPieces::collect(const std::function<bool()>& whole, const std::function<void(const std::string& made)>& take,
                           const Job& job) const {
  if (processes_ == nullptr || !first()) return true;
  constexpr std::chrono::milliseconds kPause(20);
  while (!whole()) {
    if (job.stopped()) return false;
    bool any = false;
    for (auto made = processes_->collect(); made; made = processes_->collect()) {
      take(*made);
      any = true;
    }
    if (!any) std::this_thread::sleep_for(kPause);
  }
  return true;
}

SharedWork::SharedWork(Processes* processes, const Place& place, LossPartial::Found take)
    : SharedPieces(processes), take_(std::move(take)) {
  if (first()) partial_.emplace(place.output, place.fingerprint, place.start_anew, take_);
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
  if (first()) {
    take_(model, row, numbers);
    partial_->append(model, row, numbers);
    return;
  }
  const RowHead head{model, row};
  std::string text(sizeof(head) + numbers.size_bytes(), '\0');
  std::memcpy(text.data(), &head, sizeof(head));
  std::memcpy(text.data() + sizeof(head), numbers.data(), numbers.size_bytes());
  post(text);
}

bool SharedWork::collect(const std::function<bool()>& whole, const Job& job) {
  const auto take = [this](const std::string& text) {
    RowHead head;
    std::memcpy(&head, text.data(), sizeof(head));
    std::vector<float> numbers((text.size() - sizeof(head)) / sizeof(float));
    std::memcpy(numbers.data(), text.data() + sizeof(head), numbers.size() * sizeof(float));
    add(head.model, head.row, numbers);
  };
  return SharedPieces::collect(whole, take, job);
}

}  // namespace foxscope
