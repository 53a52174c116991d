#include "backend/model/forward_library.h"

#include <dlfcn.h>

#include <filesystem>
#include <string>

#include <fmt/format.h>

#include "backend/base/error.h"
#include "backend/base/log.h"

namespace foxscope {
namespace {

/// The folder of the library that this code is in; the others lie beside it.
std::filesystem::path library_folder() {
  Dl_info info = {};
  if (dladdr(reinterpret_cast<const void*>(&forward_library), &info) == 0 || info.dli_fname == nullptr) return {};
  return std::filesystem::path(info.dli_fname).parent_path();
}

const ForwardLibrary& load_forward_library() {
  const std::filesystem::path path = library_folder() / "libfoxscope_forward.so";
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  using Entry = const ForwardLibrary* (*)();
  const auto entry = library == nullptr ? nullptr : reinterpret_cast<Entry>(dlsym(library, "foxscope_forward_library"));
  if (entry == nullptr) {
    const char* const reason = dlerror();
    throw Error(fmt::format(
        "models cannot be run here: {}: they need LibTorch 2.11: ./dev setup and ./dev build in a checkout, "
        "pip install 'foxscope[torch]' beside a wheel; run files are read and drawn without it",
        reason == nullptr ? path.string() : std::string(reason)));
  }
  log_line(LogCategory::model, [&] { return fmt::format("loaded {}", path.string()); });
  return *entry();
}

}  // namespace

const ForwardLibrary& forward_library() {
  static const ForwardLibrary& library = load_forward_library();
  return library;
}

}  // namespace foxscope
