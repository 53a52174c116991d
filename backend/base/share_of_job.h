#pragma once

#include <cstdint>

#include "backend/base/job.h"

namespace foxscope {

/// The job of one share of longer work: the progress that it reports counts as its part of the whole.
/// @param job     of the whole, which must outlive the returned job
/// @param before  the progress when the share begins
/// @param share   the size of the share, in before.unit
inline Job share_of_job(const Job& job, const Progress& before, std::int64_t share) {
  Job part = job;
  part.report = [&job, before, share](const Progress& inside) {
    Progress now = before;
    if (inside.total > 0) now.done += share * inside.done / inside.total;
    job.tell(now);
  };
  return part;
}

}  // namespace foxscope
