#include "app/gui/document/session.h"

#include <algorithm>

#include <QDir>
#include <QFileInfo>
#include <QJsonArray>
#include <QJsonDocument>

#include "app/gui/document/opened_path.h"
#include "backend/base/atomic_file.h"

namespace foxscope::gui {
namespace {

QJsonArray toJson(const Range& range) { return {static_cast<qint64>(range.begin), static_cast<qint64>(range.end)}; }

Range rangeFrom(const QJsonValue& value) {
  const QJsonArray pair = value.toArray();
  return {pair.at(0).toInteger(), pair.at(1).toInteger()};
}

QJsonValue toJson(const std::optional<std::int64_t>& position) {
  return position ? QJsonValue(static_cast<qint64>(*position)) : QJsonValue();
}

std::optional<std::int64_t> positionFrom(const QJsonValue& value) {
  return value.isDouble() ? std::optional<std::int64_t>(value.toInteger()) : std::nullopt;
}

QString shortened(const QString& path, const QString& folder) {
  if (path.isEmpty() || !QDir::isAbsolutePath(path)) return path;
  const QString relative = QDir(folder).relativeFilePath(path);
  return relative.startsWith("..") ? path : "./" + relative;
}

QString lengthened(const QString& path, const QString& folder) {
  return path.startsWith("./") ? QDir::cleanPath(QDir(folder).absoluteFilePath(path)) : path;
}

void addLook(QJsonObject& entry, const RunLook& look) {
  if (!look.label.isEmpty()) entry["label"] = look.label;
  if (look.colour >= 0) entry["colour"] = look.colour;
  if (look.change > 0) entry["change"] = look.change;
  if (look.hidden) entry["hidden"] = true;
}

RunLook lookFrom(const QJsonObject& entry) {
  return {entry["label"].toString(), entry["colour"].toInt(-1), std::max(0, entry["change"].toInt()),
          entry["hidden"].toBool()};
}

constexpr const char* kAnyDType = "auto";

}  // namespace

QJsonObject SelectionState::toJson() const {
  QJsonArray pairs;
  for (const Cursor& lock : locks) pairs.append(QJsonArray{gui::toJson(lock.query), gui::toJson(lock.key)});
  QJsonObject json{{"run", run},
                   {"layer", layer},
                   {"head", head},
                   {"query", gui::toJson(pin.query)},
                   {"key", gui::toJson(pin.key)},
                   {"rows", gui::toJson(view.rows)},
                   {"columns", gui::toJson(view.columns)},
                   {"locked", pairs}};
  if (view.distances.size() > 0) json["distances"] = gui::toJson(view.distances);
  return json;
}

SelectionState SelectionState::fromJson(const QJsonObject& json) {
  std::vector<Cursor> locks;
  for (const auto& entry : json["locked"].toArray()) {
    const QJsonArray pair = entry.toArray();
    locks.push_back({positionFrom(pair.at(0)), positionFrom(pair.at(1))});
  }
  return {json["run"].toString(),
          json["layer"].toInt(),
          json["head"].toInt(),
          {positionFrom(json["query"]), positionFrom(json["key"])},
          {rangeFrom(json["rows"]), rangeFrom(json["columns"]), rangeFrom(json["distances"])},
          locks};
}

RunSettings settingsOfSession(const QJsonObject& session) {
  const QJsonObject json = session["settings"].toObject();
  const RunSettings defaults;
  return {json["limit"].toInteger(defaults.limit), DeviceChoice::parse(json["device"].toString("auto").toStdString()),
          parse_dtype(json["dtype"].toString(kAnyDType).toStdString()),
          json["query_key"].toBool(defaults.keepQueryKey)};
}

Session Session::fromJson(const QJsonObject& json, const QString& folder) {
  Session session;
  for (const auto& entry : json["models"].toArray()) {
    const QJsonObject model = entry.toObject();
    QStringList interventions;
    for (const auto& text : model["interventions"].toArray()) interventions += text.toString();
    session.models.push_back({model["name"].toString(), lengthened(model["path"].toString(), folder), interventions,
                              model["base"].toString(), lookFrom(model),
                              lengthened(model["training"].toString(), folder), model["device"].toString()});
  }
  session.text = {lengthened(json["text"]["file"].toString(), folder), json["text"]["content"].toString().toStdString(),
                  json["text"]["ids"].toBool(), json["text"]["name"].toString()};
  session.settings = settingsOfSession(json);
  for (const auto& file : json["run_files"].toArray()) session.runFiles += lengthened(file.toString(), folder);
  for (const auto& entry : json["runs"].toArray()) {
    const QJsonObject run = entry.toObject();
    session.runs.push_back({lengthened(run["file"].toString(), folder), run["model"].toString(), lookFrom(run)});
    const QJsonObject kept = run["kept"].toObject();
    if (kept.isEmpty()) continue;
    SessionRun& made = session.runs.back();
    made.kept = lengthened(kept["file"].toString(), folder);
    made.path = lengthened(kept["path"].toString(), folder);
    made.textFile = lengthened(kept["text"].toString(), folder);
    made.textName = kept["text_name"].toString();
    made.base = kept["base"].toString();
    made.seconds = kept["seconds"].toDouble();
    made.ofSession = !json.contains("autosave");
  }
  // Older sessions do not say it. What a window kept by itself lies in no folder of a session's.
  const bool any = !json.contains("autosave") &&
                   std::ranges::any_of(session.runs, [](const SessionRun& run) { return !run.kept.isEmpty(); });
  session.withRuns = json["with_runs"].toBool(any);
  for (const auto& file : json["evaluations"].toArray()) session.evaluations += lengthened(file.toString(), folder);
  session.selection = json["selection"].toObject();
  session.window = json["window"].toObject();
  if (json["autosave"].isObject()) {
    const QJsonObject note = json["autosave"].toObject();
    session.autosave = AutosaveNote{note["session"].toString(), note["text"].toString(), {}, note["runs"].toInt()};
    for (const auto& name : note["left"].toArray()) session.autosave->left += name.toString();
    for (const auto& name : note["lost"].toArray()) session.autosave->lost += name.toString();
    for (const auto& name : note["waiting"].toArray()) session.autosave->waiting += name.toString();
  }
  return session;
}

QJsonObject Session::toJson(const QString& folder) const {
  QJsonArray modelList;
  for (const ModelInput& model : models) {
    QJsonObject entry{{"name", model.name}, {"path", shortened(model.path, folder)}};
    if (!model.interventions.isEmpty()) entry["interventions"] = QJsonArray::fromStringList(model.interventions);
    if (!model.base.isEmpty()) entry["base"] = model.base;
    if (!model.training.isEmpty()) entry["training"] = shortened(model.training, folder);
    if (!model.device.isEmpty()) entry["device"] = model.device;
    addLook(entry, model.look);
    modelList.append(entry);
  }
  QJsonArray files;
  for (const QString& file : runFiles) files.append(shortened(file, folder));
  QJsonArray evaluationFiles;
  for (const QString& file : evaluations) evaluationFiles.append(shortened(file, folder));
  QJsonArray runList;
  for (const SessionRun& run : runs) {
    QJsonObject entry{{"model", run.model}};
    if (!run.file.isEmpty()) entry["file"] = shortened(run.file, folder);
    addLook(entry, run.look);
    if (!run.kept.isEmpty()) {
      entry["kept"] = QJsonObject{{"file", shortened(run.kept, folder)},
                                  {"path", shortened(run.path, folder)},
                                  {"text", shortened(run.textFile, folder)},
                                  {"text_name", run.textName},
                                  {"base", run.base},
                                  {"seconds", run.seconds}};
    }
    runList.append(entry);
  }
  QJsonObject textJson = text.file.isEmpty() ? QJsonObject{{"content", QString::fromStdString(text.content)}}
                                             : QJsonObject{{"file", shortened(text.file, folder)}};
  if (text.ids) textJson["ids"] = true;
  if (!text.name.isEmpty()) textJson["name"] = text.name;
  QJsonObject json{{kSessionKey, kSessionSchema},
                   {"models", modelList},
                   {"text", textJson},
                   {"settings", QJsonObject{{"limit", static_cast<qint64>(settings.limit)},
                                            {"device", QString::fromStdString(settings.device.word())},
                                            {"dtype", settings.dtype ? to_string(*settings.dtype) : kAnyDType},
                                            {"query_key", settings.keepQueryKey}}},
                   {"run_files", files},
                   {"runs", runList},
                   {"with_runs", withRuns},
                   {"evaluations", evaluationFiles},
                   {"selection", selection},
                   {"window", window}};
  if (autosave) {
    json["autosave"] = QJsonObject{{"session", autosave->session},
                                   {"text", autosave->text},
                                   {"left", QJsonArray::fromStringList(autosave->left)},
                                   {"lost", QJsonArray::fromStringList(autosave->lost)},
                                   {"waiting", QJsonArray::fromStringList(autosave->waiting)},
                                   {"runs", autosave->runs}};
  }
  return json;
}

void Session::write(const QString& path) const {
  const QByteArray content = QJsonDocument(toJson(QFileInfo(path).absolutePath())).toJson();
  AtomicFile file(path.toStdString(), true);
  file.write(content.constData(), static_cast<std::size_t>(content.size()));
  file.commit();
}

}  // namespace foxscope::gui
