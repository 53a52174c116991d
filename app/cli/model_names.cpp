#include "app/cli/model_names.h"

#include <filesystem>
#include <set>
#include <system_error>

#include <fmt/format.h>

#include "backend/agent/remote_path.h"
#include "backend/base/command_line.h"
#include "backend/base/error.h"
#include "backend/model/weights/hub_cache.h"

namespace foxscope::cli {
namespace {

// The name is empty where none is given, as in `DIR` and in `=DIR`.
NamedModel splitName(const std::string& argument) {
  const std::size_t equals = argument.find('=');
  const bool named = equals != std::string::npos && argument.find('/') > equals;
  return {named ? argument.substr(0, equals) : "", named ? argument.substr(equals + 1) : argument};
}

NamedModel parseModel(const std::string& argument, const std::string& option) {
  NamedModel model = splitName(argument);
  const bool named = model.path.size() < argument.size();
  if (model.path.empty()) {
    throw UsageError(fmt::format("{0}{1}: the folder is missing: write {0}NAME=DIR", option, argument));
  }
  if (!named) model.name = without_folder(model.path);
  if (!isModelName(model.name)) {
    throw UsageError(
        fmt::format("{0}{1}: \"{2}\" is not a name of letters, digits, '.', '_' and '-': write {0}NAME=DIR", option,
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
  const NamedModel model = splitName(argument);
  const std::string place = is_hub_id(model.path) ? model.path : agent::name_without_folder(model.path);
  if (model.path.size() < argument.size()) return model.name + '=' + place;
  const bool ambiguous = place.starts_with('-') || place.find('=') != std::string::npos;
  return place != argument && ambiguous ? "./" + place : place;
}

NamedModel parseNamedFile(const std::string& argument) {
  std::error_code failed;
  if (std::filesystem::exists(argument, failed)) return {"", argument};
  NamedModel file = splitName(argument);
  if (file.path.size() == argument.size()) return file;
  if (file.path.empty()) throw UsageError(fmt::format("{}: the file is missing: write NAME=FILE", argument));
  if (!isModelName(file.name)) {
    throw UsageError(
        fmt::format("{}: \"{}\" is not a name of letters, digits, '.', '_' and '-': write NAME=FILE, or ./ before a "
                    "file of that name",
                    argument, file.name));
  }
  return file;
}

std::vector<NamedModel> parseModels(std::span<const std::string> arguments, const std::string& option) {
  std::vector<NamedModel> models;
  std::set<std::string> names;
  for (const std::string& argument : arguments) {
    models.push_back(parseModel(argument, option));
    if (!names.insert(models.back().name).second) {
      throw UsageError(fmt::format("{0}{1}: two models are named {2}: name them, as in {0}{2}-2={3}", option, argument,
                                   models.back().name, models.back().path));
    }
  }
  return models;
}

}  // namespace foxscope::cli
