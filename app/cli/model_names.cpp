#include "app/cli/model_names.h"

#include <set>

#include <fmt/format.h>

#include "backend/base/command_line.h"
#include "backend/base/error.h"
#include "backend/model/checkpoint.h"

namespace foxscope::cli {
namespace {

// The name is empty where none is given, as in `DIR` and in `=DIR`.
NamedModel split(const std::string& argument) {
  const std::size_t equals = argument.find('=');
  const bool named = equals != std::string::npos && argument.find('/') > equals;
  return {named ? argument.substr(0, equals) : "", named ? argument.substr(equals + 1) : argument};
}

NamedModel parseModel(const std::string& argument) {
  NamedModel model = split(argument);
  const bool named = model.path.size() < argument.size();
  if (model.path.empty()) {
    throw UsageError(fmt::format("--model {}: the folder is missing: write --model NAME=DIR", argument));
  }
  if (!named) model.name = without_folder(model.path);
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

std::string modelWithoutFolder(const std::string& argument) {
  const NamedModel model = split(argument);
  const std::string place = is_hub_id(model.path) ? model.path : without_folder(model.path);
  if (model.path.size() < argument.size()) return model.name + '=' + place;
  const bool ambiguous = place.starts_with('-') || place.find('=') != std::string::npos;
  return place != argument && ambiguous ? "./" + place : place;
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
