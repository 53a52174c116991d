// Opens any bytes as a file of an evaluation: FOXSCOPE_FUZZ_READER is LossEvaluation, HeadsEvaluation,
// NeedleEvaluation or SweepEvaluation.
#include <cstdint>

#include "backend/base/error.h"
#include "backend/eval/heads/heads_file.h"
#include "backend/eval/loss/loss_file.h"
#include "backend/eval/needle/needle_file.h"
#include "backend/eval/sweep/sweep_file.h"
#include "tests/fuzz/memory_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static MemoryFile file;
  file.fill(data, size);
  try {
    static_cast<void>(foxscope::FOXSCOPE_FUZZ_READER::open(file.path()));
  } catch (const foxscope::Error&) {
    // What a user would be told.
  }
  return 0;
}
