#include "backend/base/log.h"

#include <atomic>
#include <cassert>
#include <mutex>
#include <string>
#include <utility>

namespace foxscope {
namespace {

/// The one reader that a process may have.
struct Reader {
  std::atomic<bool> there = false;
  std::mutex mutex;
  std::function<void(std::string_view line)> read;
};

Reader& reader() {
  static Reader only;
  return only;
}

}  // namespace

const char* to_string(LogCategory category) {
  switch (category) {
    case LogCategory::file:
      return "file";
    case LogCategory::text:
      return "text";
    case LogCategory::model:
      return "model";
    case LogCategory::map:
      return "map";
    case LogCategory::eval:
      return "eval";
    case LogCategory::window:
      break;
  }
  return "window";
}

bool logging() { return reader().there.load(std::memory_order_relaxed); }

void write_log(LogCategory category, std::string_view line) {
  std::string whole = "[";
  whole.append(to_string(category)).append("] ").append(line);
  Reader& only = reader();
  const std::lock_guard lock(only.mutex);
  if (only.read) only.read(whole);
}

LogReader::LogReader(std::function<void(std::string_view line)> read) {
  assert(read);
  const std::lock_guard lock(reader().mutex);
  assert(!reader().read && "somebody reads along already");
  reader().read = std::move(read);
  reader().there = true;
}

LogReader::~LogReader() {
  const std::lock_guard lock(reader().mutex);
  reader().there = false;
  reader().read = nullptr;
}

}  // namespace foxscope
