#include "app/gui/document/remote/remote_model.h"

#include <QCoreApplication>
#include <QJsonArray>
#include <QJsonDocument>
#include <QJsonObject>
#include <QLocale>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "app/gui/document/number_text.h"
#include "app/gui/document/remote/remote_place.h"
#include "backend/agent/remote_files.h"
#include "backend/agent/remote_run.h"
#include "backend/agent/run_command.h"
#include "backend/model/session/run.h"
#include "backend/trace/trace_arrays.h"

namespace foxscope::gui {
namespace {

QString tr(const char* text) { return QCoreApplication::translate("foxscope::gui::RemoteModel", text); }

QString sizeText(double bytes) {
  return QLocale().formattedDataSize(static_cast<qint64>(bytes), 0, QLocale::DataSizeSIFormat);
}

QString factsOf(const QJsonObject& model) {
  const QJsonObject options = model["options"].toObject();
  double bytes = 0;
  for (const auto& file : model["files"].toArray()) bytes += file.toObject()["bytes"].toDouble();
  return tr("%1, %2 parameters, %3 layers of %4 heads, %5")
      .arg(model["name"].toString(), parametersText(model["parameters"].toInteger()))
      .arg(options["layers"].toInt())
      .arg(options["heads"].toInt())
      .arg(sizeText(bytes));
}

/// Asks the program there for the facts of a checkpoint. @returns nothing if the job was stopped
std::optional<QJsonObject> describedThere(const agent::RemotePath& place, const Job& job) {
  const auto info = agent::run_command(place.host, {"info", "--json", agent::path_from_root(place)}, "", job);
  if (!info) return std::nullopt;
  return QJsonDocument::fromJson(QByteArray::fromStdString(info->output)).object();
}

/// Words of "run" for what is kept.
/// @param model  as describedThere has it: of a mixture, which experts were chosen is kept too
std::string keepWords(const RunRequest& request, const QJsonObject& model) {
  const bool mixture = model["options"].toObject().contains("experts");
  std::string words;
  for (const KeepWord& word : kKeepWords) {
    if (!request.keep.contains(word.keep) && (word.keep != Keep::experts || !mixture)) continue;
    if (!words.empty()) words += ',';
    words += word.word;
  }
  return words;
}

/// The input of a run: the text, or token ids as a file of them has it.
std::string inputOf(const RunInput& input) {
  if (input.text) return input.text->content;
  if (!input.labels) return nlohmann::json(input.ids).dump();
  return nlohmann::json{{"input_ids", input.ids}, {"labels", *input.labels}}.dump();
}

}  // namespace

std::optional<MadeThere> runThere(const ModelInput& model, const RunSettings& settings, const RunRequest& request,
                                  const Job& job) {
  const agent::RemotePath place = agent::parse_remote_path(model.path.toStdString());
  const auto described = describedThere(place, job);
  if (!described) return std::nullopt;
  const auto file = agent::place_for_run(place.host, model.name.toStdString(), job);
  if (!file) return std::nullopt;
  std::vector<std::string> words{"run", "--model", model.name.toStdString() + "=" + agent::path_from_root(place)};
  const auto add = [&](const char* option, std::string value) {
    words.emplace_back(option);
    words.push_back(std::move(value));
  };
  add(request.input.text ? "--text" : "--ids", "-");
  add("--device", model.device.isEmpty() ? settings.device.word() : model.device.toStdString());
  if (settings.dtype) add("--dtype", to_string(*settings.dtype));
  if (request.limit) add("--length", std::to_string(*request.limit));
  add("--keep", keepWords(request, *described));
  if (request.saliency) add("--saliency", fmt::format("{}:{}", request.saliency->begin, request.saliency->end));
  for (const QString& change : model.interventions) add("--intervene", change.toStdString());
  add("-o", file->path);
  words.emplace_back("--json");
  const auto said = agent::run_command(place.host, words, inputOf(request.input), job);
  if (!said) return std::nullopt;
  const auto opened = agent::open_run(file->url(), RunCheck::glance, job);
  if (!opened) return std::nullopt;
  MadeThere made;
  made.run.trace = opened->traces.front();
  made.run.name = QString::fromStdString(made.run.trace->info().name);
  made.run.file = QString::fromStdString(file->url());
  made.run.host = hostOf(made.run.file);
  made.run.model = model.path;
  made.run.representative = representativeHead(*made.run.trace);
  const QJsonObject summary = QJsonDocument::fromJson(QByteArray::fromStdString(said->output)).object();
  made.run.forwardSeconds = summary["models"].toArray().at(0).toObject()["seconds"].toObject()["forward"].toDouble();
  for (const std::string& note : said->notes) made.notes += QString::fromStdString(note);
  return made;
}

std::optional<std::string> weightsThere(const QString& url, const Job& job) {
  return agent::weights_of(agent::parse_remote_path(url.toStdString()), job);
}

std::optional<ModelThere> modelThere(const QString& url, bool training, const Job& job) {
  const agent::RemotePath place = agent::parse_remote_path(url.toStdString());
  ModelThere model;
  if (!training) {
    const auto described = describedThere(place, job);
    if (!described) return std::nullopt;
    model.facts = factsOf(*described);
    for (const auto& note : (*described)["notes"].toArray()) model.notes += note.toString();
    if ((*described)["tokenizer"].isNull()) model.notes += tr("holds no tokenizer: open a file of token ids for it");
  }
  const auto devices = agent::list_devices(place.host, job);
  if (!devices) return std::nullopt;
  for (const agent::DeviceFacts& device : *devices) {
    QString words = QStringLiteral("%1: %2").arg(QString::fromStdString(device.name),
                                                 QString::fromStdString(device.title).left(80));
    if (device.memory > 0) words += tr(", %1 free").arg(sizeText(static_cast<double>(device.memory)));
    model.devices.push_back({QString::fromStdString(device.name), words});
  }
  return model;
}

}  // namespace foxscope::gui
