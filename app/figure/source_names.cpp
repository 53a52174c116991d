#include "app/figure/source_names.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <set>

#include <fmt/format.h>

#include "backend/base/error.h"

namespace foxscope::figure {
namespace {

// The last parts of a path, so many, without the ending: "there/run".
std::string lastParts(const std::string& file, std::ptrdiff_t count) {
  const std::filesystem::path path = std::filesystem::path(file).lexically_normal().replace_extension();
  const std::vector<std::filesystem::path> parts(path.begin(), path.end());
  std::filesystem::path last;
  for (auto part = parts.end() - std::min(count, std::ssize(parts)); part != parts.end(); ++part) last /= *part;
  return last.generic_string();
}

}  // namespace

std::string nameInFile(const std::string& given, const std::string& own, std::size_t models) {
  if (given.empty()) return own;
  return models == 1 ? given : given + ':' + own;
}

std::vector<std::string> namesToldApart(std::span<const SourceName> models) {
  std::vector<std::string> names;
  for (const SourceName& model : models) names.push_back(model.name);
  std::vector<std::size_t> alike;
  for (std::size_t n = 0; n < names.size(); ++n) {
    if (std::ranges::count(names, names[n]) > 1) alike.push_back(n);
  }
  constexpr std::ptrdiff_t kMostParts = 64;
  for (std::ptrdiff_t parts = 1; parts <= kMostParts; ++parts) {
    for (const std::size_t n : alike) {
      names[n] = lastParts(models[n].file, parts) + (models[n].alone ? "" : ":" + models[n].own);
    }
    if (std::set<std::string>(names.begin(), names.end()).size() == names.size()) return names;
  }
  for (const SourceName& model : models) {
    if (std::ranges::count(models, model.name, &SourceName::name) < 2) continue;
    throw UsageError(fmt::format("{}: this name stands for two models: name the files, as in {}-2={}", model.name,
                                 model.own, model.file));
  }
  return names;
}

}  // namespace foxscope::figure
