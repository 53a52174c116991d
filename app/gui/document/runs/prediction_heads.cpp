#include "app/gui/document/runs/prediction_heads.h"

#include <algorithm>
#include <optional>

#include "backend/base/error.h"

namespace foxscope::gui {
namespace {

constexpr std::size_t kHeadsKept = 4;

}  // namespace

std::shared_ptr<const OutputHead> PredictionHeads::find(const Trace& run, const std::vector<std::string>& models,
                                                        const Job& job) {
  const std::string key = run.info().weights_sha256 + to_string(run.info().dtype);
  {
    const std::scoped_lock lock(m_mutex);
    const auto known = std::ranges::find(m_known, key, &Known::key);
    if (known != m_known.end()) {
      m_known.splice(m_known.begin(), m_known, known);
      return known->head;
    }
  }
  ModelRequest wanted;
  wanted.device = DeviceChoice::parse("cpu");
  for (const std::string& model : models) {
    try {
      wanted.model = model;
      const OpenedModel opened = m_engine.open(wanted);
      if (!has_made(opened, run, job).value_or(false)) continue;
      const std::scoped_lock lock(m_mutex);
      m_known.push_front({key, std::make_shared<const OutputHead>(opened, run.info().dtype)});
      if (m_known.size() > kHeadsKept) m_known.pop_back();
      return m_known.front().head;
    } catch (const Error&) {
      continue;
    }
  }
  return nullptr;
}

}  // namespace foxscope::gui
