#include "app/cli/model_names.h"

#include <filesystem>
#include <set>

#include <fmt/format.h>

#include "backend/base/error.h"

namespace foxscope::cli {
namespace {

// The last part of a path or hub id, "." and trailing slashes resolved.
std::string lastPart(const std::string& path) {
  const auto normal = std::filesystem::absolute(path).lexically_normal();
  return normal.has_filename() ? normal.filename().string() : normal.parent_path().filename().string();
}

NamedModel parseModel(const std::string& argument) {
  const std::size_t equals = argument.find('=');
  const bool named = equals != std::string::npos && argument.find('/') > equals;
  NamedModel model{named ? argument.substr(0, equals) : "", named ? argument.substr(equals + 1) : argument};
  if (model.path.empty()) {
    throw UsageError(fmt::format("--model {}: the folder is missing: write --model NAME=DIR", argument));
  }
  if (!named) model.name = lastPart(model.path);
  if (!isModelName(model.name)) {
    throw UsageError(
        fmt::format("--model {}: \"{}\" is not a name of letters, digits, '.', '_' and '-': write --model NAME=DIR",
                    argument, model.name));
  }
  return model;
}

}  // namespace

bool isModelName(const std::string& text) {
  constexpr const char* kAllowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
  return !text.empty() && text != "." && text != ".." && text.find_first_not_of(kAllowed) == std::string::npos;
}

std::vector<NamedModel> parseModels(std::span<const std::string> arguments) {
  std::vector<NamedModel> models;
  std::set<std::string> names;
  for (const std::string& argument : arguments) {
    models.push_back(parseModel(argument));
    if (!names.insert(models.back().name).second) {
      throw UsageError(fmt::format("--model {0}: two models are named {1}: name them, as in --model {1}-2={2}",
                                   argument, models.back().name, models.back().path));
    }
  }
  return models;
}

}  // namespace foxscope::cli
