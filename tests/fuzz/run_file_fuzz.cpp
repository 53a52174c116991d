// Opens any bytes as a run file and reads every number in it. The only way to fail is an Error.
#include <cstdint>
#include <vector>

#include "backend/base/error.h"
#include "backend/file/run_file.h"
#include "tests/fuzz/memory_file.h"

namespace {

void read_trace(const foxscope::Trace& trace) {
  const std::int64_t length = trace.info().length;
  std::vector<float> scratch;
  for (const foxscope::ArraySpec& spec : foxscope::kTraceArrays) {
    const foxscope::QueryKeyStore* const store = trace.store_of(spec.array);
    for (int index = 0; index < foxscope::count_of(spec, trace.info().layers); ++index) {
      static_cast<void>(trace.source().read(spec.array, index));
      for (int head = 0; store != nullptr && head < store->heads(spec.array, index); ++head) {
        static_cast<void>(store->rows(spec.array, index, head, length / 2, length, scratch));
      }
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static MemoryFile file;
  file.fill(data, size);
  try {
    const foxscope::RunFile run = foxscope::RunFile::open(file.path());
    for (const auto& trace : run.traces) read_trace(*trace);
  } catch (const foxscope::Error&) {
    // What a user would be told.
  }
  return 0;
}
