#include "backend/model/training/life_signs.h"

#include "backend/base/index.h"

namespace foxscope {

LifeSigns::LifeSigns(int processes, Time now) : signs_(static_cast<std::size_t>(processes), {0, now}), looked_(now) {}

void LifeSigns::look(Time now) {
  if (now - looked_ > kLongestSilence / 2) {
    for (Sign& sign : signs_) sign.seen = now;
  }
  looked_ = now;
}

bool LifeSigns::is_lost(int process, std::int64_t count, Time now) {
  Sign& sign = signs_[index_of(process)];
  if (count != sign.count) sign = {count, now};
  return now - sign.seen >= kLongestSilence;
}

}  // namespace foxscope
