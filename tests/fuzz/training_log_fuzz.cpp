// Any bytes as a log of a training, FOXSCOPE_FUZZ_LOG: log.jsonl or evaluation.jsonl. Read at once or in two parts, as
// a window reads a log that grows, it is the same, or refused both times.
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string_view>

#include "backend/base/error.h"
#include "backend/train/training_record.h"
#include "tests/fuzz/fuzz_folder.h"

namespace {

using foxscope::TrainingReader;
using foxscope::TrainingRecord;

/// Null where it is refused.
std::shared_ptr<const TrainingRecord> read(TrainingReader& reader) {
  try {
    return reader.read();
  } catch (const foxscope::Error&) {
    return nullptr;
  }
}

bool is_same(const TrainingRecord& a, const TrainingRecord& b) {
  if (a.steps.size() != b.steps.size() || a.measures.size() != b.measures.size()) return false;
  for (std::size_t n = 0; n < a.steps.size(); ++n) {
    if (a.steps[n].step != b.steps[n].step || a.steps[n].loss != b.steps[n].loss) return false;
  }
  for (std::size_t n = 0; n < a.measures.size(); ++n) {
    if (a.measures[n].tokens != b.measures[n].tokens || a.measures[n].decay_times != b.measures[n].decay_times) {
      return false;
    }
  }
  return a.layers() == b.layers() && a.heads() == b.heads();
}

void check(const TrainingRecord& record) {
  if (record.steps.empty()) std::abort();
  for (const foxscope::TrainingStep& step : record.steps) {
    if (step.step < 1 || step.tokens < 1) std::abort();
  }
  for (const foxscope::TrainingMeasures& line : record.measures) {
    if (line.decay_times.size() > foxscope::kMostLoggedHeads) std::abort();
    if (!line.held_out.loss.empty() && line.held_out.edges.size() != line.held_out.loss.size() + 1) std::abort();
  }
  static_cast<void>(foxscope::smoothed_losses(record.steps, 9));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const FuzzFolder folder(FOXSCOPE_FUZZ_LOG);
  static const bool made = [] {
    std::filesystem::create_directories(folder.path() / "checkpoints/step-000002");
    folder.write("recipe.json", "{}");
    folder.write("log.jsonl", "{\"step\":2,\"tokens\":64,\"loss\":2.5,\"grad_norm\":1,\"lr\":0.1}\n");
    return true;
  }();
  static_cast<void>(made);
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  TrainingReader in_parts(folder.path());
  folder.write(FOXSCOPE_FUZZ_LOG, bytes.substr(0, size / 2));
  static_cast<void>(read(in_parts));
  folder.write(FOXSCOPE_FUZZ_LOG, bytes);
  TrainingReader at_once(folder.path());
  const auto whole = read(at_once);
  const auto parts = read(in_parts);
  if ((whole == nullptr) != (parts == nullptr)) std::abort();
  if (whole == nullptr) return 0;
  check(*whole);
  if (!is_same(*whole, *parts)) std::abort();
  return 0;
}
