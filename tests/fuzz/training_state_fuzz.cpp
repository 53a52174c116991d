// Any bytes as the training.json of a checkpoint.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "backend/base/error.h"
#include "backend/train/training_folder.h"
#include "tests/fuzz/fuzz_folder.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const FuzzFolder folder("training-state");
  folder.write("training.json", {reinterpret_cast<const char*>(data), size});
  try {
    const foxscope::TrainingState state = foxscope::read_training_state(folder.path());
    if (state.step < 0 || state.tokens < 0) std::abort();
  } catch (const foxscope::Error&) {
    // What a user would be told.
  }
  return 0;
}
