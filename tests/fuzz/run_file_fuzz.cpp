// Opens any bytes as a run file and reads every number in it, and holds them against the schema. The only way to fail
// is an Error, and what readers refuse breaks the schema.
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "backend/base/error.h"
#include "backend/file/run_file.h"
#include "backend/file/schema_check.h"
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
  bool opens = false;
  try {
    const foxscope::RunFile run = foxscope::RunFile::open(file.path());
    opens = true;
    for (const auto& trace : run.traces) read_trace(*trace);
  } catch (const foxscope::Error&) {
    // What a user would be told.
  }
  try {
    const bool broken = foxscope::check_schema(file.path(), {})->broken > 0;
    if (!opens && !broken) std::abort();
  } catch (const foxscope::Error&) {
    if (opens) std::abort();
  }
  return 0;
}
