// Opens any bytes as a run file and reads every number in it. The only way to fail is an Error.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <string>

#include "backend/base/error.h"
#include "backend/file/run_file.h"

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
  static const int descriptor = memfd_create("run.h5", MFD_CLOEXEC);
  static const std::string path = "/proc/self/fd/" + std::to_string(descriptor);
  if (ftruncate(descriptor, 0) != 0 || pwrite(descriptor, data, size, 0) != static_cast<ssize_t>(size)) std::abort();
  try {
    const foxscope::RunFile run = foxscope::RunFile::open(path);
    for (const auto& trace : run.traces) read_trace(*trace);
  } catch (const foxscope::Error&) {
    // What a user would be told.
  }
  return 0;
}
