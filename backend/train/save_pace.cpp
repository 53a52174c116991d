#include "backend/train/save_pace.h"

#include <algorithm>

namespace foxscope {
namespace {

constexpr double kBytesPerSecond = 2e8;  // of a slow disk

}  // namespace

SavePace::SavePace(std::int64_t bytes, Clock::time_point now)
    : last_(now), taken_(static_cast<double>(bytes) / kBytesPerSecond) {}

void SavePace::saved(Clock::time_point now, Seconds taken) {
  last_ = now;
  taken_ = taken;
}

SavePace::Seconds SavePace::interval() const { return std::clamp<Seconds>(taken_ / kShare, kLeast, kMost); }

}  // namespace foxscope
