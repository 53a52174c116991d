// Opens any bytes as a run file and reads every number in it. The only way to fail is an Error.
#include <cstdint>
#include <vector>

#include "backend/base/error.h"
#include "backend/file/run_file.h"
#include "tests/fuzz/memory_file.h"

namespace {

using Part = foxscope::QueryKeyStore::Part;

void read_trace(const foxscope::Trace& trace) {
  const foxscope::TraceInfo& info = trace.info();
  std::vector<float> scratch;
  static_cast<void>(trace.source().logits());
  for (int layer = 0; layer < info.layers; ++layer) {
    static_cast<void>(trace.source().rows(layer));
    static_cast<void>(trace.source().hidden_states(layer));
    if (trace.query_key() == nullptr) continue;
    for (int head = 0; head < info.heads; ++head) {
      static_cast<void>(trace.query_key()->rows(Part::query, layer, head, 0, info.length, scratch));
      const int key_head = head / (info.heads / info.key_heads);
      static_cast<void>(trace.query_key()->rows(Part::key, layer, key_head, info.length / 2, info.length, scratch));
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
