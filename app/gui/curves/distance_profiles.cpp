#include "app/gui/curves/distance_profiles.h"

#include <limits>

#include "app/gui/document/head_table.h"

namespace foxscope::gui::curves {

DistanceProfiles::DistanceProfiles(RunList& runs, QObject* parent) : QObject(parent), m_runs(runs) {
  connect(&m_runs, &RunList::runsChanged, this, [this] {
    std::erase_if(m_entries, [&](const auto& entry) { return m_runs.run(std::get<0>(entry.first)) == nullptr; });
  });
}

void DistanceProfiles::want(const HeadChoice& head, Priority priority) {
  const Run* run = m_runs.run(head.run);
  if (run == nullptr) return;
  const auto before = m_entries.find(keyOf(head));
  // A head that waits in the background is asked for again where it is to be seen at once.
  const bool sooner = before != m_entries.end() && !before->second.measures && before->second.failure.isEmpty() &&
                      priority == Priority::interactive && before->second.priority == Priority::background;
  if (before != m_entries.end() && !sooner) return;
  m_entries[keyOf(head)].priority = priority;
  JobRunner::Request<HeadMeasures> request;
  request.priority = priority;
  request.work = [of = HeadOf{run->trace, head.layer, head.head}](const Job& job) {
    MeasureOptions options;
    options.statistics = {.with_attention = of.trace->has_attention(of.layer), .events = 0};
    options.with_split = true;
    return measure_head(of, options, job);
  };
  request.done = [this, head](HeadMeasures measures) {
    m_entries[keyOf(head)].measures = std::move(measures);
    emit changed();
  };
  request.failed = [this, head](const QString& message) {
    m_entries[keyOf(head)].failure = message;
    emit changed();
  };
  m_runs.jobs().submit(this, headChannel(head, run->trace->info()), std::move(request));
}

const HeadMeasures* DistanceProfiles::of(const HeadChoice& head) const {
  const auto found = m_entries.find(keyOf(head));
  return found == m_entries.end() || !found->second.measures ? nullptr : &*found->second.measures;
}

QString DistanceProfiles::failure(const HeadChoice& head) const {
  const auto found = m_entries.find(keyOf(head));
  return found == m_entries.end() ? QString() : found->second.failure;
}

std::optional<HeadChoice> DistanceProfiles::nearest(const HeadChoice& head, RunId other) const {
  const HeadMeasures* own = of(head);
  if (own == nullptr || !own->sketch) return std::nullopt;
  std::optional<HeadChoice> nearest;
  double least = std::numeric_limits<double>::infinity();
  for (const auto& [key, entry] : m_entries) {
    if (std::get<0>(key) != other || !entry.measures || !entry.measures->sketch) continue;
    const double octaves = octaves_apart(*own->sketch, *entry.measures->sketch);
    if (!(octaves < least)) continue;
    least = octaves;
    nearest = HeadChoice{other, std::get<1>(key), std::get<2>(key)};
  }
  return nearest;
}

}  // namespace foxscope::gui::curves
